"""Runs in the API: start, follow, steer, and what is refused with which code."""

from typing import Any

import pytest
from django.test import Client

from agents.models import Run
from benchmarks.states import Switch
from benchmarks.switches import switch_set
from tests.web.test_api import Program, refused

from . import factories

WANTED = {"task": "mnist_linear_relu/forward", "judgings": 5, "seed": 7}


@pytest.fixture
def program(owner: Any) -> Program:
    return Program(owner)


def test_a_run_is_started_and_its_location_tells_how_it_goes_on(program: Program, owner: Any) -> None:
    response = program.post("/runs", WANTED)
    run = Run.objects.get()
    assert (response.status_code, response["Location"]) == (202, f"/api/v1/runs/{run.code}")
    assert (run.owner, run.seed, run.caps, run.language) == (owner, 7, {"judgings": 5}, "cpp")
    found = program.client.get(response["Location"]).json()
    assert (found["state"], found["best"], found["budget"][0]["cap"]) == ("waiting", None, 5)


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"judgings": None}, 422, "invalid-request"),
        ({"judgings": -1}, 422, "invalid-request"),
        ({"task": "no/such"}, 404, "unknown-task"),
        ({"device": "tpu"}, 422, "invalid-request"),
        ({"proposer": "guess"}, 422, "no-such-proposer"),
        ({"proposer": "anthropic"}, 422, "no-such-proposer"),
    ],
)
def test_a_run_that_makes_no_sense_is_refused(program: Program, change: dict[str, Any], status: int, code: str) -> None:
    refused(program.post("/runs", {**WANTED, **change}), status, code)
    assert not Run.objects.exists()


def test_without_a_token_nothing_is_started(visitor: Client) -> None:
    refused(visitor.post("/api/v1/runs", WANTED, content_type="application/json"), 401, "token-required")


def test_while_runs_are_paused_none_is_started(program: Program) -> None:
    switch_set(Switch.RUNS, on=False, message="Later.")
    assert "Later." in refused(program.post("/runs", WANTED), 429, "run-refused")["detail"]


def test_the_log_is_read_in_pages_to_its_end(visitor: Client) -> None:
    run, seen, last = factories.driven(), [], 0
    for _ in range(100):
        page = visitor.get(f"/api/v1/runs/{run.code}/events?after={last}&limit=20").json()
        seen += [event["seq"] for event in page["events"]]
        last = page["last_seq"]
        if page["ended"]:
            break
    assert seen == list(range(1, run.last_seq + 1))


def test_only_who_started_a_run_steers_it(program: Program, stranger: Any) -> None:
    code = program.post("/runs", WANTED).json()["id"]
    refused(Program(stranger).post(f"/runs/{code}/stop"), 403, "not-yours")
    assert program.post(f"/runs/{code}/pause").json()["state"] == "paused"
    assert program.post(f"/runs/{code}/resume").json()["state"] == "waiting"
    assert program.post(f"/runs/{code}/stop").json()["reason"] == "stopped"
    refused(program.post(f"/runs/{code}/resume"), 409, "run-ended")


def test_a_fork_is_a_run_of_its_own(program: Program) -> None:
    parent = factories.driven()
    found = program.post(f"/runs/{parent.code}/fork", {"judgings": 3}).json()
    assert (found["forked_from"], found["judgings"]) == (str(parent.code), parent.judged_count)
    assert found["best"]["score"] == parent.best_score


def test_a_finished_run_names_its_best(visitor: Client) -> None:
    run = factories.driven()
    best = visitor.get(f"/api/v1/runs/{run.code}").json()["best"]
    assert (best["candidate"], best["score"]) == (run.best_key, run.best_score)
    listed = visitor.get("/api/v1/runs?task=mnist_linear_relu&state=finished").json()
    assert [item["id"] for item in listed["runs"]] == [str(run.code)]
