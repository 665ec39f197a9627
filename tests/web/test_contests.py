"""The pages of contests: drafts for staff, taking part, and hidden configurations that appear when it is over."""

import json
from typing import Any

import pytest
from django.test import Client

from benchmarks.accounts.tokens import token_create
from benchmarks.models import Contest
from benchmarks.states import ContestState

from . import contests, factories

FORM = {
    "title": "Spring",
    "slug": "spring",
    "rules_text": "Be kind.",
    "starts": "2030-03-01T12:00",
    "ends": "2030-03-02T12:00",
    "best_n": "2",
    "tasks": [contests.TASK],
    "hidden": json.dumps({contests.TASK: {"cpu": [{"batch_size": 4861}]}}),
}


def _page(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return response.content.decode()


@pytest.fixture
def form() -> dict[str, Any]:
    return {**FORM, "device_kinds": [contests.cpu_kind().pk]}


def test_staff_make_and_announce_a_contest(as_staff: Client, as_owner: Client, form: dict[str, Any]) -> None:
    assert as_staff.post("/contests/new/", form).headers["Location"] == "/contests/spring/"
    assert as_owner.get("/contests/spring/").status_code == 404
    edit = _page(as_staff, "/contests/spring/edit/")
    assert "batch_size&quot;: 4861" not in edit
    assert "sealed already" in edit
    assert as_staff.post("/contests/spring/edit/", {**form, "hidden": "", "best_n": "4"}).status_code == 302
    as_staff.post("/contests/spring/announce/")
    contest = Contest.objects.get()
    assert (contest.state, contest.best_n) == (ContestState.ANNOUNCED, 4)
    page = _page(as_owner, "/contests/spring/")
    assert contest.sealed_sha256 in page
    assert "batch_size" not in page
    as_staff.post("/contests/spring/cancel/", {"reason": "Nobody came."})
    assert "Cancelled: Nobody came." in _page(as_owner, "/contests/spring/")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"slug": "new"}, "The site uses this name itself"),
        ({"ends": "2030-03-01T11:00"}, "after the start"),
        ({"hidden": '{"a/b/c": {}}'}, "not a task of this contest"),
        ({"best_n": "11"}, "less than or equal to 10"),
    ],
)
def test_a_draft_is_refused_with_its_reason(
    as_staff: Client, form: dict[str, Any], change: dict[str, str], why: str
) -> None:
    response = as_staff.post("/contests/new/", {**form, **change})
    assert (response.status_code, why in response.content.decode()) == (200, True)
    assert _hidden(response).strip() == ""
    assert not Contest.objects.exists()


def _hidden(response: Any) -> str:
    """What the page puts into the field of hidden configurations."""
    return str(response.content.decode().partition('name="hidden"')[2].partition("</textarea>")[0].partition(">")[2])


def test_taking_part(as_owner: Client, visitor: Client, owner: Any) -> None:
    contest = contests.running_with()
    assert "Log in to take part" in _page(visitor, contest.get_absolute_url())
    as_owner.post(f"{contest.get_absolute_url()}join/")
    assert "You take part" in _page(as_owner, contest.get_absolute_url())
    assert "Part of the contest" in _page(visitor, f"/tasks/{contests.TASK}/")
    private = factories.judged(owner=owner, visibility="private")
    page = _page(visitor, contest.get_absolute_url())
    assert owner.get_username() in page
    assert str(private.code) not in page


def test_hidden_configurations_appear_with_the_final_judging(visitor: Client, as_staff: Client) -> None:
    contest = contests.running_with()
    paths = ["/contests/running/", "/api/v1/contests/running", "/contests/", "/api/v1/contests"]
    for client in (visitor, as_staff):
        assert not any(contests.is_marked(_page(client, path)) for path in paths)
    Contest.objects.filter(pk=contest.pk).update(state=ContestState.JUDGING)
    assert [contests.is_marked(_page(visitor, path)) for path in paths] == [True, True, False, False]


def test_programs_read_and_join(visitor: Client, owner: Any) -> None:
    contests.running_with()
    headers = {"authorization": f"Bearer {token_create(owner, 'mine').text}"}
    joined = visitor.post("/api/v1/contests/running/join", headers=headers).json()
    assert (joined["takes_part"], joined["sealed"], joined["tasks"]) == (True, None, [contests.TASK])
    factories.judged(owner=owner)
    told = visitor.get("/api/v1/contests/running").json()
    assert [(line["participant"], line["speedup"]) for line in told["boards"][0]["entries"]] == [("olga", 1.5)]
    assert told["overall"][0]["rank"] == 1
    Contest.objects.update(state=ContestState.FINISHED)
    refused = visitor.post("/api/v1/contests/running/join", headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (409, "not-open")
