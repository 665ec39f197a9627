"""Fixtures of the page tests: a synced catalogue, and three people: owner, stranger and visitor."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from benchmarks.harness import default_suites
from tests.rows import synced

from . import factories


@pytest.fixture(scope="session")
def two_operations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of suites with two shipped operations: all of them in every test would take most of its time."""
    folder = tmp_path_factory.mktemp("suites") / "robust_kbench"
    folder.mkdir()
    for op in ("mnist_linear_relu", "layernorm"):
        (folder / op).symlink_to(default_suites() / "robust_kbench" / op)
    return folder.parent


@pytest.fixture
def tasks(db: None, two_operations: Path) -> None:
    """A synced catalogue, as a started site has it."""
    synced(two_operations)


@pytest.fixture(autouse=True)
def begins_with_tasks(tasks: None) -> None:
    """Every test of a page does."""


@pytest.fixture
def all_tasks(tasks: None) -> None:
    synced()


@pytest.fixture
def owner() -> Any:
    return factories.user("olga")


@pytest.fixture
def stranger() -> Any:
    return factories.user("stefan")


@pytest.fixture
def visitor() -> Client:
    """Somebody without an account."""
    return Client()


@pytest.fixture
def as_owner(owner: Any) -> Client:
    client = Client()
    client.force_login(owner)
    return client


@pytest.fixture
def as_stranger(stranger: Any) -> Client:
    client = Client()
    client.force_login(stranger)
    return client


@pytest.fixture
def staff() -> Any:
    user = factories.user("sam")
    user.is_staff = True
    user.save()
    return user


@pytest.fixture
def as_staff(staff: Any) -> Client:
    client = Client()
    client.force_login(staff)
    return client
