"""Why an evaluation waits, as the sentence on the page."""

import random
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchmarks import switches
from benchmarks.judgings.waiting import outlook, standstill, waiting, waiting_reason, waiting_text
from benchmarks.models import Evaluation, StageResult
from benchmarks.querysets import EXAMPLES_WAIT_S
from benchmarks.states import Priority, State, Switch, WorkerRole, WorkerState
from tests.counting import sqlite_steps

from .conftest import make_worker


@pytest.fixture
def workers(worker):
    return [worker, make_worker(WorkerRole.COMPILE)]


def test_the_first_one_is_picked_up_now(submit, workers):
    assert "You are next" in waiting_text(submit())


def test_the_place_in_the_queue_is_exact(submit, workers):
    evaluations = [submit() for _ in range(3)]
    assert [waiting(evaluation).position for evaluation in evaluations] == [1, 2, 3]
    assert waiting_reason(evaluations[2]) == "2 ahead of you."


def test_the_next_one_hears_that_another_is_judged(submit, workers, claim):
    submit()
    second = submit()
    claim()
    assert "another" in waiting_text(second)


def test_without_any_worker_it_says_so(submit):
    assert waiting_text(submit()) == "No cpu-avx2 worker has ever been online."


def test_a_silent_worker_is_named_with_its_last_sign_of_life(submit):
    make_worker(heartbeat=timezone.now() - timedelta(hours=2))
    assert "No cpu-avx2 worker online since 20" in waiting_text(submit())


def test_a_quarantined_worker_is_explained(submit):
    make_worker(state=WorkerState.QUARANTINED, state_text="a wrong kernel was accepted")
    assert "a wrong kernel was accepted" in waiting_text(submit())


def test_a_missing_compile_worker_is_named(submit, worker):
    assert "compiles" in waiting_text(submit())


def test_paused_judging_gives_the_message(submit, workers):
    switches.switch_set(Switch.JUDGING, on=False, message="new disks")
    assert waiting_text(submit()) == "Judging is paused: new disks"


def test_what_is_done_does_not_wait(judged):
    assert waiting(judged()) is None


def crowd(submit, person, count):
    """Queued evaluations of several owners and classes, some of them at work."""
    draws = random.Random(5)
    owners = [None, *(person(name) for name in ("ann", "ben", "cai"))]
    made = [
        submit(text=f"// {number}\n", owner=draws.choice(owners), priority=draws.choice(Priority.values))
        for number in range(count)
    ]
    now = timezone.now()
    for row in made:
        Evaluation.objects.filter(pk=row.pk).update(queued=now - timedelta(seconds=draws.randrange(4)))
    for row in draws.sample(made, count // 6):
        Evaluation.objects.filter(pk=row.pk).update(state=State.CLAIMED, claim=row.code, claimed=now)
    for minutes, owner in enumerate(owners[:3]):
        ended(submit(text=f"// ended {minutes}\n", owner=owner), now - timedelta(minutes=minutes))


def ended(row, at):
    columns = {"state": State.DONE, "verdict": "REJECTED", "reason_text": "no", "claim": None}
    Evaluation.objects.filter(pk=row.pk).update(**columns, claimed=at, finished=at)


def test_every_place_is_as_the_queue_is_taken_up(submit, person, workers, cpu):
    crowd(submit, person, 60)
    order = list(Evaluation.objects.queued().in_queue_order())
    assert [waiting(row).position for row in order] == list(range(1, 51))
    newcomer = Evaluation.objects.place_of_next(cpu, None, Priority.PERSON)
    assert Evaluation.objects.queued().ahead_of(newcomer).count() == place_taken(submit)


def place_taken(submit):
    """How many really go before what is submitted now."""
    return waiting(submit(text="// new\n")).ahead


def test_what_ended_lately_is_read_once_and_not_for_each_that_waits(submit, person):
    """Both grow with a busy site, so their product would slow every page that shows the queue."""
    ann = person("ann")
    for number in range(40):
        submit(text=f"// {number}\n", owner=ann)
    with sqlite_steps() as few:
        list(Evaluation.objects.queued().in_queue_order().values_list("pk"))
    now = timezone.now()
    for number in range(40):
        ended(submit(text=f"// ended {number}\n", owner=ann), now)
    with sqlite_steps() as many:
        list(Evaluation.objects.queued().in_queue_order().values_list("pk"))
    assert len(many) < len(few) + 40


def test_with_a_single_judge_a_newcomer_waits_for_one(submit, person, claim):
    """Whoever has queued many is not first again each time that the judge is free."""
    ann, ben, cai = (person(name) for name in ("ann", "ben", "cai"))
    for number in range(4):
        submit(text=f"// ann {number}\n", owner=ann)
    ended(claim().evaluation, timezone.now())
    for name, owner in (("ben", ben), ("cai", cai)):
        for number in range(2):
            submit(text=f"// {name} {number}\n", owner=owner)
    taken = []
    for _ in range(7):
        evaluation = claim().evaluation
        taken.append(evaluation.submission.owner.username)
        ended(evaluation, timezone.now())
    assert taken == ["ben", "cai", "ann", "ben", "cai", "ann", "ann"]


def test_what_nobody_began_costs_no_turn(submit, person, claim):
    """Cancelled while it waited."""
    ann, ben = person("ann"), person("ben")
    row = submit(owner=ann)
    Evaluation.objects.filter(pk=row.pk).update(state=State.CANCELLED, reason_text="no", finished=timezone.now())
    first = submit(text="// first\n", owner=ann)
    submit(text="// second\n", owner=ben)
    assert claim().evaluation == first


def judged_before(submit, count=5, seconds=30.0):
    now = timezone.now()
    for number in range(count):
        row = submit(text=f"// earlier {number}\n")
        ended = {"state": State.DONE, "verdict": "REJECTED", "reason_text": "no", "finished": now, "build_s": 10.0}
        Evaluation.objects.filter(pk=row.pk).update(**ended)
        StageResult.objects.create(evaluation=row, position=0, name="compile", seconds=0.0)
        StageResult.objects.create(evaluation=row, position=1, name="time", seconds=seconds)


def test_an_estimate_adds_up_what_goes_first_and_ones_own_build(submit, workers):
    judged_before(submit)
    rows = [submit(text=f"// {number}\n") for number in range(4)]
    found = waiting(rows[3]).estimate
    assert (found.low_s, found.high_s) == (3 * 40.0 + 10.0, 3 * 40.0 + 10.0)
    assert waiting_text(rows[3]) == "3 ahead of you. It should begin in about 2 to 3 minutes."
    assert waiting_reason(rows[3]) == "3 ahead of you."


def test_without_enough_judgings_it_says_why_there_is_no_estimate(submit, workers):
    judged_before(submit, count=2)
    found = waiting(submit())
    assert found.estimate is None
    assert "Fewer than 3" in found.no_estimate
    assert found.text.startswith("You are next: a worker is about to start. No estimate: fewer than 3 evaluations")


def test_shipped_examples_get_no_estimate(submit, workers):
    judged_before(submit)
    assert "while other submissions are in the queue" in waiting(submit(priority=Priority.EXAMPLE)).no_estimate


def test_an_example_that_gives_way_says_so_though_it_is_next(submit, workers):
    judged_before(submit)
    example = submit(priority=Priority.EXAMPLE)
    assert waiting_text(example) == standstill(example)
    assert "for 2 minutes after the last of them" in standstill(example)
    long_ago = timezone.now() - timedelta(seconds=EXAMPLES_WAIT_S + 1)
    Evaluation.objects.exclude(pk=example.pk).update(queued=long_ago, finished=long_ago)
    assert standstill(example) == ""
    assert "You are next" in waiting_text(example)


def test_without_a_compile_worker_there_is_no_estimate(submit, worker):
    judged_before(submit)
    found = waiting(submit())
    assert found.estimate is None
    assert found.text == found.no_estimate == "No worker that compiles for cpu-avx2 has ever been online."


def test_a_place_is_found_without_a_case_for_each_owner_who_was_served(submit, person, workers):
    """Django takes long to write those, once more wherever the moment at which a row's owner was served is compared."""
    ann = person("ann")
    served, last = submit(owner=ann), submit(text="// ann's next", owner=ann)
    now = timezone.now()
    ended = {"state": State.DONE, "verdict": "REJECTED", "reason_text": "no", "claimed": now, "finished": now}
    Evaluation.objects.filter(pk=served.pk).update(**ended)
    first = submit(text="// nobody has served this one")
    with CaptureQueriesContext(connection) as ran:
        assert [waiting(row).position for row in (last, first)] == [2, 1]
    assert [query["sql"].count("WHEN") for query in ran if "ROW_NUMBER" in query["sql"]] == [0, 0]


def test_who_submits_now_is_told_place_and_time(submit, workers, cpu, version):
    assert outlook(cpu, version, None).startswith("You would be next. No estimate: fewer than 3")
    judged_before(submit)
    submit()
    assert outlook(cpu, version, None) == "1 in the queue would go first; judging should begin in less than a minute."


def test_the_number_of_queries_does_not_depend_on_the_queue(submit, person, workers, django_assert_num_queries):
    judged_before(submit)
    first = submit()
    with django_assert_num_queries(12):
        waiting(first)
    crowd(submit, person, 40)
    with django_assert_num_queries(12):
        waiting(first)
