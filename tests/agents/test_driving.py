"""Runs at work: claims, wishes, lost workers, candidates in the queue of the site."""

import asyncio
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import caches
from django.db import connections
from django.utils import timezone

from agents import selectors as run_selectors
from agents import services
from agents.driving import one_run
from agents.driving.desk import Desk
from agents.driving.evaluator import SiteEvaluator
from agents.evolve.budget import Caps
from agents.evolve.events import Quiet
from agents.evolve.model import JudgeResult, NoProposal, ProposalRequest
from agents.models import Run
from agents.states import RunStatus, Wish
from benchmarks import quotas, selectors, switches
from benchmarks.boards import same_code
from benchmarks.catalogue import folders
from benchmarks.harness import Source
from benchmarks.judgings import moves
from benchmarks.models import DeviceKind, Evaluation, Standing
from benchmarks.querysets import EXAMPLES_WAIT_S
from benchmarks.states import EvaluationReason, Priority, State, Switch
from tests.evolve import world
from tests.fakes import report_for
from tests.rows import cpu_kind, synced
from tests.web import factories as site

from . import factories

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def tasks(transactional_db: None, two_operations: Any) -> None:
    caches["pages"].clear()
    synced(two_operations)


def test_shipped_examples_wait_for_a_run_at_work_and_for_no_other() -> None:
    kind = site.version() and cpu_kind()
    assert not run_selectors.is_about_to_want(kind)
    run = factories.started()
    assert run_selectors.is_about_to_want(kind)
    assert not run_selectors.is_about_to_want(DeviceKind.objects.create(slug="another", device_class="cuda"))
    long_ago = timezone.now() - timedelta(seconds=EXAMPLES_WAIT_S + 1)
    Run.objects.filter(pk=run.pk).update(created=long_ago)
    assert not run_selectors.is_about_to_want(kind)
    holding = factories.claimed(run)
    Run.objects.filter(pk=run.pk).update(state=RunStatus.RUNNING)
    assert run_selectors.is_about_to_want(kind)
    Run.objects.filter(pk=holding.run.pk).update(heartbeat=long_ago)
    assert not run_selectors.is_about_to_want(kind)


class Bench(threading.Thread):
    """Judges what is queued by what the text says, as a worker of the site would; counts every judging."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.ended, self.judged = threading.Event(), []  # type: ignore[var-annotated]

    def run(self) -> None:
        while not self.ended.wait(0.02):
            if Evaluation.objects.queued().exists():
                self.judge(site.claimed_for_judging())
        connections.close_all()

    def judge(self, holding: Any) -> None:
        text = holding.evaluation.submission.blob.text
        found = world.truth(text)
        task = folders.spec_of(holding.evaluation.task_version)
        wishes = {"verdict": found.verdict, "speedup": found.score or 1.0}
        self.judged.append(holding.evaluation.submission.title)
        moves.record_report(holding, report_for(Source(text, "cpp"), task, **wishes))


@pytest.fixture
def bench() -> Iterator[Bench]:
    running = Bench()
    running.start()
    yield running
    running.ended.set()
    running.join()


@pytest.fixture(autouse=True)
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_run, "find_proposer", lambda config, means: world.Scripted())
    monkeypatch.setattr("agents.evolve.verifiers.find_verifiers", lambda config, means: (world.Suspicious(),))
    monkeypatch.setattr(one_run, "LOOK_EVERY_S", 0.05)
    monkeypatch.setattr("agents.driving.evaluator.LOOK_EVERY_S", 0.05)
    one_run.draining.clear()


def drive(run: Run) -> Run:
    one_run.drive_run(factories.claimed(run))
    run.refresh_from_db()
    return run


def test_a_run_goes_from_its_start_to_its_end_through_the_queue_of_the_site(bench: Bench) -> None:
    run = drive(factories.started(caps=Caps(judgings=8)))
    assert (run.state, run.reason, run.judged_count, run.claim) == (RunStatus.FINISHED, "budget", 8, None)
    assert run.best_score == max(row.score for row in run.candidates.exclude(score=None))
    assert len(bench.judged) == len(set(bench.judged)) == 8
    evaluations = Evaluation.objects.select_related("submission__method")
    assert {item.priority for item in evaluations} == {Priority.AGENT}
    assert {item.submission.method.slug for item in evaluations} == {"agent-template-evo"}
    assert Standing.objects.count() == 1  # of all the candidates the best alone stands on the board


def test_the_best_are_judged_again_as_the_same_submissions(bench: Bench) -> None:
    run = drive(factories.started(caps=Caps(judgings=20), confirmations=4))
    assert (run.state, run.reason, run.judged_count) == (RunStatus.FINISHED, "budget", 16)
    assert run.spent["judgings"] == len(bench.judged) == 20
    again = Evaluation.objects.filter(reason=EvaluationReason.REJUDGE)
    assert (again.count(), again.values("submission").distinct().count()) == (4, 2)
    assert {item.priority for item in again} == {Priority.AGENT}
    best = run.candidates.get(key=run.best_key)
    assert (best.judgings, len(best.estimates)) == (3, 3)
    standing = Standing.objects.get()
    assert standing.evaluation.submission.evaluations.filter(code=best.ticket).exists()
    assert standing.judgings == 3
    assert (standing.score, standing.score_lo, standing.score_hi) == pytest.approx(
        (best.score, best.score_lo, best.score_hi)
    )


class Exhausted(world.Scripted):
    """Has nothing to propose."""

    def answer(self, request: ProposalRequest) -> NoProposal:
        return NoProposal("duplicate", "there is no other", exhausted=True)


def test_a_fork_confirms_what_it_has_from_somebody_else_as_its_own(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, eve = site.user("honest"), site.user("eve")
    parent = drive(factories.started(honest, caps=Caps(judgings=20), confirmations=4))
    before = Evaluation.objects.count()
    monkeypatch.setattr(one_run, "find_proposer", lambda config, means: Exhausted())
    fork = drive(services.run_fork(parent, owner=eve, seed=2, more=Caps(judgings=20)))
    best = fork.candidates.get(key=fork.best_key)
    assert (fork.reason, fork.spent["judgings"], best.judgings) == ("exhausted", 4, 3)
    assert Evaluation.objects.get(code=best.ticket).submission.owner == honest
    made = Evaluation.objects.order_by("pk")[before:]
    assert {(item.submission.owner, item.reason) for item in made} == {(eve, "initial"), (eve, "rejudge")}
    assert f"Run {fork}, candidate {best.key}" in {item.submission.title for item in made}


def test_one_number_is_one_judging_however_often_it_is_asked_for() -> None:
    run = factories.started()
    with Desk() as desk:
        evaluator = SiteEvaluator(run, desk)
        ticket = asyncio.run(evaluator.submit("1-0", world.kernel(1, 2, 3), "cpp"))
        asked = [asyncio.run(evaluator.again(ticket, number, "", "cpp")) for number in (1, 2, 1)]
    assert asked[0] == asked[2] != asked[1]
    assert ticket not in asked
    first = Evaluation.objects.get(code=ticket)
    assert Evaluation.objects.filter(submission=first.submission, ruleset=first.ruleset).count() == 3


def test_one_key_is_one_submission_however_often_it_is_asked_for() -> None:
    run = factories.started()
    with Desk() as desk:
        evaluator = SiteEvaluator(run, desk)
        tickets = {asyncio.run(evaluator.submit("0-0", site.SOURCE, "cpp")) for _ in range(3)}
        other = asyncio.run(evaluator.submit("0-1", site.SOURCE, "cpp"))
    assert len(tickets) == 1
    assert other not in tickets
    assert Evaluation.objects.count() == 2


def test_a_withdrawn_judging_says_nothing_about_the_kernel() -> None:
    run = factories.started()

    async def give_up(evaluator: SiteEvaluator) -> JudgeResult:
        ticket = await evaluator.submit("0-0", site.SOURCE, "cpp")
        await evaluator.withdraw(ticket)
        return await evaluator.wait(ticket, Quiet())

    with Desk() as desk:
        found = asyncio.run(give_up(SiteEvaluator(run, desk)))
    assert found.ours
    assert Evaluation.objects.get().state == State.CANCELLED


def test_while_no_submissions_are_taken_a_candidate_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.driving.evaluator.REFUSED_EVERY_S", 0.05)
    run = factories.started()
    switches.switch_set(Switch.SUBMISSIONS, on=False)

    async def patient(evaluator: SiteEvaluator, desk: Desk) -> str:
        asked = asyncio.create_task(evaluator.submit("0-0", site.SOURCE, "cpp"))
        await asyncio.sleep(0.3)
        assert not asked.done()
        await desk.call(lambda: switches.switch_set(Switch.SUBMISSIONS, on=True))
        return await asyncio.wait_for(asked, 30)

    with Desk() as desk:
        assert asyncio.run(patient(SiteEvaluator(run, desk), desk))


class Helper(threading.Thread):
    """Does something to the run as soon as it has so many events."""

    def __init__(self, run: Run, seq: int, act: Any) -> None:
        super().__init__(daemon=True)
        self.pk, self.seq, self.act = run.pk, seq, act
        self.start()

    def run(self) -> None:
        while Run.objects.get(pk=self.pk).last_seq < self.seq:
            time.sleep(0.02)
        self.act(Run.objects.get(pk=self.pk))
        connections.close_all()


def test_a_stop_ends_the_run_and_withdraws_what_is_queued() -> None:
    """Nobody judges here, so the candidates would wait for ever."""
    run = factories.started(caps=Caps(judgings=50))
    Helper(run, 8, lambda row: services.run_wish(row, Wish.STOP, "olga"))
    drive(run)
    assert (run.state, run.reason, run.leases) == (RunStatus.FINISHED, "stopped", {})
    assert not Evaluation.objects.queued().exists()


def test_a_pause_lets_what_is_in_flight_end_and_resume_goes_on(bench: Bench) -> None:
    run = factories.started(caps=Caps(judgings=10))
    Helper(run, 10, lambda row: services.run_wish(row, Wish.PAUSE, "olga"))
    drive(run)
    assert (run.state, run.claim) == (RunStatus.PAUSED, None)
    assert not Evaluation.objects.queued().exists()
    services.run_wish(run, Wish.GO, "olga")
    drive(run)
    assert (run.state, run.judged_count, len(set(bench.judged))) == (RunStatus.FINISHED, 10, len(bench.judged))


def test_a_run_that_lost_its_worker_goes_on_and_judges_nothing_twice(bench: Bench, settings: Any) -> None:
    """The first worker stops writing in the middle, as one that is killed; the second finds the same run."""
    run = factories.started(caps=Caps(judgings=10))
    old = timezone.now() - timedelta(seconds=settings.KBENCH_HEARTBEAT_TIMEOUT_S + 1)

    def lose(row: Run) -> None:
        Run.objects.filter(pk=row.pk).update(heartbeat=old)
        while not services.tend():
            Run.objects.filter(pk=row.pk).update(heartbeat=old)

    Helper(run, 25, lose).join(0)
    drive(run)
    assert run.state == RunStatus.RUNNING
    before = run.last_seq
    drive(run)
    assert (run.state, run.reason, run.judged_count) == (RunStatus.FINISHED, "budget", 10)
    assert run.last_seq > before
    assert len(bench.judged) == len(set(bench.judged))
    uninterrupted = factories.driven(caps=Caps(judgings=10))
    assert run.best_key == uninterrupted.best_key


def test_a_worker_that_is_asked_to_end_puts_the_run_down_for_the_next(bench: Bench) -> None:
    run = factories.started(caps=Caps(judgings=10))
    Helper(run, 20, lambda row: one_run.draining.set())
    drive(run)
    assert (run.state, run.claim) == (RunStatus.RUNNING, None)
    one_run.draining.clear()
    assert drive(run).reason == "budget"


def test_what_breaks_in_our_machinery_pauses_the_run_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(one_run, "find_proposer", broken)
    run = drive(factories.started())
    assert (run.state, run.claim) == (RunStatus.PAUSED, None)
    assert "RuntimeError" in run.reason_text
    assert "secret" not in run.reason_text


def test_a_run_on_a_retired_version_stops(bench: Bench) -> None:
    run = factories.started(caps=Caps(judgings=500))
    type(run.task_version).objects.filter(pk=run.task_version_id).update(status="retired")
    assert drive(run).reason == "stopped"


def test_a_waiting_run_is_claimed_once() -> None:
    factories.started()
    assert services.run_claim("one") is not None
    assert services.run_claim("two") is None


def test_a_worker_that_begins_anew_frees_what_its_dead_namesake_held() -> None:
    run = factories.started()
    factories.claimed(run)
    assert services.worker_begins("somebody else") == 0
    assert services.worker_begins("test") == 1
    assert services.run_claim("test") is not None


def test_what_a_person_may_submit_is_not_used_up_by_their_runs(bench: Bench) -> None:
    olga = site.user("olga")
    drive(factories.started(olga, caps=Caps(judgings=4)))
    assert Evaluation.objects.filter(submission__owner=olga).count() == 4
    assert [meter.used for meter in quotas.meters_of(olga, "")] == [0, 0, 0]
    assert list(selectors.own_evaluations(olga, [])) == []
    assert same_code.holder_of(Evaluation.objects.first()) == f"user:{olga.pk}/agent-template-evo"
