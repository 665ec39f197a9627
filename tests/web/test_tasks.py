"""The catalogue and the page of a task: search, filters, hidden configurations, baselines, starter code."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from benchmarks.harness import Source, check_source, default_rules, default_suites, find_task, load_suite
from benchmarks.models import Task, TaskVersion

from . import factories

TASK_URL = reverse("task", args=factories.TASK)


def names_on(client: Client, query: str) -> list[str]:
    html = client.get(f"/tasks/?{query}").content.decode()
    return re.findall(r'<th scope="row"><a href="/tasks/[\w-]+/([^"]+)/"', html)


@pytest.mark.usefixtures("all_tasks")
def test_all_published_task_directions_are_listed(visitor: Client) -> None:
    assert sorted(names_on(visitor, "")) == sorted(f"{task.op}/{task.direction}" for task in Task.objects.listed())


def test_search_finds_a_task_by_every_word(visitor: Client) -> None:
    assert names_on(visitor, "q=linear+relu+mnist") == ["mnist_linear_relu/forward", "mnist_linear_relu/backward"]


def test_filters_combine(visitor: Client) -> None:
    assert names_on(visitor, "q=layernorm&direction=backward") == ["layernorm/backward"]


def test_a_search_without_a_hit_offers_the_way_back(visitor: Client) -> None:
    assert "Show all tasks" in visitor.get("/tasks/?q=nothing-is-called-so").content.decode()


@pytest.mark.parametrize("query", ["sort=nonsense", "page=nonsense", "page=9999", "state=nonsense&family=nonsense"])
def test_a_malformed_address_shows_the_list(visitor: Client, query: str) -> None:
    assert len(names_on(visitor, query)) == 4


def test_the_best_verified_speedup_leads_when_sorted(visitor: Client) -> None:
    factories.judged(factories.passing(1.5))
    assert names_on(visitor, "sort=-best")[0] == "mnist_linear_relu/forward"


@pytest.mark.parametrize(("state", "speedup"), [("faster", 1.5), ("slower", 0.8)])
def test_the_state_filter_compares_with_pytorch(visitor: Client, state: str, speedup: float) -> None:
    factories.judged(factories.passing(speedup))
    assert names_on(visitor, f"state={state}") == ["mnist_linear_relu/forward"]
    assert len(names_on(visitor, "state=open")) == 3


def test_a_speedup_in_the_list_has_baseline_interval_and_trust(visitor: Client) -> None:
    factories.judged(factories.passing(1.5, 0.02))
    html = visitor.get("/tasks/").content.decode()
    assert "1.47× to 1.53× vs the stronger baseline" in html
    assert "Timed with the judge" in html


def test_the_task_page_counts_hidden_configurations_without_their_values(visitor: Client) -> None:
    hidden = [c for c in find_task(default_suites(), "mnist_linear_relu/forward").configs_for("cpu") if c.hidden]
    html = visitor.get(TASK_URL).content.decode()
    assert f"{len(hidden)} hidden configurations" in html
    assert not any(f"{name}={value}" in html for c in hidden for name, value in c.values.items() if value in (37, 131))


def test_baselines_say_that_they_are_not_measured_yet(visitor: Client) -> None:
    assert b"not measured yet" in visitor.get(TASK_URL).content


def test_baselines_appear_once_a_judging_has_timed_them(visitor: Client) -> None:
    factories.judged()
    html = visitor.get(TASK_URL).content.decode()
    assert "100 µs" in html
    assert "IQR 3.00 µs" in html


@pytest.mark.usefixtures("all_tasks")
def test_every_task_shows_its_page_and_a_starter_code_that_passes_the_static_check(visitor: Client) -> None:
    for task in load_suite(default_suites() / "robust_kbench"):
        url = reverse("task", args=["robust-kbench", task.op, task.direction])
        assert visitor.get(url).status_code == 200, task.name
        code = visitor.get(f"{url}starter/")
        assert code["Content-Disposition"].startswith("attachment")
        assert check_source(Source(code.content.decode(), "cpp"), task, default_rules()).problem is None, task.name


def test_the_page_names_the_local_command(visitor: Client) -> None:
    expected = b"kbench judge mnist_linear_relu/forward mnist_linear_relu_forward.cpp"
    assert expected in visitor.get(TASK_URL).content


def test_an_older_version_keeps_its_board(visitor: Client) -> None:
    old = factories.version()
    TaskVersion.objects.filter(pk=old.pk).update(status="retired")
    old.pk, old.number, old.status = None, 2, "active"
    old.save()
    board = visitor.get(reverse("leaderboard", args=[*factories.TASK, "cpu-avx2"]), {"version": "1"})
    assert b"version 1 of the task is retired" in board.content


@pytest.mark.parametrize(("url", "queries"), [("/tasks/", 8), (TASK_URL, 9)])
def test_the_number_of_queries_does_not_grow_with_entries(
    visitor: Client, django_assert_num_queries: object, url: str, queries: int
) -> None:
    factories.many_entries(40)
    with django_assert_num_queries(queries):  # type: ignore[operator]
        visitor.get(url)
