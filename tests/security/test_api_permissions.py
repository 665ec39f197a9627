"""Who gets which answer from the API: every operation of the OpenAPI document, asked with five kinds of token.

A new operation fails until it is listed. A request has no body, so 422 means: allowed, and then the fields are missing.
"""

from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from benchmarks.accounts.tokens import token_create
from benchmarks.api import api
from benchmarks.states import TokenScope

from . import routes
from .expected import OPERATIONS
from .world import World

METHODS = ("get", "post", "put", "patch", "delete")


def operations() -> list[str]:
    paths = api.get_openapi_schema()["paths"]
    return sorted(f"{method.upper()} {path}" for path, item in paths.items() for method in item if method in METHODS)


@pytest.fixture
def tokens(world: World) -> dict[str, str]:
    """In the order of the table: none, a stranger's, the owner's for reading, the owner's for writing, one of staff."""
    return {
        "none": "",
        "stranger": token_create(world.stranger, "all").text,
        "reads": token_create(world.owner, "reads", TokenScope.READ).text,
        "owner": token_create(world.owner, "all").text,
        "staff": token_create(world.staff, "all").text,
    }


def test_every_operation_is_listed_with_what_each_token_may_do() -> None:
    assert sorted(OPERATIONS) == operations()


def test_what_each_token_may_do(world: World, tokens: dict[str, str]) -> None:
    found = {name: " ".join(_status(world, name, token) for token in tokens.values()) for name in OPERATIONS}
    assert found == OPERATIONS


def test_no_token_changes_what_is_anothers(world: World, tokens: dict[str, str]) -> None:
    kept = {**world.rows_of_owner(), "tokens": None}  # asking leaves its time in a token
    for name in OPERATIONS:
        for reader in ("none", "stranger", "reads"):
            _ask(world, name, tokens[reader])
        assert {**world.rows_of_owner(), "tokens": None} == kept, name


def _status(world: World, name: str, token: str) -> str:
    with transaction.atomic():
        status = _ask(world, name, token).status_code
        transaction.set_rollback(True)
    return str(status)


def _ask(world: World, name: str, token: str) -> Any:
    method, path = name.split(" ")
    headers = {"authorization": f"Bearer {token}"} if token else {}
    client = Client(raise_request_exception=False)
    return client.generic(
        method, routes.path_of_operation(path, world), headers=headers, content_type="application/json"
    )
