"""The jobs as a worker runs them, with a fake judge: each evaluation ends exactly once, whatever is delivered."""

import threading
from dataclasses import replace
from datetime import timedelta
from unittest.mock import Mock

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from benchmarks import jobs, quotas, transactions
from benchmarks.accounts import ownership
from benchmarks.catalogue import folders
from benchmarks.harness import ChildSurvived, ProcessorsBusy, Step, SupervisorError, spec_to_json
from benchmarks.jobs import judging
from benchmarks.judgings import moves, queue
from benchmarks.judgings.moves import Holding
from benchmarks.models import Evaluation, Event, LedgerEntry, Standing, StoredTask, Suite, Task, TaskVersion, Worker
from benchmarks.operations.worker import stopping
from benchmarks.states import REQUESTS, Priority, State, WorkerState
from tests.fakes import FakeJudge, report_for

from .conftest import claimed_to_compile

# threads of their own write heartbeats, so what they see must be committed
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def deliver(worker):
    """A message for the compile worker and one for the judge, `times` each."""

    def run(times=1):
        for _ in range(times):
            jobs.compile_next.apply(args=["cpu-avx2"]).get()
            jobs.judge_next.apply(args=["cpu-avx2"]).get()

    return run


@pytest.fixture(autouse=True)
def restarted(monkeypatch):
    """The names of workers that were asked to start anew."""
    names = []
    monkeypatch.setattr(queue, "restart_worker", names.append)
    return names


@pytest.fixture
def source(tmp_path):
    """A source that leaves a line in a file whenever it is judged."""
    return lambda *lines: "\n".join([f"// counts: {tmp_path / 'judged'}", *lines]) + "\n"


@pytest.fixture
def judgings(tmp_path):
    return lambda: (tmp_path / "judged").read_text().count("judged") if (tmp_path / "judged").exists() else 0


def row():
    return Evaluation.objects.get()


def test_a_submission_is_compiled_judged_and_ranked(submit, deliver):
    submit(text="// speedup: 3.5\n")
    deliver()
    assert (row().state, row().verdict, row().score) == (State.DONE, "PASS", 3.5)
    assert row().standings.get().rank == 1


def test_messages_that_come_twice_judge_once(submit, deliver, source, judgings):
    submit(text=source())
    deliver(times=3)
    assert (row().verdict, judgings()) == ("PASS", 1)


def test_a_message_without_work_does_nothing(deliver):
    deliver()
    assert not Event.objects.exists()


def test_what_does_not_compile_ends_without_a_device(submit, worker):
    submit(text="// verdict: COMPILE_ERROR\n")
    jobs.compile_next.apply(args=["cpu-avx2"]).get()
    assert row().verdict == "COMPILE_ERROR"


def test_our_own_fault_is_tried_again_once(submit, deliver, source, judgings):
    submit(text=source("// verdict: NOISY"))
    deliver()
    assert (row().state, row().attempt) == (State.QUEUED, 2)
    deliver(times=3)
    assert (row().verdict, judgings()) == ("NOISY", 2)


def test_a_judge_that_fails_twice_is_an_internal_error(submit, deliver):
    submit(text="// raises\n")
    deliver()
    assert (row().state, row().attempt) == (State.QUEUED, 2)
    Worker.objects.update(state=WorkerState.ONLINE)  # it has passed its self-test
    deliver()
    assert (row().verdict, row().score) == ("INTERNAL_ERROR", None)
    assert "asked to fail" in row().error_internal


@pytest.mark.parametrize("trouble", ["// raises\n", "// flag: device-stuck\n"])
def test_a_worker_whose_device_may_have_failed_takes_no_more_work(submit, deliver, trouble, restarted):
    """It is restarted, and judges again when it has passed its self-test."""
    submit(text=trouble)
    deliver()
    judge = Worker.objects.get(pk=row().worker_id or Worker.objects.get(role="judge").pk)
    assert judge.state == WorkerState.QUARANTINED
    assert "repeats its self-test" in judge.state_text
    assert restarted == [judge.name]
    second = submit(text="// another\n")
    deliver()
    second.refresh_from_db()
    assert second.state == State.QUEUED


def test_an_imported_problem_that_fails_again_and_again_stops_a_worker_once(submit, deliver, version, restarted):
    """Its author's file runs in referee and baselines, and whoever posted it may submit to it as often as they like."""
    spec = spec_to_json(folders.shown_spec(version))
    StoredTask.objects.create(version=version, origin_sha256="0" * 64, spec=spec)
    for _ in range(2):
        submit(text="// raises\n")
        for _ in range(2):
            deliver()
            Worker.objects.update(state=WorkerState.ONLINE)  # it has passed its self-test
    assert {item.verdict for item in Evaluation.objects.all()} == {"INTERNAL_ERROR"}
    assert len(restarted) == 1


def test_deleting_the_submission_gives_a_device_no_other_self_test(submit, deliver, version, restarted):
    StoredTask.objects.create(version=version, origin_sha256="0" * 64, spec=spec_to_json(folders.shown_spec(version)))
    for _ in range(2):
        evaluation = submit(text="// raises\n")
        for _ in range(2):
            deliver()
            Worker.objects.update(state=WorkerState.ONLINE)
        ownership.submission_delete(evaluation.submission)
    assert not Evaluation.objects.exists()
    assert len(restarted) == 1


def test_an_imported_problem_fails_anew_a_day_later(submit, deliver, version, restarted):
    spec, then = spec_to_json(folders.shown_spec(version)), timezone.now() - timedelta(hours=25)
    StoredTask.objects.create(version=version, origin_sha256="0" * 64, spec=spec, failed=then)
    submit(text="// raises\n")
    deliver()
    assert len(restarted) == 1


def test_a_process_that_does_not_end_stops_a_worker_each_time(submit, deliver, version, restarted, monkeypatch):
    StoredTask.objects.create(version=version, origin_sha256="0" * 64, spec=spec_to_json(folders.shown_spec(version)))
    monkeypatch.setattr(FakeJudge, "judge", Mock(side_effect=ChildSurvived))
    submit()
    for _ in range(2):
        deliver()
        Worker.objects.update(state=WorkerState.ONLINE)
    assert len(restarted) == 2


def test_all_requests_together_stop_a_worker_once(submit, deliver, version, restarted):
    """An account posts several a day, and each is a task of its own."""
    spec, suite = spec_to_json(folders.shown_spec(version)), Suite.objects.create(slug=REQUESTS, title="x")
    for number in (1, 2):
        task = Task.objects.create(suite=suite, op=f"request_{number}", direction="forward", title="x")
        columns = {name: getattr(version, name) for name in ("definition", "reference_source", "content_sha256")}
        posted = TaskVersion.objects.create(task=task, number=1, status="active", **columns)
        StoredTask.objects.create(version=posted, origin_sha256="0" * 64, spec=spec)
        submit(text="// raises\n", version=posted)
        for _ in range(2):
            deliver()
            Worker.objects.update(state=WorkerState.ONLINE)
    assert {item.verdict for item in Evaluation.objects.all()} == {"INTERNAL_ERROR"}
    assert len(restarted) == 1


def test_an_error_of_the_database_leaves_an_imported_problem_its_first_failure(
    submit, deliver, version, restarted, monkeypatch
):
    spec = spec_to_json(folders.shown_spec(version))
    StoredTask.objects.create(version=version, origin_sha256="0" * 64, spec=spec)
    submit(text="// raises\n")
    with monkeypatch.context() as patch:
        patch.setattr(FakeJudge, "judge", Mock(side_effect=OperationalError))
        deliver()
    assert (row().state, row().attempt, restarted) == (State.QUEUED, 2, [])
    deliver()
    assert (row().verdict, len(restarted)) == ("INTERNAL_ERROR", 1)


HOSTILE = "half \ud800 nul \0 \x1b[31m red"


def test_words_of_a_submission_never_make_its_fault_ours(submit, deliver, restarted, monkeypatch):
    """No database takes half a character, PostgreSQL no NUL either."""

    def judge(self, assignment, watcher):
        report = report_for(assignment.source, assignment.task, verdict="RUNTIME_ERROR")
        configs = tuple(replace(config, failure=HOSTILE) for config in report.configs)
        stages = tuple(replace(stage, log_tail=HOSTILE) for stage in report.stages)
        return replace(report, reason=HOSTILE * 1000, configs=configs, stages=stages)

    monkeypatch.setattr(FakeJudge, "judge", judge)
    submit(text="// x\n")
    deliver()
    assert (row().verdict, row().attempt, restarted) == ("RUNTIME_ERROR", 1, [])
    assert row().reason_text.startswith("half � nul � �[31m red")
    assert len(row().reason_text) <= 2000
    assert row().configs.first().failure == "half � nul � �[31m red"
    assert Worker.objects.get(role="judge").state != WorkerState.QUARANTINED


def test_words_of_a_submission_in_our_own_error_can_be_stored(submit, deliver, monkeypatch):
    def judge(self, assignment, watcher):
        raise SupervisorError(HOSTILE * 1000)

    monkeypatch.setattr(FakeJudge, "judge", judge)
    submit(text="// x\n")
    deliver()
    assert (row().state, row().attempt) == (State.QUEUED, 2)
    assert "half � nul � �[31m red" in row().error_internal


def test_a_cancelled_evaluation_stops_its_judge(submit, worker, settings):
    settings.KBENCH_HEARTBEAT_S = 0.05
    evaluation = submit(text="// seconds: 30\n")
    cancel = threading.Timer(0.5, lambda: (moves.evaluation_cancel(evaluation, "Not wanted."), connection.close()))
    cancel.start()
    jobs.compile_next.apply(args=["cpu-avx2"]).get()
    jobs.judge_next.apply(args=["cpu-avx2"]).get()
    cancel.join()
    assert (row().state, row().verdict) == (State.CANCELLED, "")


def test_a_worker_that_is_stopped_gives_its_evaluation_back(submit, worker):
    submit(text="// seconds: 30\n")
    jobs.compile_next.apply(args=["cpu-avx2"]).get()
    stop = threading.Timer(0.5, stopping.set)
    stop.start()
    jobs.judge_next.apply(args=["cpu-avx2"]).get()
    stop.join()
    assert (row().state, row().attempt) == (State.QUEUED, 1)


def test_an_example_at_work_gives_way_to_somebody_who_comes(submit, worker, settings):
    settings.KBENCH_HEARTBEAT_S = 0.05
    submit(text="// seconds: 30\n", priority=Priority.EXAMPLE)
    jobs.compile_next.apply(args=["cpu-avx2"]).get()
    visitor = threading.Timer(0.5, lambda: (submit(text="// speedup: 3\n"), connection.close()))
    visitor.start()
    jobs.judge_next.apply(args=["cpu-avx2"]).get()
    visitor.join()
    example, person = Evaluation.objects.order_by("pk")
    assert (example.state, example.attempt, example.claim) == (State.QUEUED, 1, None)
    assert "interrupted for other work" in example.reason_text
    jobs.compile_next.apply(args=["cpu-avx2"]).get()
    jobs.judge_next.apply(args=["cpu-avx2"]).get()
    person.refresh_from_db()
    assert (person.state, person.score) == (State.DONE, 3.0)


def test_who_is_no_example_gives_way_to_nobody(submit, worker, settings):
    settings.KBENCH_HEARTBEAT_S = 0.05
    submit(text="// seconds: 1\n", priority=Priority.AGENT)
    jobs.compile_next.apply(args=["cpu-avx2"]).get()
    visitor = threading.Timer(0.3, lambda: (submit(), connection.close()))
    visitor.start()
    jobs.judge_next.apply(args=["cpu-avx2"]).get()
    visitor.join()
    assert Evaluation.objects.earliest("pk").verdict == "PASS"


@pytest.mark.parametrize(("quick", "prepared"), [(False, 1), (True, 0)])
def test_the_baselines_of_a_task_are_prepared_before_a_device_is_taken(submit, worker, monkeypatch, quick, prepared):
    tasks = []
    monkeypatch.setattr(FakeJudge, "prepare", lambda self, task, rules, **_: tasks.append(task.name))
    submit(quick=quick)
    jobs.compile_next.apply(args=["cpu-avx2"]).get()
    assert (len(tasks), row().state, row().built is not None) == (prepared, State.QUEUED, True)


def test_baselines_that_find_no_processor_are_left_to_the_judging(submit, deliver, monkeypatch):
    def busy(self, task, rules, **_):
        raise ProcessorsBusy("others have them")

    monkeypatch.setattr(FakeJudge, "prepare", busy)
    submit()
    deliver()
    assert (row().verdict, row().attempt, row().error_internal) == ("PASS", 1, "")
    assert not Worker.objects.filter(state=WorkerState.QUARANTINED).exists()


def test_a_heartbeat_keeps_a_long_judging_from_the_reaper(submit, worker, settings):
    settings.KBENCH_HEARTBEAT_S = 0.05
    settings.KBENCH_HEARTBEAT_TIMEOUT_S = 0.5
    submit(text="// seconds: 1.5\n")
    jobs.compile_next.apply(args=["cpu-avx2"]).get()
    reaped = []
    reaper = threading.Timer(1.2, lambda: (reaped.append(moves.requeue_lost()), connection.close()))
    reaper.start()
    jobs.judge_next.apply(args=["cpu-avx2"]).get()
    reaper.join()
    assert (reaped, row().verdict) == ([0], "PASS")


def test_progress_is_told_ten_times_a_second_at_most(submit, claim):
    submit()
    holding = claim()
    sitting = judging.Sitting(Holding(holding.evaluation, holding.claim))
    for number in range(1000):
        sitting.on_step(Step("verify", "progress", number, 1000))
    assert Event.objects.filter(kind="progress").count() <= 3


def test_others_wait_where_somebody_else_is_queued_for_the_device(submit, claim):
    """Then no energy is measured. Shipped examples have time."""
    submit()
    holding = claim()
    sitting = judging.Sitting(Holding(holding.evaluation, holding.claim))
    assert not sitting.others_wait()
    waiting = submit()
    assert sitting.others_wait()
    Evaluation.objects.filter(pk=waiting.pk).update(priority=Priority.EXAMPLE)
    assert not sitting.others_wait()


def test_reap_and_dispatch_run_without_a_broker(submit):
    submit()
    jobs.reap.apply().get()
    jobs.dispatch.apply().get()
    assert row().state == State.QUEUED


@pytest.fixture
def unprepared(monkeypatch):
    """No task has its baselines yet. What was done, in order."""
    done, judge = [], FakeJudge.judge
    monkeypatch.setattr(FakeJudge, "is_prepared", lambda self, task, rules, *, device: "prepare" in done)
    monkeypatch.setattr(FakeJudge, "prepare", lambda self, task, rules, **_: done.append("prepare"))

    def told(self, assignment, watcher):
        done.append("quick" if assignment.quick else "full")
        return judge(self, assignment, watcher)

    monkeypatch.setattr(FakeJudge, "judge", told)
    return done


def test_a_person_sees_a_provisional_score_before_the_baselines_are_prepared(submit, deliver, unprepared):
    submit(text="// speedup: 3\n")
    deliver()
    assert (row().state, row().built, row().provisional, row().score) == (State.QUEUED, None, 3.0, None)
    assert not Standing.objects.exists()
    deliver()
    assert unprepared == ["quick", "prepare", "full"]
    assert (row().verdict, row().score, row().attempt) == ("PASS", 3.0, 1)


def test_the_full_judging_has_attempts_of_its_own(submit, deliver, unprepared):
    """An error of ours while a person waited for a first look would leave it only one."""
    submit(text="// speedup: 3\n")
    Evaluation.objects.update(attempt=moves.ATTEMPTS_MAX)
    deliver()
    assert (row().provisional, row().attempt) == (3.0, 1)


def test_who_cancels_after_a_provisional_score_has_paid_for_it(submit, deliver, unprepared, person):
    """The baselines are still not prepared then, so the next source would be looked at for nothing as well."""
    payer = quotas.payer_of(person("ann"), "")
    submit(text="// speedup: 3\n", payer=payer)
    deliver()
    assert row().provisional == 3.0
    assert moves.evaluation_cancel(row(), "Enough.")
    lines = LedgerEntry.objects.order_by("pk").values_list("text", "judging_s")
    assert [seconds for text, seconds in lines if "before its baselines" in text] == [5.0]  # verify and time


def test_the_baselines_are_prepared_while_the_judge_still_tests_itself(submit, deliver, worker, unprepared):
    Worker.objects.filter(pk=worker.pk).update(state=WorkerState.STARTING)
    submit()
    jobs.compile_next.apply(args=["cpu-avx2"]).get()
    assert (unprepared, row().state, row().built is None) == (["prepare"], State.QUEUED, False)
    Worker.objects.filter(pk=worker.pk).update(state=WorkerState.ONLINE)
    deliver()
    assert (unprepared, row().verdict, row().provisional) == (["prepare", "full"], "PASS", None)


def test_a_wrong_kernel_waits_for_no_baseline(submit, deliver, unprepared):
    submit(text="// verdict: INCORRECT_VALUE\n")
    deliver()
    assert (unprepared, row().verdict) == (["quick"], "INCORRECT_VALUE")


@pytest.mark.parametrize("priority", [Priority.AGENT, Priority.EXAMPLE])
def test_only_persons_are_judged_before_the_baselines(submit, deliver, unprepared, priority):
    submit(priority=priority)
    deliver()
    assert (unprepared, row().verdict, row().provisional) == (["prepare", "full"], "PASS", None)


class DatabaseEnds:
    """Of a transaction: raises at its end as often as it is told, as a database that ends it."""

    def __init__(self, monkeypatch, where, name, error, times):
        self.calls, self.left, self.error, self.work = 0, times, error, getattr(where, name)
        monkeypatch.setattr(where, name, self)

    def __call__(self, *given, **options):
        self.calls += 1
        result = self.work(*given, **options)
        if self.left:
            self.left -= 1
            raise self.error
        return result


def deadlock():
    error, error.__cause__ = OperationalError("deadlock detected"), type("DeadlockDetected", (Exception,), {})()
    error.__cause__.sqlstate = "40P01"
    return error


def test_a_report_whose_transaction_ends_a_deadlock_is_recorded_once(submit, deliver, source, judgings, monkeypatch):
    ends = DatabaseEnds(monkeypatch, moves, "standings_update", deadlock(), 2)
    monkeypatch.setattr(transactions, "PAUSE_S", 0.0)
    submit(text=source())
    deliver()
    assert (row().verdict, row().attempt, row().standings.count()) == ("PASS", 1, 1)
    assert (judgings(), ends.calls, row().configs.count()) == (1, 3, len(row().report["configs"]))


def test_a_compiled_code_is_recorded_though_its_transaction_ends_a_deadlock(submit, worker, monkeypatch):
    ends = DatabaseEnds(monkeypatch, moves, "decision_follows", deadlock(), 1)
    submit(text="// x\n")
    moves.evaluation_compiled(claimed_to_compile(worker), 1.0, "a" * 64)
    assert (row().object_key, row().attempt, ends.calls) == ("a" * 64, 1, 2)


def test_an_account_is_deleted_though_its_transaction_ends_a_deadlock(submit, person, monkeypatch):
    """Something may be judged again between two of its steps, and is locked late."""
    ends = DatabaseEnds(monkeypatch, ownership, "_boards_follow", deadlock(), 1)
    monkeypatch.setattr(transactions, "PAUSE_S", 0.0)
    ann = person("ann")
    submit(owner=ann)
    ownership.account_delete(ann, keep_submissions=False)
    assert (type(ann).objects.count(), Evaluation.objects.count(), ends.calls) == (0, 0, 2)


def test_a_deadlock_without_end_is_an_error_after_a_few_times(submit, deliver, monkeypatch):
    ends = DatabaseEnds(monkeypatch, moves, "standings_update", deadlock(), 100)
    monkeypatch.setattr(transactions, "PAUSE_S", 0.0)
    submit(text="// x\n")
    deliver()
    assert ends.calls == transactions.ATTEMPTS_MAX
    assert (row().state, row().attempt) == (State.QUEUED, 2)


def test_a_database_that_fails_while_a_report_is_recorded_takes_no_worker_out_of_service(
    submit, deliver, restarted, monkeypatch
):
    """A lost connection may have been committed, so nothing is repeated by itself: it is judged again."""
    ends = DatabaseEnds(monkeypatch, moves, "standings_update", OperationalError("the connection is lost"), 1)
    submit(text="// x\n")
    deliver()
    assert Worker.objects.get(role="judge").state == WorkerState.ONLINE
    assert (row().state, row().attempt, ends.calls, restarted) == (State.QUEUED, 2, 1, [])
    deliver()
    assert row().verdict == "PASS"
