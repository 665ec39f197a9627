"""Wherever a score leaves the site or is shown: whether an earlier revision of the timing has measured it."""

import csv
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from benchmarks.dataset import rows
from benchmarks.harness import timing_revision
from benchmarks.models import Evaluation

from . import factories
from .test_bounds import enter, replayed
from .test_previews import tags
from .test_timing_revisions import earlier

API = "/api/v1"
LATEST = timing_revision("cuda")


@pytest.fixture
def old() -> Evaluation:
    return enter("olga", earlier(replayed(1.80)))


@pytest.fixture
def new() -> Evaluation:
    return enter("newer", replayed(1.50))


def board(page: str) -> str:
    return reverse(page, args=[*factories.TASK, factories.gpu_kind().slug])


def test_badges_tell_it(old: Evaluation, new: Evaluation, visitor: Client) -> None:
    addresses = [reverse("evaluation-badge", args=[entry.code]) for entry in (old, new)]
    shown = [visitor.get(address).content.decode() for address in (*addresses, board("board-badge"))]
    assert ["vs the stronger baseline, earlier timing, " in text for text in shown] == [True, False, True]


def test_previews_tell_it(old: Evaluation, new: Evaluation, visitor: Client) -> None:
    task = f"{reverse('task', args=factories.TASK)}?device={factories.gpu_kind().slug}"
    addresses = [task, board("leaderboard"), old.get_absolute_url(), new.get_absolute_url()]
    shown = [tags(visitor, address)["og:description"] for address in addresses]
    assert ["replayed timing, earlier timing, " in text for text in shown] == [True, True, True, False]


@pytest.mark.parametrize(
    ("page", "times"),
    [("home", 1), ("tasks", 1), ("task", 1), ("leaderboards", 1), ("person", 2), ("diff", 1)],
)
def test_pages_tell_it(old: Evaluation, new: Evaluation, visitor: Client, page: str, times: int) -> None:
    device = {"device": factories.gpu_kind().slug}
    address, query = {
        "home": (reverse("home"), {}),
        "tasks": (reverse("tasks"), device),
        "task": (reverse("task", args=factories.TASK), device),
        "leaderboards": (reverse("leaderboards"), device),
        "person": (reverse("person", args=["olga"]), {}),
        "diff": (reverse("submission-diff"), {"a": old.submission.code, "b": new.submission.code}),
    }[page]
    text = visitor.get(address, query).content.decode().partition("<body")[2]
    assert text.count("earlier timing") == times


def test_the_own_list_tells_it(old: Evaluation) -> None:
    client = Client()
    client.force_login(old.submission.owner)
    assert ", earlier timing</span>" in client.get(reverse("own-submissions")).content.decode()


def test_the_api_names_the_revision_of_a_score(old: Evaluation, new: Evaluation, visitor: Client) -> None:
    query: dict[str, Any] = {"task": "/".join(factories.TASK), "device": factories.gpu_kind().slug}
    entries = visitor.get(f"{API}/leaderboards", query).json()["entries"]
    assert [entry["score"]["timing_revision"] for entry in entries] == [LATEST - 1, LATEST]
    found = [visitor.get(f"{API}/evaluations/{entry.code}").json()["score"] for entry in (old, new)]
    assert [score["timing_revision"] for score in found] == [LATEST - 1, LATEST]
    lines = visitor.get(f"{API}/submissions").json()["submissions"]
    assert {line["score"]["timing_revision"] for line in lines} == {LATEST - 1, LATEST}
    for path in ("leaderboards", "leaderboards/record"):
        text = visitor.get(f"{API}/{path}", {**query, "format": "csv"}).content.decode()
        assert str(LATEST - 1) in [row["timing_revision"] for row in csv.DictReader(text.splitlines())]


def test_exports_and_the_data_set_name_the_revision(old: Evaluation, new: Evaluation, visitor: Client) -> None:
    exported = visitor.get(f"{API}/export").json()["submissions"]
    assert [row["evaluations"][0]["timing_revision"] for row in exported] == [LATEST - 1, LATEST]
    reports = rows.reports([old.submission_id, new.submission_id])
    assert {(row["evaluation_id"], row["timing_revision"]) for row in reports} == {
        (str(old.code), LATEST - 1),
        (str(new.code), LATEST),
    }


def test_more_entries_need_no_more_queries(visitor: Client) -> None:
    def queries(*addresses: str) -> list[int]:
        counts = []
        for address in addresses:
            visitor.get(address)  # what is kept for a while
            with CaptureQueriesContext(connection) as seen:
                visitor.get(address)
            counts.append(len(seen))
        return counts

    entry = enter("olga", earlier(replayed(1.80)), "int a;\n")
    pages = (reverse("person", args=["olga"]), reverse("home"), board("leaderboard"), f"{API}/export")
    before = queries(*pages)
    for number in range(3):
        enter("olga", earlier(replayed(1.70)), f"int b{number};\n")
        enter(f"other{number}", earlier(replayed(1.80)), f"int c{number};\n")
    assert entry.is_timed_earlier
    assert queries(*pages) == before
