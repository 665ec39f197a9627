"""The status page and `/api/v1/status`: the same figures, a fixed number of queries."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import caches
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchmarks import switches
from benchmarks.models import QueueSample
from benchmarks.states import Priority, Switch, WorkerState
from benchmarks.templatetags.sparklines import HEIGHT, MARGIN, sparkline
from benchmarks.views.status import version_rows
from tests.rows import cpu_kind

from . import factories


def crowd() -> None:
    factories.judged()
    factories.worker(tested=timezone.now(), test_passed=True, versions={"torch": "2.13.0", "driver": "580"})
    factories.worker("compile", tested=timezone.now(), test_passed=False, versions={"torch": "2.12.1"})
    for number in range(3):
        factories.queued(text=factories.SOURCE + f"// {number}\n", priority=Priority.AGENT)
    kind = cpu_kind()
    for minutes, queued in ((1, 3), (90, 12)):
        taken = timezone.now() - timedelta(minutes=minutes)
        QueueSample.objects.create(device_kind=kind, taken=taken, queued=queued, running=1)


def test_the_api_tells_depth_waits_outcomes_and_history(visitor: Client) -> None:
    crowd()
    queue = visitor.get("/api/v1/status").json()["queues"][0]
    assert queue["depth"] == {"people": 0, "agents": 3, "rejudge": 0, "examples": 0}
    assert (queue["queued"], queue["workers"], queue["last_hour"]["count"]) == (3, 1, 1)
    assert queue["last_30_days"] == {
        "judged": 1, "accepted": 1, "our_fault": 0, "success_rate": 1.0, "internal_error_rate": 0.0
    }  # fmt: skip
    assert [sample["queued"] for sample in queue["history"]] == [12, 3]


def test_the_api_tells_self_tests_versions_and_incidents(visitor: Client) -> None:
    crowd()
    switches.switch_set(Switch.RUNS, on=False, message="budget is spent")
    found = visitor.get("/api/v1/status").json()
    compiler, judge = sorted(found["workers"], key=lambda row: row["role"])
    assert (judge["test_passed"], judge["alive"], judge["versions"]["driver"]) == (True, True, "580")
    assert compiler["test_passed"] is False
    assert [item["text"] for item in found["incidents"]] == ["budget is spent"]


def test_the_page_shows_the_same(visitor: Client) -> None:
    crowd()
    html = visitor.get("/status/").content.decode()
    assert "0 from people, 3 from agents, 0 to be judged again, 0 shipped examples" in " ".join(html.split())
    assert "at most 12 waiting, 3 at last" in html
    assert "580" in html
    assert "differs" in html
    assert "failed" in html
    assert "100 % ended with a verdict about the kernel" in html


def test_what_does_not_work_is_said_above(visitor: Client) -> None:
    html = visitor.get("/status/").content.decode()
    assert "No worker is online for judging on cpu-avx2." in html
    assert "Everything works" not in html


def test_a_worker_that_tests_itself_is_not_called_missing(visitor: Client) -> None:
    factories.worker("judge", state=WorkerState.STARTING)
    html = visitor.get("/status/").content.decode()
    assert "The worker for judging on cpu-avx2 is starting and testing itself." in html
    assert "No worker is online for judging" not in html


def test_with_everything_there_it_says_so(visitor: Client, redis_server: Any) -> None:
    for role in ("judge", "compile", "maint"):
        factories.worker(role)
    factories.worker("agents", device_kind=None)
    assert "Everything works" in visitor.get("/status/").content.decode()


def test_a_site_without_workers_and_history_has_a_page(visitor: Client) -> None:
    html = visitor.get("/status/").content.decode()
    assert "first point of this history" in html
    assert "No worker has reported yet" in html


def test_before_the_click_a_device_tells_place_and_time(visitor: Client) -> None:
    factories.worker("compile")
    for number in range(3):
        factories.judged(text=factories.SOURCE + f"// {number}\n")
    html = visitor.get("/tasks/robust-kbench/mnist_linear_relu/forward/submit/").content.decode()
    assert "You would be next; judging should begin in less than a minute." in html


def test_the_number_of_queries_is_fixed(visitor: Client, django_assert_max_num_queries: Any) -> None:
    crowd()
    for path in ("/status/", "/api/v1/status"):
        caches["pages"].clear()
        with django_assert_max_num_queries(25) as few:
            visitor.get(path)
        for number in range(15):
            factories.queued(text=factories.SOURCE + f"// {path} {number}\n")
        with django_assert_max_num_queries(len(few)):
            visitor.get(path)


@pytest.mark.parametrize("path", ["/status/", "/metrics"])
def test_what_has_ended_is_counted_without_its_key(visitor: Client, path: str) -> None:
    """The index that has the rest does not hold it on PostgreSQL, which would read all rows in whole."""
    crowd()
    with CaptureQueriesContext(connection) as ran:
        assert visitor.get(path).status_code == 200
    counting = [query["sql"] for query in ran if 'COUNT("benchmarks_evaluation"."verdict")' in query["sql"]]
    assert len(counting) == 2
    assert not [sql for sql in counting if 'COUNT("benchmarks_evaluation"."id")' in sql]


def test_a_sparkline_goes_from_nothing_to_the_most(visitor: Client) -> None:
    now = timezone.now()
    svg = str(sparkline([(now - timedelta(hours=12), 10), (now, 0)]))
    assert f'points="120.0,{MARGIN:.1f} 237.0,{HEIGHT - MARGIN:.1f}"' in svg
    assert "at most 10 waiting, 0 at last" in svg
    assert sparkline([]) == ""


def test_versions_stand_side_by_side(visitor: Client) -> None:
    crowd()
    judge, compiler = factories.worker(), factories.worker("compile")
    rows = {row.tool: (row.texts, row.differs) for row in version_rows([judge, compiler])}
    assert rows == {"torch": (["2.13.0", "2.12.1"], True), "driver": (["580", None], False)}
