"""Who drives a run and for how long, what its owner wants meanwhile, and how many runs may be started."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from agents import queue, services
from agents.evolve.budget import Caps
from agents.evolve.events import Draft
from agents.extension.costs import spent_by_method
from agents.extension.exports import files_of
from agents.extension.metrics import run_metrics
from agents.models import Run
from agents.record.snapshots import present
from agents.services import NoLimit, RunBusy
from agents.states import RunStatus, Wish
from agents.views.flights import flights
from benchmarks.extensions import Scope
from benchmarks.judgings import moves
from benchmarks.services import Refused
from tests.web import factories as judgings

from . import factories

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks")]


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often a worker was woken."""
    calls: list[str] = []
    monkeypatch.setattr(queue, "wake", lambda: calls.append("wake"))
    monkeypatch.setattr(queue, "resend", lambda count: calls.extend(["resend"] * count))
    return calls


def test_the_run_that_waited_longest_is_claimed_first_and_each_once() -> None:
    first, second = factories.started(), factories.started()
    claimed = [services.run_claim("one"), services.run_claim("two"), services.run_claim("three")]
    assert [holding and holding.run.pk for holding in claimed] == [first.pk, second.pk, None]


def test_a_heartbeat_brings_the_wish_of_the_owner() -> None:
    run = factories.started()
    holding = factories.claimed(run)
    assert services.run_heartbeat(holding) == Wish.GO
    services.run_wish(run, Wish.PAUSE, "olga")
    assert services.run_heartbeat(holding) == Wish.PAUSE


def test_a_worker_that_lost_its_run_is_told_so_and_cannot_release_it() -> None:
    run = factories.started()
    lost = factories.claimed(run)
    services.worker_begins("test")
    holding = factories.claimed(run)
    assert services.run_heartbeat(lost) is None
    services.run_release(lost, "too late")
    run.refresh_from_db()
    assert run.claim == holding.claim
    assert run.reason_text != "too late"


def test_a_released_run_is_for_the_next_worker_and_a_finished_one_for_nobody(woken: list[str]) -> None:
    open_run = factories.claimed(factories.started())
    woken.clear()
    services.run_release(open_run, "The worker stops.")
    assert woken == ["wake"]
    ended = factories.claimed(Run.objects.get(pk=open_run.run.pk))
    ended.log.append([Draft("run.finished", None, {"reason": "budget", "text": "all judgings are spent"})])
    woken.clear()
    services.run_release(ended)
    assert not woken
    assert services.run_claim("next") is None


def test_runs_of_a_silent_worker_are_freed_and_waiting_ones_announced_again(woken: list[str], settings: Any) -> None:
    silent, alive = factories.claimed(factories.started()), factories.claimed(factories.started())
    factories.started()
    long_ago = timezone.now() - timedelta(seconds=settings.KBENCH_HEARTBEAT_TIMEOUT_S + 1)
    Run.objects.filter(pk=silent.run.pk).update(heartbeat=long_ago)
    woken.clear()
    assert services.tend() == 1
    assert woken == ["resend"] * 2
    assert services.run_heartbeat(silent) is None
    assert services.run_heartbeat(alive) == Wish.GO
    silent.run.refresh_from_db()
    assert "worker was lost" in silent.run.reason_text


def test_while_a_worker_writes_nobody_else_does() -> None:
    run = factories.started()
    factories.claimed(run)
    with pytest.raises(RunBusy), services.log_of(run):
        pass


def test_a_run_without_a_worker_is_stopped_at_once() -> None:
    run = factories.started()
    services.run_wish(run, Wish.STOP, "olga")
    run.refresh_from_db()
    assert (run.state, run.reason, run.reason_text) == (RunStatus.FINISHED, "stopped", "Stopped by olga.")
    with pytest.raises(Refused, match="has ended"):
        services.run_wish(run, Wish.GO, "olga")


def test_a_run_that_has_just_ended_is_stopped_without_an_error() -> None:
    """Who deletes or suspends an account has read the run before it ended."""
    run = factories.started()
    before = Run.objects.get(pk=run.pk)
    services.run_wish(run, Wish.STOP, "olga")
    services.run_wish(before, Wish.STOP, "staff")
    run.refresh_from_db()
    assert run.reason_text == "Stopped by olga."


def test_what_a_lost_worker_left_open_is_settled_before_a_run_stops(woken: list[str]) -> None:
    """Money is reserved, so the next worker has to take the run and end it properly."""
    run = factories.started()
    Run.objects.filter(pk=run.pk).update(leases={"1-0": {"usd": 1.0}}, state=RunStatus.PAUSED)
    run.refresh_from_db()
    woken.clear()
    services.run_wish(run, Wish.STOP, "olga")
    run.refresh_from_db()
    assert run.state == RunStatus.WAITING
    assert woken == ["wake"]


def test_a_run_that_is_being_stopped_takes_no_other_wish() -> None:
    run = factories.started()
    Run.objects.filter(pk=run.pk).update(state=RunStatus.STOPPING)
    run.refresh_from_db()
    with pytest.raises(Refused, match="being stopped"):
        services.run_wish(run, Wish.GO, "olga")


@pytest.mark.parametrize(
    ("setting", "words"),
    [("KBENCH_RUNS_PER_OWNER_MAX", "unfinished runs"), ("KBENCH_RUNS_MAX", "unfinished on this site")],
)
def test_unfinished_runs_are_limited_and_finished_ones_make_room(
    setting: str, words: str, settings: Any, owner: Any
) -> None:
    setattr(settings, setting, 1)
    run = factories.started(owner)
    with pytest.raises(Refused, match=words):
        factories.started(owner)
    services.run_wish(run, Wish.STOP, "olga")
    assert factories.started(owner).state == RunStatus.WAITING


def test_paused_runs_count_for_an_account_and_not_for_all_visitors_together(settings: Any, owner: Any) -> None:
    settings.KBENCH_RUNS_PER_OWNER_MAX = 1
    for person in (None, owner):
        services.run_wish(factories.started(person), Wish.PAUSE, "x")
    assert factories.started().state == RunStatus.WAITING
    for person in (None, owner):
        with pytest.raises(Refused, match="unfinished runs"):
            factories.started(person)


def test_the_dollars_of_a_day_add_up_for_each_owner(settings: Any, owner: Any, stranger: Any) -> None:
    settings.KBENCH_USD_PER_DAY = 5.0
    with pytest.raises(Refused, match="needs a limit in dollars"):
        factories.started(owner, proposer="anthropic")
    factories.started(owner, proposer="anthropic", caps=Caps(usd=3.0))
    with pytest.raises(Refused, match=r"\$6.00 within a day; the limit is \$5"):
        factories.started(owner, proposer="anthropic", caps=Caps(usd=3.0))
    factories.started(stranger, proposer="anthropic", caps=Caps(usd=3.0))
    Run.objects.filter(owner=owner).update(created=timezone.now() - timedelta(days=2))
    factories.started(owner, proposer="anthropic", caps=Caps(usd=3.0))


def test_an_external_run_needs_a_limit_that_the_site_counts() -> None:
    with pytest.raises(NoLimit):
        factories.started(proposer="external", caps=Caps(usd=1.0))


def test_metrics_count_runs_by_state() -> None:
    factories.started()
    services.run_wish(factories.started(), Wish.STOP, "olga")
    (family,) = run_metrics()
    assert {sample.labels["state"]: sample.value for sample in family.samples} == {"waiting": 1.0, "finished": 1.0}


def test_costs_are_what_runs_have_spent_on_a_device_and_suite() -> None:
    run = factories.driven()
    waiting = factories.started()
    Run.objects.filter(pk=waiting.pk).update(leases={"1-0": {"judgings": 5}})
    suite = run.task_version.task.suite
    found = spent_by_method(Scope((run.method_id,), suite.pk, run.device_kind_id))[run.method_id]
    assert found.runs == 2
    assert found.judgings == run.spent["judgings"] > 0
    assert spent_by_method(Scope((run.method_id,), suite.pk, judgings.gpu_kind().pk)) == {}


def test_an_archive_has_the_whole_log_of_every_run_of_its_owner(owner: Any, stranger: Any) -> None:
    run = factories.driven(factories.started(owner))
    factories.started(stranger)
    files = dict(files_of(owner))
    assert set(files) == {f"runs/{run.code}/run.json", f"runs/{run.code}/events.jsonl"}
    assert files[f"runs/{run.code}/events.jsonl"].count(b"\n") == run.events.count()


def test_a_log_is_filtered_by_type_and_by_candidate(visitor: Client) -> None:
    run = factories.driven()
    key = run.best_key
    log = f"{run.get_absolute_url()}log/"
    judged = visitor.get(f"{log}?type=evaluation").content.decode()
    assert set(re.findall(r'<td class="mono">([a-z.]+)</td>', judged)) == {
        "evaluation.submitted",
        "evaluation.finished",
    }
    own = visitor.get(f"{log}?candidate={key}").content.decode()
    assert len(re.findall(r'<tr id="e\d+"', own)) == run.events.filter(candidate=key).count()


def test_a_candidate_in_progress_is_in_the_lane_of_its_evaluation() -> None:
    events, _ = factories.searched()
    until = next(number for number, event in enumerate(events) if event.type == "evaluation.submitted") + 1
    run = factories.driven(until=until)
    row = run.candidates.get(state="queued")
    evaluation = judgings.queued()
    row.ticket = str(evaluation.code)
    row.save()
    assert lane(run, row.key) == "queued"
    moves.evaluation_cancel(evaluation, "Withdrawn.")
    assert lane(run, row.key) == "done"


def lane(run: Run, key: str) -> str:
    return next(flight.lane for flight in flights(present(run)) if flight.row.key == key)
