"""The pages of contests: drafts for staff, taking part, and hidden configurations that appear when it is over."""

import json
import uuid
from typing import Any

import pytest
from django.core.cache import caches
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from benchmarks.accounts.ownership import submission_delete
from benchmarks.accounts.tokens import token_create
from benchmarks.contests import running
from benchmarks.models import CodeBlob, Contest, Evaluation, Submission
from benchmarks.moderation import decisions
from benchmarks.states import ActionKind, ContestState
from tests.counting import sqlite_steps

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


def _viewed(client: Client, path: str) -> tuple[str, int, int]:
    """The page, its queries, and how many hundreds of instructions SQLite needed for them."""
    with CaptureQueriesContext(connection) as caught, sqlite_steps() as steps:
        page = _page(client, path)
    return page, len(caught), len(steps)


def _copies(evaluation: Evaluation, count: int, *owners: Any) -> None:
    """More accepted submissions of other programs, of these owners in turn, each slower than the one before."""
    made = []
    for number in range(count):
        row = Submission.objects.get(pk=evaluation.submission_id)
        row.pk, row.code, row.client_token, row.owner = None, uuid.uuid4(), "", owners[number % len(owners)]
        row.source_key = f"{number:064d}"
        row.blob = CodeBlob.objects.create(sha256=row.source_key, text="", size_bytes=1, line_count=1)
        made.append(row)
    judged = []
    for number, row in enumerate(Submission.objects.bulk_create(made), 1):
        copy = Evaluation.objects.get(pk=evaluation.pk)
        copy.pk, copy.code, copy.submission, copy.object_key = None, uuid.uuid4(), row, ""
        copy.score = copy.score_lo = copy.score_hi = evaluation.score - number / 10_000
        judged.append(copy)
    Evaluation.objects.bulk_create(judged)


def test_views_between_two_results_do_not_read_all_submissions(visitor: Client, owner: Any, stranger: Any) -> None:
    contests.running_with(owner, stranger)
    first = factories.judged(factories.passing(2.0, 0.02), owner=owner)
    _viewed(visitor, "/contests/running/")
    _, few_queries, few = _viewed(visitor, "/contests/running/")
    _copies(first, 600, owner, stranger)
    caches["boards"].clear()
    page, read_queries, read = _viewed(visitor, "/contests/running/")
    again, queries, steps = _viewed(visitor, "/contests/running/")
    assert again == page
    assert page.count('<th scope="row">') == 4  # two participants, on the board and overall
    assert queries == few_queries < read_queries <= few_queries + 15  # of two leaders alone all judgings are looked at
    assert steps <= few + 10 < read  # few lines more are read by their keys
    assert read < 3 * 600  # when something has changed, so much of each submission: no whole rows, nothing twice


@pytest.mark.parametrize("change", ["a better one", "hidden by staff", "deleted", "joined"])
def test_whatever_changes_who_leads_is_seen_at_once(visitor: Client, owner: Any, staff: Any, change: str) -> None:
    contest = contests.running_with(owner)
    stranger = factories.user("another")
    factories.judged(factories.passing(3.0, 0.02), owner=stranger)
    factories.judged(factories.passing(1.5, 0.02), owner=owner, text="// slower\n")
    best = factories.judged(factories.passing(2.0, 0.02), owner=owner, text="// faster\n")
    before = _page(visitor, contest.get_absolute_url())
    assert ("2.00×" in before, "3.00×" in before) == (True, False)
    if change == "a better one":
        factories.judged(factories.passing(4.0, 0.02), owner=owner, text="// best\n")
        gone, there = "2.00×", "4.00×"
    elif change == "hidden by staff":
        decisions.decide(best.submission, ActionKind.HIDE, by=staff, reason="It copies.")
        gone, there = "2.00×", "1.50×"
    elif change == "deleted":
        submission_delete(best.submission)
        gone, there = "2.00×", "1.50×"
    else:
        running.join(contest, stranger)
        gone, there = "", "3.00×"
    after = _page(visitor, contest.get_absolute_url())
    assert there in after
    assert not gone or gone not in after


def test_a_long_table_shows_its_first_lines_and_the_api_all(visitor: Client, monkeypatch: Any) -> None:
    monkeypatch.setattr("benchmarks.views.contests.LINES_MAX", 2)
    people = [factories.user(f"person{number}") for number in range(3)]
    contests.running_with(*people)
    for number, account in enumerate(people):
        factories.judged(factories.passing(2.0 + number, 0.02), owner=account, text=f"// {number}\n")
    page = _page(visitor, "/contests/running/")
    assert page.count("The first 2 of 3.") == 2
    assert ("person2" in page, "person0" in page) == (True, False)
    told = visitor.get("/api/v1/contests/running").json()
    assert len(told["boards"][0]["entries"]) == len(told["overall"]) == 3
