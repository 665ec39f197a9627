"""Who gets which answer where: four readers ask at every address. A new view fails until it is listed."""

from collections.abc import Callable
from http.cookies import SimpleCookie
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from benchmarks.accounts.tokens import token_create
from benchmarks.states import TokenScope

from . import routes
from .expected import PAGES, Page
from .world import READERS, World

Answers = dict[str, str]


def answers(world: World, ask: Callable[[Any, str], Any], pages: dict[str, Page]) -> Answers:
    """By route, the statuses that the readers got, in their order; nothing that was done stays done."""
    sessions = {reader: world.client(reader).cookies for reader in READERS}
    return {
        route: " ".join(_status(sessions[reader], ask, routes.path_of(route, world)) for reader in READERS)
        for route in pages
    }


def _status(session: SimpleCookie, ask: Callable[[Any, str], Any], path: str) -> str:
    with transaction.atomic():
        client = Client(raise_request_exception=False)
        client.cookies.update(session)
        status = ask(client, path).status_code
        transaction.set_rollback(True)
    return str(status)


def test_every_view_is_listed_with_what_each_reader_may_do() -> None:
    assert sorted(PAGES) == routes.routes()


def test_reading(world: World) -> None:
    assert answers(world, lambda client, path: client.get(path), PAGES) == {
        route: page.get for route, page in PAGES.items()
    }


def test_writing(world: World) -> None:
    found = answers(world, lambda client, path: client.post(path, {}), PAGES)
    assert found == {route: page.post for route, page in PAGES.items()}


@pytest.mark.parametrize("reader", ["anonymous", "stranger"])
def test_nobody_changes_what_is_anothers(world: World, reader: str) -> None:
    """Whatever the answer was: after a post by somebody else the rows of the owner are as they were."""
    before = world.rows_of_owner()
    client = world.client(reader)
    for route in PAGES:
        client.post(routes.path_of(route, world), {})
        assert world.rows_of_owner() == before, route


def test_what_staff_have_hidden_is_for_its_owner_and_staff(world: World) -> None:
    code, submission = world.hidden.code, world.hidden.submission.code
    paths = [f"/evaluations/{code}/{part}" for part in ("", "live/", "report.json", "source/")]
    for path in [*paths, f"/submissions/diff/?a={code}&b={code}"]:
        statuses = {reader: world.client(reader).get(path).status_code for reader in READERS}
        assert statuses == {"anonymous": 404, "stranger": 404, "owner": 200, "staff": 200}, path
    assert world.client("stranger").get(f"/evaluations/{code}/badge.svg").status_code == 404
    assert world.client("stranger").get(f"/submissions/{submission}/").status_code == 404
    assert str(code) not in world.client("stranger").get("/").content.decode()


@pytest.mark.parametrize("reader", ["anonymous", "stranger", "owner"])
def test_the_admin_is_for_staff(world: World, reader: str) -> None:
    client = world.client(reader)
    for route in routes.admin_routes():
        path = "/" + route.split("(?P<")[0].split("<")[0]
        assert path == "/admin/login/" or client.get(path).status_code in (302, 404), path


def test_no_form_is_taken_without_its_token(world: World) -> None:
    """Whatever the view would say: a post from another site must not reach it."""
    client = world.client("staff", enforce_csrf_checks=True)
    taken = [route for route in routes.routes() if client.post(routes.path_of(route, world)).status_code != 403]
    assert taken == []


@pytest.mark.parametrize("method", ["get", "post"])
def test_a_token_is_nobody_on_a_page(world: World, method: str) -> None:
    """Whoever sends one gets the answer of somebody without an account, be the token the owner's or one of staff."""
    tokens = {
        f"{name}: {scope}": token_create(who, name, scope).text
        for scope in TokenScope.values
        for name, who in (("owner", world.owner), ("staff", world.staff))
    }
    for route in [*routes.routes(), *routes.admin_routes()]:
        if route == "events/":
            continue
        nobodys = _page(world, route, method, {})
        for name, text in tokens.items():
            assert _page(world, route, method, {"authorization": f"Bearer {text}"}) == nobodys, (route, name)


def test_a_token_beside_a_session_changes_nothing(world: World) -> None:
    """Not even one that is unknown: a proxy may want the header for itself."""
    client = world.client("owner", headers={"authorization": "Bearer of-somebody-else"})
    assert client.get(routes.path_of("accounts/tokens/", world)).status_code == 200
    assert client.get("/api/v1/whoami").status_code == 401
    assert client.get("/events/?topics=queue:cpu").status_code == 401


def _page(world: World, route: str, method: str, headers: dict[str, str]) -> tuple[int, str]:
    path = routes.path_of(route, world) if not route.startswith(routes.ADMIN) else "/" + route.split("<", maxsplit=1)[0]
    client = Client(headers=headers, raise_request_exception=False)
    with transaction.atomic():
        answer = getattr(client, method)(path)
        transaction.set_rollback(True)
    return answer.status_code, answer.headers.get("Location", "")
