"""The figures of operations: depth by class, waits, outcomes, samples; and what a worker's self-test leaves behind."""

from datetime import timedelta

import pytest
from django.utils import timezone

from benchmarks import jobs, switches
from benchmarks.models import Evaluation, QueueSample
from benchmarks.operations import load, worker
from benchmarks.operations.load import Outcomes, Waits
from benchmarks.states import Priority, State, Switch


def figures():
    return load.device_figures()[0]


def ended(submit, verdict, **ago):
    now = timezone.now()
    row = submit(text=f"// {Evaluation.objects.count()}\n")
    columns = {"verdict": verdict, "reason_text": "no", "finished": now - timedelta(**ago)}
    Evaluation.objects.filter(pk=row.pk).update(state=State.DONE, **columns)


def test_depth_is_told_by_class_with_the_oldest(submit):
    first = submit()
    submit(text="// 2\n", priority=Priority.AGENT)
    submit(text="// 3\n", priority=Priority.AGENT)
    found = figures()
    assert found.depth == {"people": 1, "agents": 2, "rejudge": 0, "examples": 0}
    assert (found.queued, found.running, found.oldest) == (3, 0, first.queued)


def test_waits_are_from_being_queued_to_the_judge(submit, worker, claim):
    for wait_s in (10, 20, 90):
        evaluation = submit(text=f"// {wait_s}\n")
        Evaluation.objects.filter(pk=evaluation.pk).update(queued=timezone.now() - timedelta(seconds=wait_s))
        claim()
    assert figures().last_hour.count == 3
    assert figures().last_hour.median_s == pytest.approx(20, abs=2)
    Evaluation.objects.update(claimed=timezone.now() - timedelta(hours=2))
    assert (figures().last_hour, figures().last_day.count) == (Waits(0, None, None), 3)


def test_nine_of_ten_waited_no_longer_than_p90():
    assert Waits.of(list(range(1, 101))).p90_s == 91
    assert Waits.of([5.0]).p90_s == 5.0


def test_outcomes_of_thirty_days_tell_our_own_faults_apart(submit):
    ended(submit, "REJECTED", days=1)
    ended(submit, "COMPILE_ERROR", days=29)
    ended(submit, "INTERNAL_ERROR", days=2)
    ended(submit, "NOISY", days=2)
    ended(submit, "INTERNAL_ERROR", days=31)
    assert figures().outcomes == Outcomes(judged=4, accepted=0, ours=2)
    assert figures().outcomes.success_rate == 0.5
    assert Outcomes(0, 0, 0).success_rate is None


def test_a_sample_a_minute_becomes_the_history(submit, version):
    submit()
    jobs.sample_queues()
    jobs.sample_queues()
    sample = QueueSample.objects.get()
    assert (sample.queued, sample.running) == (1, 0)
    later = sample.taken - timedelta(hours=2)
    QueueSample.objects.create(device_kind=sample.device_kind, taken=later, queued=7, running=1)
    assert [depth for _, depth in figures().history] == [7, 1]


def test_old_samples_are_forgotten(submit, version):
    jobs.sample_queues()
    QueueSample.objects.update(taken=timezone.now() - timedelta(days=8))
    load.forget_old_samples()
    assert not QueueSample.objects.exists()


def test_switches_that_are_off_are_incidents(version):
    switches.switch_set(Switch.JUDGING, on=False, message="new disks")
    switches.switch_set(Switch.BANNER, on=True, message="Back at noon.")
    switches.switch_set(Switch.RUNS, on=True)
    assert [(item.title, item.text) for item in load.incidents()] == [
        ("Notice", "Back at noon."),
        ("Off: judging of queued submissions", "new disks"),
    ]


def test_the_number_of_queries_is_fixed(submit, worker, django_assert_num_queries):
    with django_assert_num_queries(7):
        load.device_figures()
    for number in range(20):
        submit(text=f"// {number}\n", priority=Priority.values[number % 4])
    with django_assert_num_queries(7):
        load.device_figures()


def test_a_worker_tells_the_versions_of_its_tools(version, settings):
    settings.KBENCH_IMAGE = "kbench:7"
    versions = worker.register("judge.cpu@here").versions
    assert (versions["compiler"], versions["image"]) == ("fake 1.0", "kbench:7")
    assert "torch" in versions
