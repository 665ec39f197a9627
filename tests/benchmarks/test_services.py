"""Submissions and the moves of an evaluation, one promise each. The races are in `test_claims.py`."""

import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from benchmarks import extensions, switches
from benchmarks.catalogue.folders import spec_of
from benchmarks.extensions import Extension
from benchmarks.harness import Source, Step
from benchmarks.judgings import moves
from benchmarks.judgings.moves import ClaimLost, Holding
from benchmarks.judgings.waiting import waiting_text
from benchmarks.models import CodeBlob, Evaluation, Event, Submission, Worker
from benchmarks.querysets import EXAMPLES_WAIT_S
from benchmarks.services import Refused
from benchmarks.states import MOVES, Priority, State, Switch
from tests.fakes import report_for

from .conftest import claimed_to_compile, make_worker


def age(evaluation, **times):
    Evaluation.objects.filter(pk=evaluation.pk).update(**{key: timezone.now() - value for key, value in times.items()})


def test_a_submission_is_queued_with_its_first_event(submit):
    evaluation = submit()
    assert evaluation.state == State.QUEUED
    assert Event.objects.filter(topic=evaluation.topic, kind="state").exists()


def test_the_same_source_is_kept_once(submit):
    submit()
    submit()
    assert (Submission.objects.count(), CodeBlob.objects.count()) == (2, 1)


def test_the_same_token_gives_the_same_evaluation(submit, person):
    owner = person("ann")
    first = submit(owner=owner, client_token="abc")
    assert submit(owner=owner, client_token="abc") == first
    assert submit(owner=person("bob"), client_token="abc") != first


def test_the_same_token_without_an_owner_gives_the_same_evaluation(submit):
    assert submit(client_token="abc") == submit(client_token="abc")


def test_paused_submissions_are_refused_with_the_message(submit):
    switches.switch_set(Switch.SUBMISSIONS, on=False, message="moving house")
    with pytest.raises(Refused, match="moving house"):
        submit()


def test_a_retired_version_takes_nothing(submit, version):
    version.status = "retired"
    with pytest.raises(Refused, match="no longer judged"):
        submit(version=version)


def test_judging_again_leaves_the_first_evaluation_alone(judged):
    first = judged()
    second = judged(submission=first.submission, reason="rejudge", speedup=2.01)
    first.refresh_from_db()
    assert (first.score, second.score) == (2.0, 2.01)


def test_a_claim_takes_the_next_one_and_names_the_worker(submit, claim, worker):
    evaluation = submit()
    holding = claim()
    assert (holding.evaluation, holding.evaluation.worker) == (evaluation, worker)
    assert Worker.objects.get(pk=worker.pk).current_evaluation == evaluation
    assert claim() is None


def test_nothing_is_claimed_while_judging_is_paused(submit, claim):
    submit()
    switches.switch_set(Switch.JUDGING, on=False)
    assert claim() is None


def test_what_is_not_compiled_waits_for_the_compile_worker(submit, worker, cpu):
    evaluation = submit()
    assert moves.evaluation_claim(worker, cpu) is None
    moves.evaluation_built(claimed_to_compile(make_worker("compile")))
    assert moves.evaluation_claim(worker, cpu).evaluation == evaluation


def test_people_go_before_agents_and_examples(submit, claim):
    submit(priority=Priority.EXAMPLE)
    agent = submit(priority=Priority.AGENT)
    person = submit()
    assert [claim().evaluation for _ in range(2)] == [person, agent]


def test_examples_wait_until_nobody_has_wanted_anything_for_a_while(submit, claim):
    make_worker("compile")
    example = submit(priority=Priority.EXAMPLE)
    person = submit()
    claim()
    assert claim() is None
    assert "Shipped examples wait" in waiting_text(example)
    long_ago = timezone.now() - timedelta(seconds=EXAMPLES_WAIT_S + 1)
    moves.evaluation_cancel(person, "Not wanted.")
    Evaluation.objects.filter(pk=person.pk).update(queued=long_ago, finished=long_ago)
    assert claim().evaluation == example


def test_examples_wait_for_who_is_about_to_want_something(submit, claim, monkeypatch):
    expected = [True]
    wants = Extension(is_expecting=lambda kind: kind.slug == "cpu-avx2" and expected[0])
    monkeypatch.setattr(extensions, "_extensions", {"a": wants})
    example = submit(priority=Priority.EXAMPLE)
    assert claim() is None
    expected[0] = False
    holding = claim()
    assert holding.evaluation == example
    assert not moves.gives_way(example)
    expected[0] = True
    assert moves.gives_way(example)


def test_owners_take_turns(submit, claim, person):
    ann, bob = person("ann"), person("bob")
    many = [submit(owner=ann) for _ in range(3)]
    late = submit(owner=bob)
    assert [claim().evaluation for _ in range(4)] == [many[0], late, many[1], many[2]]


def test_steps_become_states_and_columns(submit, claim):
    submit()
    holding = claim()
    moves.evaluation_step(holding, Step("compile", "started"))
    moves.evaluation_step(holding, Step("verify", "progress", 2, 5, "batch 3"))
    row = Evaluation.objects.get()
    assert (row.state, row.stage, row.stage_done, row.stage_total, row.stage_text) == (
        State.VERIFYING, "verify", 2, 5, "batch 3"
    )  # fmt: skip
    assert row.started


@pytest.mark.parametrize("act", ["step", "built", "release", "report"])
def test_who_lost_the_claim_can_do_nothing(submit, claim, act):
    submit()
    holding = Holding(claim().evaluation, uuid.uuid4())
    report = report_for(Source("x", "cpp"), spec_of(holding.evaluation.task_version))
    acts = {
        "step": lambda: moves.evaluation_step(holding, Step("verify", "started")),
        "built": lambda: moves.evaluation_built(holding),
        "release": lambda: moves.evaluation_release(holding, "why"),
        "report": lambda: moves.record_report(holding, report),
    }
    with pytest.raises(ClaimLost):
        acts[act]()
    assert Evaluation.objects.get().state == State.CLAIMED


def test_a_heartbeat_keeps_and_a_cancelled_one_says_stop(submit, claim):
    evaluation = submit()
    holding = claim()
    assert moves.evaluation_heartbeat(holding)
    assert moves.evaluation_cancel(evaluation, "Not wanted.")
    assert not moves.evaluation_heartbeat(holding)


def test_a_finished_one_cannot_be_cancelled(judged):
    evaluation = judged()
    assert not moves.evaluation_cancel(evaluation, "Too late.")
    assert evaluation.state == State.DONE


def test_a_released_one_counts_no_attempt(submit, claim):
    submit()
    moves.evaluation_release(claim(), "The worker was stopped.")
    row = Evaluation.objects.get()
    assert (row.state, row.attempt, row.worker, row.reason_text) == (
        State.QUEUED, 1, None, "The worker was stopped."
    )  # fmt: skip


def test_a_lost_worker_costs_one_attempt(submit, claim):
    age(submit(), queued=timedelta(0))
    age(claim().evaluation, heartbeat=timedelta(hours=1))
    assert moves.requeue_lost() == 1
    row = Evaluation.objects.get()
    assert (row.state, row.attempt) == (State.QUEUED, 2)
    assert "lost" in row.reason_text


def test_the_second_lost_worker_ends_as_our_error(submit, claim):
    submit()
    for _ in range(2):
        age(claim().evaluation, heartbeat=timedelta(hours=1))
        moves.requeue_lost()
    row = Evaluation.objects.get()
    assert (row.state, row.verdict, row.score) == (State.DONE, "INTERNAL_ERROR", None)


def test_a_living_worker_keeps_its_evaluation(submit, claim):
    submit()
    claim()
    assert moves.requeue_lost() == 0


def test_what_nobody_takes_expires_with_a_reason(submit):
    age(submit(), queued=timedelta(days=30))
    assert moves.expire_hopeless() == 1
    row = Evaluation.objects.get()
    assert (row.state, row.verdict) == (State.EXPIRED, "")
    assert "cpu" in row.reason_text


def test_a_queued_one_of_a_retired_version_expires(submit, version):
    submit()
    version.status = "retired"
    version.save()
    assert moves.expire_hopeless() == 1


def test_no_finished_state_can_be_left():
    assert all(not MOVES[state] for state in (State.DONE, State.CANCELLED, State.EXPIRED))


def test_a_report_ends_the_evaluation_once(submit, claim):
    submit()
    holding = claim()
    report = report_for(Source("x", "cpp"), spec_of(holding.evaluation.task_version))
    moves.record_report(holding, report)
    with pytest.raises(ClaimLost):
        moves.record_report(holding, report)
    assert Evaluation.objects.get().stages.count() == 3


def test_a_cpu_is_not_kept_from_judging_by_compiling_ahead(submit, worker, cpu):
    for _ in range(3):
        submit()
    compiler = make_worker("compile")
    moves.evaluation_built(claimed_to_compile(compiler))
    assert claimed_to_compile(compiler) is None
    moves.evaluation_claim(worker, cpu)
    assert claimed_to_compile(compiler) is not None


def test_a_person_is_compiled_although_examples_lie_ready(submit):
    compiler = make_worker("compile")
    submit(priority=Priority.EXAMPLE)
    moves.evaluation_built(claimed_to_compile(compiler))
    person = submit()
    assert claimed_to_compile(compiler).evaluation == person
