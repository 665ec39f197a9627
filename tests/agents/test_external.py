"""External runs: an agent sends candidates, the site judges them, and the log is that of any other run."""

import uuid
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from agents import jobs, services
from agents.driving import external
from agents.evolve.budget import Caps
from agents.evolve.config import RunConfig
from agents.evolve.state import RunState
from agents.models import Run, RunEvent
from agents.record.log import read, source
from agents.record.snapshots import past
from agents.views import candidates
from benchmarks import switches
from benchmarks.harness import Verdict
from benchmarks.judgings import moves
from benchmarks.models import Evaluation, LedgerEntry, SpentPlace, Standing
from benchmarks.states import State, Switch
from tests.web import factories as site
from tests.web.test_api import Program, refused

WANTED = {"task": "mnist_linear_relu/forward", "kind": "external", "judgings": 5, "seed": 1, "agent": "mine"}


@pytest.fixture
def program(owner: Any) -> Program:
    return Program(owner)


@pytest.fixture
def run(program: Program) -> Run:
    response = program.post("/runs", WANTED)
    assert (response.status_code, response.json()["state"]) == (202, "running")
    return Run.objects.get(code=response.json()["id"])


def kernel(name: str) -> str:
    return f"// {name}\nstatic const int number_{name} = 1;\n{site.SOURCE}"


def send(program: Program, run: Run, name: str, **more: Any) -> Any:
    return program.post(f"/runs/{run.code}/candidates", {"source": kernel(name), "name": name, **more})


def sent(program: Program, run: Run, name: str, **more: Any) -> str:
    response = send(program, run, name, **more)
    assert response.status_code == 202, response.json()
    return str(response.json()["id"])


def judged(run: Run, speedup: float | None) -> None:
    """The judge takes the oldest in its queue."""
    holding = site.claimed_for_judging()
    wrong = site.report(Verdict.INCORRECT_VALUE, "wrong at [0]")
    moves.record_report(holding, wrong if speedup is None else site.passing(speedup))


def found(program: Program, run: Run, key: str) -> dict[str, Any]:
    response = program.get(f"/runs/{run.code}/candidates/{key}")
    assert response.status_code == 200
    body: dict[str, Any] = response.json()
    return body


def types(run: Run) -> list[str]:
    return list(run.events.order_by("seq").values_list("type", flat=True))


def test_a_lineage_is_sent_judged_and_told(program: Program, run: Run, owner: Any) -> None:
    first = sent(
        program, run, "first", thought="plain", prompt="Write a kernel.", model="m-1", usd=0.25, input_tokens=7
    )
    judged(run, 1.5)
    second = sent(program, run, "second", parents=[first], operator="mutate")
    judged(run, 2.0)
    assert (first, second) == ("0-0", "1-0")
    told = found(program, run, first)
    assert (told["verdict"], told["score"], told["best"], told["ended"]) == ("PASS", 1.5, False, True)
    assert "speedup" in told["feedback"]
    assert "The weakest configuration is" in told["feedback"]
    assert found(program, run, second)["best"] is True
    run.refresh_from_db()
    assert (run.best_key, run.best_score, run.judged_count, run.spent["usd"]) == ("1-0", 2.0, 2, 0.25)
    assert run.spent["judgings"] == 2
    entry = Standing.objects.get().evaluation.submission
    assert (entry.owner, entry.method.slug) == (owner, "agent-external")
    row = run.candidates.get(key="1-0")
    assert (row.parents, row.generation, row.operator) == (["0-0"], 1, "mutate")
    state = RunState.fold(read(run.pk), source)
    assert (state.best and state.best.id, state.budget.leases) == ("1-0", {})


def test_its_past_is_shown_as_that_of_any_run(program: Program, run: Run, visitor: Client) -> None:
    key = sent(program, run, "first", prompt="Say <b>why</b>.")
    seq = run.events.get(type="evaluation.submitted").seq
    judged(run, 1.5)
    found(program, run, key)
    run.refresh_from_db()
    scene = past(run, seq)
    assert [(row.key, row.state) for row in scene.rows] == [("0-0", "queued")]
    for address in ("", f"?at={seq}", "log/", "candidates/", "live/"):
        assert visitor.get(f"/runs/{run.code}/{address}").status_code == 200, address
    page = visitor.get(f"/runs/{run.code}/candidates/{key}/").content.decode()
    assert "Say &lt;b&gt;why&lt;/b&gt;." in page


def test_what_is_wrong_comes_back_with_a_reason(program: Program, run: Run) -> None:
    key = sent(program, run, "wrong")
    judged(run, None)
    told = found(program, run, key)
    assert (told["verdict"], told["score"]) == ("INCORRECT_VALUE", None)
    assert told["feedback"].startswith('Verdict INCORRECT_VALUE: "wrong at [0]"')


def test_the_same_text_and_what_the_static_check_refuses_are_not_judged(program: Program, run: Run) -> None:
    sent(program, run, "first")
    again = send(program, run, "first").json()
    assert (again["state"], again["refused"]) == ("dropped", "duplicate: the same text as 0-0")
    bad = program.post(f"/runs/{run.code}/candidates", {"source": "int x;\n"}).json()
    assert bad["refused"].startswith("wrong_task: ")
    assert Evaluation.objects.count() == 1
    run.refresh_from_db()
    assert list(run.leases) == ["0-0/judge"]


def test_the_same_key_is_one_candidate(program: Program, run: Run) -> None:
    assert sent(program, run, "first", key="k-1") == sent(program, run, "other", key="k-1") == "0-0"
    assert run.candidates.count() == 1


def test_generations_and_islands_can_be_named(program: Program, run: Run) -> None:
    assert sent(program, run, "first", generation=3, island=1) == "3-0"
    assert sent(program, run, "second", generation=3) == "3-1"
    assert sent(program, run, "third", parents=["3-0"]) == "4-0"
    assert sent(program, run, "late", generation=1) == "1-0"
    assert [row.island for row in run.candidates.order_by("position")] == [1, 0, 0, 0]


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"parents": ["7-7"]}, 422, "unknown-parent"),
        ({"usd": -1}, 422, "invalid-request"),
        ({"island": 2}, 422, "invalid-request"),
        ({"input_tokens": 10**12}, 422, "invalid-request"),
        ({"prompt": "x" * 20_001}, 422, "invalid-request"),
        ({"source": "x" * 300_000}, 413, "source-too-large"),
        ({"source": "int \x07x;"}, 422, "source-refused"),
        ({"source": ""}, 422, "source-refused"),
    ],
)
def test_what_makes_no_sense_is_no_candidate(
    program: Program, run: Run, change: dict[str, Any], status: int, code: str
) -> None:
    refused(send(program, run, "first", **change), status, code)
    assert not run.candidates.exists()


def test_only_its_owner_sends_and_only_to_an_external_run(program: Program, run: Run, stranger: Any) -> None:
    refused(send(Program(stranger), run, "first"), 403, "not-yours")
    refused(Program(stranger).post(f"/runs/{run.code}/close"), 403, "not-yours")
    own = Run.objects.get(code=program.post("/runs", {**WANTED, "kind": "site"}).json()["id"])
    refused(send(program, own, "first"), 409, "not-external")
    assert Client().post(f"/api/v1/runs/{run.code}/candidates").status_code == 401


def test_a_run_is_bounded_in_every_currency(program: Program) -> None:
    refused(program.post("/runs", {**WANTED, "judgings": None, "usd": 1}), 422, "invalid-request")
    caps = {"judgings": 2, "usd": 1.0, "output_tokens": 100}
    run = Run.objects.get(code=program.post("/runs", {**WANTED, **caps}).json()["id"])
    assert "usd" in refused(send(program, run, "a", usd=1.5), 409, "budget-spent")["detail"]
    assert "output_tokens" in refused(send(program, run, "a", output_tokens=101), 409, "budget-spent")["detail"]
    sent(program, run, "a", usd=0.9)
    refused(send(program, run, "b", usd=0.2), 409, "budget-spent")
    sent(program, run, "b")
    refused(send(program, run, "c"), 409, "budget-spent")
    judged(run, 1.5)
    judged(run, 1.2)
    jobs.tend()
    run.refresh_from_db()
    assert (run.state, run.reason, run.spent["judgings"]) == ("finished", "budget", 2)
    refused(send(program, run, "c"), 409, "run-ended")


def test_only_a_few_are_judged_at_a_time(program: Program, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.setattr(external, "IN_FLIGHT_MAX", 2)
    sent(program, run, "a")
    sent(program, run, "b")
    response = send(program, run, "c")
    refused(response, 429, "too-many-open")
    assert response["Retry-After"] == "5"
    judged(run, 1.5)
    sent(program, run, "c")


@pytest.mark.parametrize("setting", ["KBENCH_IN_FLIGHT_MAX", "KBENCH_PUBLIC_PER_DAY"])
def test_candidates_count_for_the_quotas_of_the_owner(program: Program, run: Run, settings: Any, setting: str) -> None:
    setattr(settings, setting, 2)
    assert program.submit().status_code == 202
    sent(program, run, "a")
    told = refused(send(program, run, "b"), 429, "too-many-submissions")
    assert told["meter"]["limit"] == 2
    run.refresh_from_db()
    assert (run.candidate_count, run.claim, list(run.leases)) == (1, None, ["0-0/judge"])
    refused(program.submit(source=kernel("other")), 429, "too-many-submissions")
    assert program.post(f"/runs/{run.code}/candidates", {"source": "int x;\n"}).json()["state"] == "dropped"


def test_what_a_stopped_run_withdraws_counts_as_cancelled(program: Program, settings: Any) -> None:
    """Else the public places of a day would come back with each run that is opened and stopped."""
    settings.KBENCH_PUBLIC_PER_DAY = 2
    for name in ("a", "b"):
        run = Run.objects.get(code=program.post("/runs", WANTED).json()["id"])
        sent(program, run, name)
        program.post(f"/runs/{run.code}/stop")
    assert SpentPlace.objects.filter(cancelled=True).count() == 2
    assert program.submit(source=kernel("c")).status_code == 429


def test_the_time_of_candidates_is_charged_to_the_owner(program: Program, run: Run, owner: Any) -> None:
    sent(program, run, "a")
    judged(run, 1.5)
    entry = LedgerEntry.objects.get()
    assert (entry.payer.account, entry.judging_s > 0) == (owner, True)


def test_an_account_has_only_so_many_open_external_runs(
    program: Program, run: Run, stranger: Any, settings: Any
) -> None:
    settings.KBENCH_EXTERNAL_RUNS_PER_OWNER_MAX = 1
    assert "Close or stop one" in refused(program.post("/runs", WANTED), 429, "run-refused")["detail"]
    refused(program.post(f"/runs/{run.code}/fork", {"judgings": 2}), 429, "run-refused")
    assert Program(stranger).post("/runs", WANTED).status_code == 202
    assert program.post("/runs", {**WANTED, "kind": "site"}).status_code == 202
    program.post(f"/runs/{run.code}/close")
    assert program.post("/runs", WANTED).status_code == 202


def test_an_account_starts_only_so_many_runs_a_day(
    program: Program, run: Run, monkeypatch: pytest.MonkeyPatch, stranger: Any
) -> None:
    """However soon it ends them: each stands in the public list."""
    monkeypatch.setattr(services, "RUNS_PER_DAY_MAX", 1)
    program.post(f"/runs/{run.code}/close", {})
    refused(program.post("/runs", WANTED), 429, "run-refused")
    assert Program(stranger).post("/runs", WANTED).status_code == 202
    Run.objects.filter(pk=run.pk).update(created=timezone.now() - timedelta(days=2))
    assert program.post("/runs", WANTED).status_code == 202


def test_a_run_holds_only_so_many_candidates(program: Program, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.setattr(external, "CANDIDATES_MAX", 1)
    sent(program, run, "a")
    refused(send(program, run, "b"), 409, "run-full")


def test_only_so_many_unjudged_texts_are_kept_of_an_account(
    program: Program, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """Another run of the account makes no room."""
    monkeypatch.setattr(external, "REFUSED_PER_DAY_MAX", 2)
    send(program, run, "a")
    for _ in range(2):
        send(program, run, "a")  # the same text: refused as a duplicate
    again = Run.objects.get(code=program.post("/runs", WANTED).json()["id"])
    response = send(program, again, "b")
    refused(response, 429, "too-many-refused")
    assert response["Retry-After"] == "3600"
    RunEvent.objects.filter(type="proposal.rejected").update(at_s=0.0)
    assert send(program, run, "b").status_code == 202


def test_closing_lets_the_judge_finish(program: Program, run: Run) -> None:
    sent(program, run, "a")
    assert program.post(f"/runs/{run.code}/close", {"text": "Done for today."}).json()["state"] == "stopping"
    refused(send(program, run, "b"), 409, "run-ended")
    refused(program.post(f"/runs/{run.code}/close"), 409, "run-ended")
    judged(run, 1.5)
    jobs.tend()
    run.refresh_from_db()
    assert (run.state, run.reason, run.reason_text, run.best_score) == ("finished", "closed", "Done for today.", 1.5)


def test_the_owner_pauses_resumes_and_stops(program: Program, run: Run) -> None:
    sent(program, run, "a")
    assert program.post(f"/runs/{run.code}/pause").json()["state"] == "paused"
    refused(send(program, run, "b"), 409, "run-paused")
    judged(run, 1.5)
    jobs.tend()
    run.refresh_from_db()
    assert (run.state, run.best_score) == ("paused", 1.5)
    assert program.post(f"/runs/{run.code}/resume").json()["state"] == "running"
    sent(program, run, "b")
    stopped = program.post(f"/runs/{run.code}/stop").json()
    assert (stopped["state"], stopped["reason"], stopped["judgings"]) == ("finished", "stopped", 1)
    assert Evaluation.objects.order_by("pk").last().state == State.CANCELLED  # type: ignore[union-attr]
    run.refresh_from_db()
    assert (run.leases, run.spent["judgings"]) == ({}, 2)


def test_staff_stop_it_and_strangers_do_not(run: Run, stranger: Any, django_user_model: Any) -> None:
    refused(Program(stranger).post(f"/runs/{run.code}/stop"), 403, "not-yours")
    staff = django_user_model.objects.create_superuser("boss", password="a-very-long-password")
    assert Program(staff).post(f"/runs/{run.code}/stop").json()["reason"] == "stopped"


def test_a_silent_agent_ends_its_run(program: Program, run: Run, settings: Any) -> None:
    sent(program, run, "a")
    settings.KBENCH_EXTERNAL_IDLE_S = 600
    RunEvent.objects.filter(run=run).update(at_s=timezone.now().timestamp() - 601)
    jobs.tend()
    run.refresh_from_db()
    assert run.state == "running"  # its candidate waits for the judge
    judged(run, 1.5)
    jobs.tend()
    RunEvent.objects.filter(run=run).update(at_s=timezone.now().timestamp() - 601)
    jobs.tend()
    run.refresh_from_db()
    assert (run.state, run.reason) == ("finished", "idle")


def test_paused_runs_leave_the_site_to_others(program: Program, run: Run, stranger: Any, settings: Any) -> None:
    settings.KBENCH_RUNS_MAX = 1
    program.post(f"/runs/{run.code}/pause")
    other = Program(stranger).post("/runs", WANTED).json()["id"]
    full = refused(program.post(f"/runs/{run.code}/resume"), 429, "run-refused")
    assert "unfinished on this site" in full["detail"]
    run.refresh_from_db()
    assert (run.state, run.wish) == ("paused", "pause")
    Program(stranger).post(f"/runs/{other}/stop")
    assert program.post(f"/runs/{run.code}/resume").json()["state"] == "running"


def test_a_paused_run_of_a_silent_agent_ends(program: Program, run: Run, settings: Any) -> None:
    program.post(f"/runs/{run.code}/pause")
    jobs.tend()
    run.refresh_from_db()
    assert run.state == "paused"
    RunEvent.objects.filter(run=run).update(at_s=timezone.now().timestamp() - settings.KBENCH_EXTERNAL_IDLE_S - 1)
    jobs.tend()
    run.refresh_from_db()
    assert (run.state, run.reason) == ("finished", "idle")


def test_run_time_is_counted_and_ends_the_run(program: Program) -> None:
    wanted = {**WANTED, "judgings": None, "minutes": 1}
    run = Run.objects.get(code=program.post("/runs", wanted).json()["id"])
    sent(program, run, "a")
    for _ in range(2):
        Run.objects.filter(pk=run.pk).update(heartbeat=timezone.now() - timedelta(seconds=40))
        jobs.tend()
    run.refresh_from_db()
    assert (run.state, run.reason, run.spent["wall_s"], run.leases) == ("finished", "budget", 60, {})
    assert Evaluation.objects.get().state == State.CANCELLED


def test_no_worker_takes_it_and_nothing_is_written_without_news(run: Run) -> None:
    assert services.run_claim("test") is None
    before = types(run)
    jobs.tend()
    assert types(run) == before == ["run.created", "run.started"]


def test_while_submissions_are_paused_nothing_is_taken(program: Program, run: Run) -> None:
    switches.switch_set(Switch.SUBMISSIONS, on=False, message="Later.")
    refused(send(program, run, "a"), 503, "submissions-closed")
    run.refresh_from_db()
    assert (run.candidate_count, run.claim) == (0, None)


def test_a_deleted_submission_is_no_verdict(program: Program, run: Run) -> None:
    key = sent(program, run, "a")
    Evaluation.objects.all().delete()
    jobs.tend()
    assert found(program, run, key)["verdict"] == "INTERNAL_ERROR"


def test_a_private_kernel_keeps_its_words(program: Program, run: Run, visitor: Client) -> None:
    key = sent(program, run, "secretive", thought="my thought", prompt="my prompt")
    judged(run, 1.5)
    found(program, run, key)
    submission = Evaluation.objects.get().submission
    submission.visibility = "private"
    submission.save()
    told = visitor.get(f"/api/v1/runs/{run.code}/candidates/{key}").json()
    assert (told["score"], told["feedback"], told["name"]) == (1.5, None, "")
    events = visitor.get(f"/api/v1/runs/{run.code}/events").content.decode()
    page = visitor.get(f"/runs/{run.code}/candidates/{key}/").content.decode()
    for text in (events, page):
        assert "my prompt" not in text
        assert "my thought" not in text
    assert "my prompt" in program.get(f"/runs/{run.code}/events").content.decode()


def test_a_fork_waits_for_the_candidates_of_its_owner(program: Program, run: Run, stranger: Any) -> None:
    key = sent(program, run, "a")
    judged(run, 1.5)
    found(program, run, key)
    other = Program(stranger)
    fork = Run.objects.get(code=other.post(f"/runs/{run.code}/fork", {"judgings": 2}).json()["id"])
    assert sent(other, fork, "b", parents=[key]) == "1-0"
    refused(send(program, fork, "c"), 403, "not-yours")


@pytest.mark.parametrize("caps", [{"usd": 1.0}, {"judgings": None, "usd": 1.0}])
def test_a_fork_needs_a_limit_that_the_site_can_count(program: Program, run: Run, caps: dict[str, Any]) -> None:
    told = refused(program.post(f"/runs/{run.code}/fork", caps), 422, "invalid-request")
    assert told["detail"] == "Give an external run a limit of judgings or minutes."
    assert Run.objects.count() == 1


def test_an_external_run_is_not_started_without_a_limit(run: Run, owner: Any) -> None:
    config = replace(RunConfig.from_json(run.config), caps=Caps(usd=1.0))
    with pytest.raises(services.NoLimit):
        services.run_start(services.RunRequest(run.task_version, run.device_kind, config, owner))


def test_a_fork_by_somebody_else_has_no_name_of_an_agent(program: Program, run: Run, stranger: Any) -> None:
    def agent(by: Program) -> str | None:
        forked = by.post(f"/runs/{run.code}/fork", {"judgings": 2})
        name: str | None = Run.objects.get(code=forked.json()["id"]).config["options"].get("agent")
        return name

    assert (agent(program), agent(Program(stranger))) == ("mine", None)


def test_a_run_that_takes_nothing_costs_no_check(program: Program, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    sent(program, run, "a")
    monkeypatch.setattr(external, "checked", lambda *_: pytest.fail("it was checked"))
    with monkeypatch.context() as few:
        few.setattr(external, "IN_FLIGHT_MAX", 1)
        refused(send(program, run, "b"), 429, "too-many-open")
    with monkeypatch.context() as few:
        few.setattr(external, "CANDIDATES_MAX", 1)
        refused(send(program, run, "b"), 409, "run-full")
    program.post(f"/runs/{run.code}/pause")
    refused(send(program, run, "b"), 409, "run-paused")
    program.post(f"/runs/{run.code}/stop")
    refused(send(program, run, "b"), 409, "run-ended")


def test_while_somebody_else_writes_the_log_a_candidate_is_read(program: Program, run: Run, visitor: Client) -> None:
    key = sent(program, run, "a")
    judged(run, 1.5)
    Run.objects.filter(pk=run.pk).update(claim=uuid.uuid4())
    told = visitor.get(f"/api/v1/runs/{run.code}/candidates/{key}")
    assert (told.status_code, told.json()["state"]) == (200, "queued")
    refused(send(program, run, "b"), 503, "busy")
    refused(program.post(f"/runs/{run.code}/close"), 503, "busy")


def test_a_page_compares_with_one_parent(
    program: Program, run: Run, visitor: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = sent(program, run, "one"), sent(program, run, "other")
    key = sent(program, run, "child", parents=[other, one])

    def page(query: str = "") -> str:
        return visitor.get(f"/runs/{run.code}/candidates/{key}/{query}").content.decode()

    for text, shown, offered in (
        (page(), other, one),
        (page(f"?parent={one}"), one, other),
        (page("?parent=x"), other, one),
    ):
        assert f'<details class="panel" id="diff-{shown}" open>' in text
        assert f'id="diff-{offered}"' not in text
        assert f'href="?parent={offered}#diff-{offered}"' in text
    monkeypatch.setattr(candidates, "DIFF_LINES", 2)
    assert "more lines are not shown" in page()


def test_the_form_of_the_page_does_not_offer_it(visitor: Client, owner: Any) -> None:
    page = visitor.get("/runs/new/?task=robust-kbench/mnist_linear_relu/forward").content.decode()
    assert 'value="external"' not in page
    refused(Program(owner).post("/runs", {**WANTED, "kind": "site", "proposer": "external"}), 422, "no-such-proposer")
