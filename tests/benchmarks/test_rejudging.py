"""Judging many again: which are chosen, a few at a time, nothing twice and nothing left out."""

import random
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from benchmarks.catalogue import folders
from benchmarks.catalogue.folders import spec_of
from benchmarks.harness import Source
from benchmarks.judgings import moves
from benchmarks.models import (
    DeviceKind,
    Evaluation,
    ModerationAction,
    RejudgeBatch,
    RuleSet,
    Standing,
    TaskVersion,
)
from benchmarks.moderation import changes, decisions, rejudging, review
from benchmarks.moderation.rejudging import UNFINISHED_MAX, Wanted
from benchmarks.services import Refused
from benchmarks.states import ActionKind, BatchState, EvaluationReason, Priority, State
from tests.fakes import report_for
from tests.rows import synced


@pytest.fixture
def staff(person):
    return person("sam", is_staff=True)


@pytest.fixture
def rules(version):
    return RuleSet.objects.get()


@pytest.fixture
def start(staff, rules):
    def run(wanted=None, **options):
        wanted = wanted or Wanted()
        fields = {"by": staff, "reason": "The clock was wrong.", "expected": rejudging.preview(wanted, rules).count}
        return rejudging.batch_create(wanted, rules, **{**fields, **options})

    return run


@pytest.fixture
def judge_next(claim):
    def run(**words):
        holding = claim()
        source = Source(holding.evaluation.submission.blob.text, "cpp")
        moves.record_report(holding, report_for(source, spec_of(holding.evaluation.task_version), **words))
        return holding.evaluation

    return run


@pytest.fixture
def entries(judged, person):
    """Of five people, each slower than the one before."""
    return [judged(text=f"// {n}", owner=person(f"p{n}"), speedup=5.0 - n / 2) for n in range(5)]


def again():
    return Evaluation.objects.filter(reason=EvaluationReason.REJUDGE)


def drain(judge_next, **words):
    while rejudging.advance() or again().filter(state=State.QUEUED).exists():
        judge_next(**words)
    rejudging.advance()


def count(rules, **wanted):
    return rejudging.preview(Wanted(**wanted), rules).count


def test_a_preview_counts_and_estimates(entries, rules):
    found = rejudging.preview(Wanted(), rules)
    assert (found.count, len(found.first)) == (5, 5)
    assert [(load.device, load.entries, load.judging_s) for load in found.loads] == [("CPU with AVX2", 5, 30.0)]


def test_what_is_chosen(entries, judged, rules):
    failed = judged(text="// wrong", verdict="INCORRECT_VALUE")
    Evaluation.objects.filter(pk=entries[0].pk).update(finished=timezone.now() - timedelta(days=3))
    yesterday = timezone.now().date() - timedelta(days=1)
    assert count(rules, on_boards=False) == 6
    assert count(rules, on_boards=False, verdict=failed.verdict) == 1
    assert count(rules, until=yesterday) == 1
    assert count(rules, since=yesterday) == 4
    assert count(rules, device="nvidia-h200") == 0
    assert count(rules, method="human", judged_under=rules.name) == 5
    assert count(rules, task="robust-kbench/mnist_linear_relu/forward") == 5
    assert count(rules, task="robust-kbench/mnist_linear_relu/backward") == 0


def test_what_staff_took_down_is_left_out(entries, staff, rules):
    decisions.decide(entries[0].submission, ActionKind.INVALIDATE, by=staff, reason="Copied.")
    assert count(rules, on_boards=False) == 4


def test_a_submission_is_judged_once_however_often_it_was(judged, rules):
    first = judged()
    judged(submission=first.submission, reason="rejudge")
    assert count(rules, on_boards=False) == 1


def test_a_batch_of_other_entries_than_were_seen_is_refused(entries, start):
    with pytest.raises(Refused, match="There are 5 entries now, not 4"):
        start(expected=4)
    assert not RejudgeBatch.objects.exists()


def test_an_empty_batch_is_refused(version, start):
    with pytest.raises(Refused, match="1 to"):
        start()


def test_a_few_at_a_time_after_everybody_else(entries, start, submit):
    start()
    assert rejudging.advance() == UNFINISHED_MAX
    assert rejudging.advance() == 0
    assert {row.priority for row in again()} == {Priority.REJUDGE}
    mine = submit(text="// somebody waits")
    order = list(Evaluation.objects.queued().in_queue_order())
    assert order[0] == mine


def test_a_batch_ends_with_its_changes(entries, start, judge_next):
    batch = start()
    drain(judge_next, speedup=3.0)
    batch.refresh_from_db()
    assert (batch.state, batch.finished is not None) == (BatchState.DONE, True)
    rows = list(changes.changes(batch))
    assert [row.before.score for row in rows] == [5.0, 4.5, 4.0, 3.5, 3.0]
    assert {row.after.score for row in rows} == {3.0}
    assert [row.rank_before for row in rows] == [1, 2, 3, 4, 5]
    assert changes.progress(batch).done == 5


def test_a_changed_verdict_stands_above_changed_scores(entries, start, judge_next):
    batch = start()
    rejudging.advance()
    for words in [{"speedup": 9.0}, {"speedup": 3.0}, {"verdict": "INCORRECT_VALUE"}, {"speedup": 1.0}]:
        judge_next(**words)
    drain(judge_next, speedup=3.0)
    rows = list(changes.changes(batch))
    assert (rows[0].after.verdict, rows[0].before.verdict, rows[0].rank_after) == ("INCORRECT_VALUE", "PASS", None)
    assert changes.progress(batch).verdicts_changed == 1


def test_the_standings_pool_the_new_judging(judged, person, start, judge_next):
    judged(owner=person("ann"), speedup=2.0)
    start()
    drain(judge_next, speedup=2.02)
    assert Standing.objects.get().judgings == 2


def test_a_paused_batch_queues_nothing_until_it_goes_on(entries, start, staff, judge_next):
    batch = start()
    rejudging.advance()
    rejudging.batch_pause(batch, by=staff)
    judge_next()
    assert rejudging.advance() == 0
    with pytest.raises(Refused):
        rejudging.batch_pause(batch, by=staff)
    rejudging.batch_resume(batch, by=staff)
    assert rejudging.advance() == 1
    texts = ModerationAction.objects.order_by("pk").values_list("public_reason", flat=True)
    assert list(texts) == ["Started: The clock was wrong.", "Paused.", "Resumed."]


def test_a_cancelled_batch_lets_go_of_what_waits(entries, start, staff, judge_next):
    batch = start()
    rejudging.advance()
    judge_next()
    rejudging.batch_cancel(batch, by=staff)
    assert Counter(again().values_list("state", flat=True)) == {State.DONE: 1, State.CANCELLED: 3}
    assert rejudging.advance() == 0
    for turn in (rejudging.batch_cancel, rejudging.batch_resume):
        with pytest.raises(Refused):
            turn(batch, by=staff)


def test_a_device_that_stands_still_holds_up_no_other(entries, start):
    last = start().items.last()
    gpu = DeviceKind.objects.create(slug="nvidia-x", title="X", device_class="cuda")
    Evaluation.objects.filter(pk=last.before_id).update(device_kind=gpu)
    rejudging.advance()
    assert Counter(again().values_list("device_kind__slug", flat=True)) == {"cpu-avx2": UNFINISHED_MAX, "nvidia-x": 1}


def test_private_entries_are_judged_and_counted_but_not_told(judged, person, start, judge_next):
    judged(text="// mine", owner=person("ann"), visibility="private")
    batch = start(Wanted(on_boards=False))
    drain(judge_next)
    assert len(changes.changes(batch)) == 0
    assert changes.unlisted_count(batch) == 1


# --- a changed task --------------------------------------------------------------------------------------------------


@pytest.fixture
def renewed(version, small_suites, monkeypatch):
    """Makes a version 2 of the task, which the judge accepts."""

    def renew():
        folder = small_suites / "robust_kbench" / "mnist_linear_relu"
        original = folder.resolve()
        folder.unlink()
        folder.mkdir()
        for path in original.iterdir():
            (folder / path.name).symlink_to(path)
        text = (original / "task.toml").read_text()
        (folder / "task.toml").unlink()
        (folder / "task.toml").write_text(text.replace('title = "', 'title = "New: ', 1))
        reference = (original / "reference.py").read_text()
        (folder / "reference.py").unlink()
        (folder / "reference.py").write_text(f"{reference}\n# another\n")
        monkeypatch.setattr(folders, "default_suites", lambda: small_suites)
        synced(small_suites)
        return TaskVersion.objects.get(task=version.task, status="active")

    return renew


class Board:
    def __init__(self, version, evaluation):
        self.version, self.device, self.ruleset = version, evaluation.device_kind, evaluation.ruleset


def test_entries_of_an_older_version_wait_below_the_new_board(entries, renewed, start, judge_next, rules):
    new = renewed()
    board = Board(new, entries[0])
    assert new.number == 2
    assert [row.score for row in review.awaiting_on(board).rows] == [5.0, 4.5, 4.0, 3.5, 3.0]
    assert review.awaiting_on(Board(entries[0].task_version, entries[0])).rows == []
    assert not Standing.objects.filter(task_version=new).exists()
    start(Wanted(older_versions=True))
    drain(judge_next, speedup=2.0)
    assert review.awaiting_on(board).rows == []
    assert Standing.objects.filter(task_version=new).count() == 5
    assert Standing.objects.filter(task_version=entries[0].task_version).count() == 5
    assert count(rules, older_versions=True) == 0


def test_history_is_kept_across_versions(judged, person, renewed, start, judge_next):
    old = judged(owner=person("ann"))
    new = renewed()
    start(Wanted(older_versions=True))
    drain(judge_next)
    submission = old.submission
    assert [row.task_version for row in submission.evaluations.order_by("pk")] == [old.task_version, new]
    assert submission.evaluations.latest("pk").supersedes == old


# --- another rule set ------------------------------------------------------------------------------------------------


def test_entries_of_older_rules_wait_and_are_judged_once(entries, start, settings, rules, staff):
    settings.KBENCH_RULESET = "rk-9"
    new = RuleSet.objects.create(name="rk-9", title="Nine", text=rules.text, sha256=rules.sha256)
    board = Board(entries[0].task_version, entries[0])
    board.ruleset = new
    assert review.awaiting_on(board).count == 5
    batch = rejudging.batch_create(Wanted(), new, by=staff, reason="New rules.", expected=5)
    rejudging.advance()
    assert {row.ruleset for row in again()} == {new}
    assert batch.items.count() == 5
    assert rejudging.preview(Wanted(), new).count == 5 - UNFINISHED_MAX


# --- whatever dies ---------------------------------------------------------------------------------------------------


def test_an_advance_that_fails_half_way_has_done_nothing(entries, start, monkeypatch):
    start()
    real, calls = rejudging.evaluation_create, []

    def breaks(*args, **kwargs):
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("the power went")
        return real(*args, **kwargs)

    monkeypatch.setattr(rejudging, "evaluation_create", breaks)
    with pytest.raises(RuntimeError):
        rejudging.advance()
    assert again().count() == 0
    assert rejudging.advance() == UNFINISHED_MAX


HOUSEKEEPER = """
import os, sys, time
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
import django
django.setup()
from django.db import connections
connections.databases["default"]["NAME"] = sys.argv[1]
from benchmarks.moderation import rejudging
from benchmarks.models import Evaluation
from django.utils import timezone
create = rejudging.evaluation_create
def slow(*args, **kwargs):
    evaluation = create(*args, **kwargs)
    time.sleep(0.02)
    return evaluation
rejudging.evaluation_create = slow
print("ready", flush=True)
while True:
    rejudging.advance()
    open_rows = Evaluation.objects.filter(reason="rejudge", state="queued")
    open_rows.update(state="cancelled", reason_text="a stand-in for a judging", finished=timezone.now())
"""


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor != "sqlite", reason="the second process is given the file of the database")
def test_a_killed_housekeeper_leaves_nothing_twice_and_nothing_out(judged, person, start):
    """kill -9 at random moments; each time the next process goes on from what is in the tables."""
    for n in range(16):
        judged(text=f"// {n}", owner=person(f"p{n}"))
    batch, pick = start(), random.Random(7)
    for kill in range(40):
        argv = [sys.executable, "-c", textwrap.dedent(HOUSEKEEPER), str(connection.settings_dict["NAME"])]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "ready\n"
            time.sleep(pick.uniform(0.1, 0.3 + kill / 20))  # most often within a transaction
            process.send_signal(signal.SIGKILL)
        batch.refresh_from_db()
        if batch.state == BatchState.DONE:
            break
    supersedes = Counter(again().values_list("supersedes", flat=True))
    items = dict(batch.items.values_list("before", "after"))
    assert (batch.state, kill > 0) == (BatchState.DONE, True)
    assert set(supersedes.values()) == {1}
    assert set(supersedes) == set(items)
    assert set(items.values()) == set(again().values_list("pk", flat=True))
