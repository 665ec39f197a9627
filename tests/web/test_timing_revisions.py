"""Judgings by an earlier revision of the judge's timing, and replayed ones that contradict each other.

The fixtures' judgings have the latest revision; `earlier` is the one before it.
"""

from dataclasses import replace

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchmarks import services
from benchmarks.accounts import ownership
from benchmarks.boards.selectors import board_records
from benchmarks.harness import Report, conditions_of, timing_revision
from benchmarks.judgings import moves
from benchmarks.models import DeletedScore, Evaluation, RuleSet, Standing
from benchmarks.moderation import decisions, rejudging
from benchmarks.moderation.rejudging import Wanted
from benchmarks.states import ActionKind, Visibility

from . import factories
from .test_bounds import enter, found, key, replayed

SAME = "// same\n"


def earlier(report: Report) -> Report:
    return replace(report, environment={**report.environment, "timing_revision": timing_revision("cuda") - 1})


def on(report: Report, torch: str) -> Report:
    """By a machine with this version of torch."""
    return replace(report, environment={**report.environment, "torch": torch})


def test_an_entry_that_was_judged_again_counts_by_the_latest_revision_alone() -> None:
    enter("olga", earlier(replayed(1.64)), SAME)
    again = enter("olga", replayed(1.58), SAME)
    row = Standing.objects.get()
    assert (row.evaluation, row.judgings, row.score) == (again, 1, pytest.approx(1.58))
    enter("olga", replayed(1.60), SAME)
    row.refresh_from_db()
    assert (row.judgings, row.score) == (2, pytest.approx(1.59, abs=0.001))


def test_a_strangers_judging_does_not_replace_an_entry_of_an_earlier_revision() -> None:
    """Else whoever makes it bounded in a copy would decide what a replayed row counts."""
    entry = enter("olga", earlier(replayed(1.50)), SAME)
    enter("copies", found(1.90, 1.40, 1.95, "bounded"), SAME)
    row = Standing.objects.get(evaluation__submission__owner__username="olga")
    assert (row.evaluation, row.score) == (entry, pytest.approx(1.50))


def test_deleting_a_judging_by_the_latest_revision_gains_nothing() -> None:
    enter("olga", earlier(replayed(1.80)), SAME)
    unlucky = enter("olga", replayed(1.60), SAME)
    assert Standing.objects.get().score == pytest.approx(1.60)
    ownership.submission_delete(unlucky.submission)
    kept = DeletedScore.objects.get()
    assert (kept.timing_revision, kept.score) == (timing_revision("cuda"), pytest.approx(1.60))
    assert Standing.objects.get().score < 1.75


def test_a_private_judging_by_the_latest_revision_counts_with_those_of_before() -> None:
    enter("olga", earlier(replayed(1.80)), SAME)
    options = {"owner": factories.user("olga2"), "text": SAME, "visibility": Visibility.PRIVATE}
    factories.judged_on_gpu(replayed(1.60), **options)
    assert Standing.objects.get().score < 1.75


def test_replayed_judgings_contradict_each_other_under_the_same_conditions_alone(staff: User) -> None:
    enter("olga", replayed(1.50), "// clean\n")
    high = enter("cheat", on(replayed(9.00), "2.11"), SAME)
    enter("cheat", on(replayed(1.20), "2.12"), SAME)
    row = Standing.objects.get(evaluation__submission__owner__username="cheat")
    assert not row.under_review
    enter("cheat", on(replayed(1.20), "2.11"), SAME)
    row.refresh_from_db()
    assert (row.under_review, row.rank) == (True, None)
    assert "9.00× with replayed times, 1.20× with replayed ones" in row.review_reason
    assert high not in board_records(key())
    decisions.decide(high.submission, ActionKind.CONFIRM, by=staff, reason="Both are right.")
    assert not Standing.objects.filter(under_review=True).exists()


@pytest.mark.parametrize("case", ["another revision", "less than a quarter", "unknown conditions"])
def test_no_contradiction(case: str) -> None:
    again = {
        "another revision": lambda: earlier(on(replayed(1.20), "2.11")),
        "less than a quarter": lambda: on(replayed(7.60), "2.11"),
        "unknown conditions": lambda: replayed(1.20),
    }[case]
    enter("olga", on(replayed(9.00), "2.11"), SAME)
    enter("olga", again(), SAME)
    assert not Standing.objects.get().under_review


def test_conditions_are_known_if_all_of_them_are() -> None:
    known = {"gpu": "NVIDIA H200", "driver": "580", "torch": "2.11"}
    assert conditions_of(known) == "NVIDIA H200, 580, 2.11"
    assert [conditions_of({**known, name: None}) for name in known] == [""] * 3
    assert len(conditions_of({**known, "torch": "x" * 999})) == 200


def test_leading_entries_of_an_earlier_revision_are_judged_again_once() -> None:
    entries = [
        enter(name, earlier(replayed(score))) for name, score in (("a", 2.5), ("b", 2.4), ("c", 2.3), ("d", 2.2))
    ]
    factories.worker(device=factories.GPU)
    assert services.leaders_audit() == 3
    assert services.leaders_audit() == 0
    due = Evaluation.objects.exclude(state="done")
    assert {item.submission for item in due} == {item.submission for item in entries[:3]}
    for _ in range(3):
        moves.record_report(factories.claimed_for_judging(factories.GPU), replayed(2.0))
    assert [round(row.score, 1) for row in Standing.objects.order_by("rank")][:2] == [2.2, 2.0]
    assert services.leaders_audit() == 1, "the fourth one leads now"
    moves.record_report(factories.claimed_for_judging(factories.GPU), replayed(2.1))
    assert services.leaders_audit() == 0


def test_staff_judge_entries_of_an_earlier_revision_again() -> None:
    def waiting() -> set[str]:
        return set(
            rejudging.chosen(Wanted(older_timing=True), rules).values_list("submission__owner__username", flat=True)
        )

    enter("olga", earlier(replayed(1.6)))
    enter("latest", replayed(1.5))
    enter("twice", earlier(replayed(1.4)))
    factories.judged(factories.passing(), owner=factories.user("cpu"))
    rules = RuleSet.objects.get()
    entry = Evaluation.objects.get(submission__owner__username="twice", timing_revision=0)
    services.evaluation_create(
        entry.submission, version=entry.task_version, device_kind=entry.device_kind, ruleset=rules, reason="rejudge"
    )
    assert waiting() == {"olga"}
    Evaluation.objects.filter(state="queued").update(state="cancelled", reason_text="no", finished=timezone.now())
    assert waiting() == {"olga", "twice"}


def test_pages_tell_which_entries_an_earlier_revision_has_timed(visitor: Client) -> None:
    old = enter("olga", earlier(replayed(1.6)))
    new = enter("latest", replayed(1.5))
    board = visitor.get(reverse("leaderboard", args=[*factories.TASK, factories.gpu_kind().slug])).content.decode()
    assert board.count('class="tag">earlier timing<') == 1
    shown = [visitor.get(item.get_absolute_url()).content.decode() for item in (old, new)]
    assert ["earlier timing" in page for page in shown] == [True, False]
