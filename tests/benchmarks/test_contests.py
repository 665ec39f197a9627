"""A contest from its draft to its frozen results, by moving the clock; what its sealed configurations are."""

import hashlib
import json
import logging
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.http import Http404
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchmarks import services
from benchmarks.accounts import ownership
from benchmarks.catalogue.folders import spec_of
from benchmarks.contests import finals, results, running, sealing
from benchmarks.contests.running import ContestDraft
from benchmarks.harness import Source
from benchmarks.judgings import moves
from benchmarks.models import Contest, ContestEntry, ContestSitting, Evaluation, Event, Notification, Standing
from benchmarks.selectors import version_numbered
from benchmarks.services import Refused
from benchmarks.states import ContestState, EvaluationReason, State, TaskVersionStatus, Visibility
from tests.fakes import report_for

from .conftest import make_worker

TASK = "robust-kbench/mnist_linear_relu/forward"
START = datetime(2027, 3, 1, 12, tzinfo=UTC)
HIDDEN = {TASK: {"cpu": [{"batch_size": 4861}]}}
HIDDEN_KEY = "batch_size=4861"


@pytest.fixture
def clock(monkeypatch):
    """Sets what time it is."""

    def at(moment):
        monkeypatch.setattr(timezone, "now", lambda: moment)

    at(START - timedelta(days=1))
    return at


@pytest.fixture
def contest(version, cpu, clock):
    draft = ContestDraft(
        slug="spring",
        title="Spring",
        rules_text="Be kind.",
        starts=START,
        ends=START + timedelta(days=1),
        best_n=2,
        tasks=[version.task],
        device_kinds=[cpu],
        hidden=sealing.checked(json.dumps(HIDDEN), [spec_of(version)]),
    )
    return running.contest_save(draft, by=None)


@pytest.fixture
def finish(worker):
    """Judges what a worker takes next, with a speedup that is chosen by its source."""

    def judge(speedups, by=None):
        holding = moves.evaluation_claim(by or worker, worker.device_kind)
        if holding is None:
            return None
        text = holding.evaluation.submission.blob.text
        spec = spec_of(holding.evaluation.task_version)
        moves.record_report(holding, report_for(Source(text, "cpp"), spec, speedup=speedups[text]))
        return Evaluation.objects.get(pk=holding.evaluation.pk)

    return judge


def begun(contest, clock, *accounts):
    running.announce(contest)
    for account in accounts:
        running.join(contest, account)
    clock(START + timedelta(hours=1))
    running.advance()
    contest.refresh_from_db()
    return contest


def test_a_contest_from_start_to_end(contest, clock, judged, submit, person, worker, finish, version):  # noqa: PLR0917
    olga, stefan, other = person("olga"), person("stefan"), person("other")
    judged(owner=olga, speedup=9.0, text="// before the start\n")
    running.advance()
    assert state(contest) == ContestState.DRAFT
    begun(contest, clock, olga, stefan)
    assert state(contest) == ContestState.RUNNING

    for speedup in (2.0, 3.0, 4.0):
        judged(owner=olga, speedup=speedup, text=f"// olga {speedup}\n")
    judged(owner=other, speedup=8.0, text="// takes no part\n")
    late = submit(owner=stefan, text="// stefan\n", visibility=Visibility.PRIVATE)
    [board] = results.boards(contest)
    assert [(line.participant, line.score) for line in board.lines] == [("olga", 4.0)]

    clock(START + timedelta(days=1, minutes=1))
    with pytest.raises(Refused):
        running.join(contest, other)
    running.advance()
    assert state(contest) == ContestState.RUNNING  # stefan's entry has no verdict yet
    Evaluation.objects.filter(pk=late.pk).update(built=timezone.now())
    finish({"// stefan\n": 5.0})
    running.advance()
    assert state(contest) == ContestState.JUDGING
    assert entries() == ["// olga 3.0\n", "// olga 4.0\n", "// stefan\n"]

    practice = submit(owner=other, text="// practice\n")
    Evaluation.objects.filter(pk=practice.pk).update(built=timezone.now())
    speedups = {"// olga 3.0\n": 3.5, "// olga 4.0\n": 2.5, "// stefan\n": 3.0, "// practice\n": 1.0}
    first = finish(speedups)
    assert (first.reason, first.task_version.status) == (EvaluationReason.CONTEST, TaskVersionStatus.CONTEST)
    assert HIDDEN_KEY in [config.key.split(",")[0] for config in first.configs.filter(group="multi")]
    second_worker = make_worker(name="judge@elsewhere")
    assert finish(speedups, by=second_worker).submission == practice.submission  # finals are the first worker's
    assert finish(speedups, by=second_worker) is None
    while finish(speedups):
        pass
    running.advance()
    assert state(contest) == ContestState.FINISHED

    frozen = lines(contest)
    assert frozen == [("olga", 3.5, 1), ("stefan", 3.0, 2)]
    assert [(line.participant, line.solved, line.rank) for line in results.overall(results.boards(contest))] == [
        ("olga", 1, 1),
        ("stefan", 1, 2),
    ]
    assert not Standing.objects.filter(task_version__status=TaskVersionStatus.CONTEST).exists()
    assert Notification.objects.filter(kind="contest-ended").count() == 2

    clock(START + timedelta(days=2))
    judged(owner=olga, speedup=20.0, text="// practice of olga\n")  # the ordinary board is open
    assert version.task.versions.get(status=TaskVersionStatus.ACTIVE) == version
    with pytest.raises(Refused):
        ownership.submission_delete(late.submission)
    ownership.account_delete(stefan, keep_submissions=False)
    running.advance()
    assert [line[1:] for line in lines(contest)] == [line[1:] for line in frozen]


def test_of_a_bound_the_lower_end_counts_before_and_after_the_results_are_frozen(
    contest, clock, judged, person, finish
):
    olga, stefan = person("olga"), person("stefan")
    begun(contest, clock, olga, stefan)
    judged(owner=olga, speedup=1.5, text="// exact\n")
    bound = {"timing_trust": "bounded", "score_lo": 1.35}
    for owner, text in ((olga, "// avoids\n"), (stefan, "// stefan\n")):
        evaluation = judged(owner=owner, speedup=1.98, text=text)
        Evaluation.objects.filter(pk=evaluation.pk).update(**bound)
    so_far = [("olga", 1.5, 1), ("stefan", 1.98, 2)]
    assert lines(contest) == so_far
    assert [line.mean for line in results.overall(results.boards(contest))] == [pytest.approx(1.5), pytest.approx(1.35)]

    clock(START + timedelta(days=1, minutes=1))
    running.advance()
    while final := finish({"// exact\n": 1.5, "// avoids\n": 1.98, "// stefan\n": 1.98}):
        if final.score > 1.9:
            Evaluation.objects.filter(pk=final.pk).update(**bound)
    running.advance()
    assert state(contest) == ContestState.FINISHED
    assert lines(contest) == so_far
    Evaluation.objects.filter(contest_entry__isnull=False).delete()
    assert lines(contest) == so_far, "what is frozen stays when a judging is deleted"


def state(contest):
    contest.refresh_from_db()
    return contest.state


def entries():
    return sorted(entry.submission.blob.text for entry in ContestEntry.objects.all())


def lines(contest):
    [board] = results.boards(contest)
    return [(line.participant, line.score, line.rank) for line in board.lines]


def test_finals_have_no_board_of_their_own(contest, clock, judged, person, finish):
    """The records of one would tell the results one by one, before the contest does."""
    begun(contest, clock, olga := person("olga"))
    judged(owner=olga, text="// olga\n")
    clock(START + timedelta(days=1, minutes=1))
    running.advance()
    final = finish({"// olga\n": 3.0})
    assert (state(contest), final.reason) == (ContestState.JUDGING, EvaluationReason.CONTEST)
    with pytest.raises(Http404):
        version_numbered(*TASK.split("/"), str(final.task_version.number))


def test_a_contest_without_entries_ends(contest, clock):
    begun(contest, clock)
    clock(START + timedelta(days=2))
    running.advance()
    assert (state(contest), results.overall(results.boards(contest))) == (ContestState.FINISHED, [])


def test_nobody_puts_off_the_end_by_asking_for_judgings(contest, clock, submit, person):
    olga = person("olga")
    begun(contest, clock, olga)
    checked = [submit(owner=olga, text=f"// {number}\n", quick=True) for number in range(2)]
    clock(START + timedelta(days=1, minutes=1))
    late = services.judge_in_full(checked[0], None)
    services.evaluation_create(checked[1].submission, reason=EvaluationReason.VERIFICATION)
    running.advance()
    assert state(contest) == ContestState.FINISHED  # it began, and there was nothing to judge
    assert late.state == State.QUEUED


def test_trying_until_it_passes_gains_nothing(contest, clock, judged, person, finish):
    """A code that was refused once and accepted another time waits for staff, as on a leaderboard."""
    olga, stefan = person("olga"), person("stefan")
    begun(contest, clock, olga, stefan)
    judged(owner=olga, text="// luck\n", verdict="INCORRECT_VALUE")
    judged(owner=olga, text="// luck\n", speedup=9.0)
    judged(owner=olga, text="// sound\n", speedup=2.0)
    judged(owner=stefan, text="// stefan\n", speedup=3.0)
    clock(START + timedelta(days=1))
    running.advance()
    while finish({"// luck\n": 9.0, "// sound\n": 2.0, "// stefan\n": 3.0}):
        pass
    running.advance()
    assert state(contest) == ContestState.FINISHED
    assert lines(contest) == [("stefan", 3.0, 1), ("olga", 2.0, 2)]


def test_the_same_program_counts_once(contest, clock, judged, person):
    olga = person("olga")
    begun(contest, clock, olga)
    judged(owner=olga, speedup=2.0, text="int a;\n")
    judged(owner=olga, speedup=2.1, text="int  a; // the same\n")
    found = list(finals.best_entries(contest, 2))
    assert len(found) == 1


@pytest.fixture
def lost(contest, clock, judged, person, finish):
    """Two finals of which one was judged, long after the worker of the sitting was seen last: what each text scores."""
    olga, speedups = person("olga"), {"// a\n": 2.0, "// b\n": 3.0}
    begun(contest, clock, olga)
    for text, speedup in speedups.items():
        judged(owner=olga, speedup=speedup, text=text)
    clock(START + timedelta(days=1))
    running.advance()
    finish(speedups)
    clock(START + timedelta(days=1) + finals.LOST_AFTER + timedelta(seconds=1))
    return speedups


def test_a_sitting_begins_anew_where_its_worker_is_lost(contest, lost, finish):
    running.advance()
    sitting = ContestSitting.objects.get()
    assert (sitting.worker, sitting.restarts) == (None, 1)
    waiting = Evaluation.objects.filter(contest_entry__isnull=False)
    assert [row.state for row in waiting] == [State.QUEUED, State.QUEUED]  # also the one that was judged
    second = make_worker(name="judge@elsewhere")
    while finish(lost, by=second):
        pass
    running.advance()
    assert (state(contest), results.machines(contest)) == (ContestState.FINISHED, ["judge@elsewhere"])


def test_no_decision_and_no_result_wait_for_each_other(contest, lost, finish):
    """Whoever writes entries holds the boards first, as a decision does."""
    assert tables_written() == ["benchmarks_taskversion", "benchmarks_contestentry"]  # another worker begins
    second = make_worker(name="judge@elsewhere")
    while finish(lost, by=second):
        pass
    assert tables_written() == ["benchmarks_taskversion", "benchmarks_contestentry"]
    assert state(contest) == ContestState.FINISHED


def tables_written():
    """Which of the two an advance updates, by whichever comes first."""
    with CaptureQueriesContext(connection) as caught:
        running.advance()
    updates = [query["sql"] for query in caught if query["sql"].startswith("UPDATE")]
    found = [sql.split('"')[1] for sql in updates]
    return [name for name in dict.fromkeys(found) if name in ("benchmarks_taskversion", "benchmarks_contestentry")]


def test_moves_are_made_once_and_in_order(contest, clock, version):
    with pytest.raises(Refused):
        running.cancel(contest, "Nobody came.")  # a draft
    running.announce(contest)
    with pytest.raises(Refused):
        running.announce(contest)
    stale = Contest.objects.get()
    running.cancel(contest, "Nobody came.")
    assert not running._move(stale, ContestState.RUNNING)
    assert (state(contest), contest.state_text) == (ContestState.CANCELLED, "Nobody came.")
    with pytest.raises(Refused):
        running.contest_save(_draft_of(contest, version), by=None, contest=contest)


def _draft_of(contest, version, **options):
    columns = {name: getattr(contest, name) for name in ("slug", "title", "rules_text", "starts", "ends", "best_n")}
    lists = {"tasks": [version.task], "device_kinds": list(contest.device_kinds.all())}
    return ContestDraft(**{**columns, **lists, **options})


def test_other_tasks_need_their_configurations_again(contest, version):
    running.contest_save(_draft_of(contest, version, title="Summer"), by=None, contest=contest)
    backward = version.task.suite.tasks.get(direction="backward")
    with pytest.raises(Refused, match="hidden configurations again"):
        running.contest_save(_draft_of(contest, version, tasks=[backward]), by=None, contest=contest)


def test_sealed_configurations_open_with_the_final_judging(contest, clock, caplog):
    caplog.set_level(logging.DEBUG)
    begun(contest, clock)
    with pytest.raises(sealing.NotOver):
        sealing.opened(contest)
    told = json.dumps(list(Event.objects.values_list("payload", flat=True)), default=str)
    assert HIDDEN_KEY not in told + caplog.text
    assert "4861" not in json.dumps([version.definition for version in contest.tasks.get().task.versions.all()])
    clock(START + timedelta(days=1))
    running.advance()
    contest.refresh_from_db()
    assert sealing.opened(contest) == HIDDEN
    assert hashlib.sha256(sealing.sealed_text(contest).encode()).hexdigest() == contest.sealed_sha256


def test_a_salt_keeps_equal_configurations_apart():
    assert sealing.seal(HIDDEN)[1] != sealing.seal(HIDDEN)[1]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "not JSON"),
        ("[" * 3000, "not JSON"),
        ("9" * 5000, "not JSON"),
        ("[]", "Write an object"),
        ('{"a/b/forward": {"cpu": []}}', "not a task of this contest"),
        (f'{{"{TASK}": {{"tpu": []}}}}', "no configurations for tpu"),
        (f'{{"{TASK}": {{"cpu": [{{"colour": 3}}]}}}}', "sets some of"),
        (f'{{"{TASK}": {{"cpu": [{{"batch_size": 0}}]}}}}', "whole numbers"),
        (f'{{"{TASK}": {{"cpu": [{{"batch_size": true}}]}}}}', "whole numbers"),
        (f'{{"{TASK}": {{"cpu": [{{"batch_size": 1048576}}]}}}}', "too large"),
        (f'{{"{TASK}": {{"cpu": [{{"batch_size": 7}}, {{"batch_size": 7}}]}}}}', "already"),
        (f'{{"{TASK}": {{"cpu": {json.dumps([{"batch_size": n} for n in range(1, 10)])}}}}}', "at most 8"),
    ],
)
def test_configurations_that_cannot_be_judged_are_refused(version, text, why):
    with pytest.raises(sealing.BadConfigurations, match=why):
        sealing.checked(text, [spec_of(version)])


def test_a_final_is_not_cancelled_with_its_retired_task(contest, clock, judged, person, version):
    """A final has a version of its own, which nothing retires."""
    olga = person("olga")
    begun(contest, clock, olga)
    judged(owner=olga)
    clock(START + timedelta(days=1))
    running.advance()
    version.status = TaskVersionStatus.RETIRED
    version.save()
    assert moves.expire_hopeless() == 0
    assert services.is_auditable(ContestEntry.objects.get().final) is False
