"""Judgings by an earlier revision of the judge's timing, and replayed ones that contradict each other.

The fixtures' judgings have the latest revision; `earlier` is the one before it.
"""

import time
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchmarks import services
from benchmarks.accounts import ownership
from benchmarks.boards.selectors import board_records
from benchmarks.boards.standings import standings_update
from benchmarks.harness import Report, conditions_of, timing_revision
from benchmarks.judgings import moves
from benchmarks.judgings.recording import boards_complete
from benchmarks.models import CodeBlob, DeletedScore, Evaluation, RuleSet, Standing, Submission
from benchmarks.moderation import decisions, rejudging
from benchmarks.moderation.rejudging import Wanted
from benchmarks.states import ActionKind, Priority, Visibility

from . import factories
from .test_bounds import enter, found, key, replayed

SAME = "// same\n"


def earlier(report: Report) -> Report:
    return replace(report, environment={**report.environment, "timing_revision": timing_revision("cuda") - 1})


def on(report: Report, torch: str) -> Report:
    """By a machine of which all is known, with this version of torch."""
    known = {"torch": torch, "nvcc": "13.0", "cpu": "Xeon"}
    return replace(report, environment={**report.environment, **known})


def test_an_entry_that_was_judged_again_counts_by_the_latest_revision_alone() -> None:
    enter("olga", earlier(replayed(1.64)), SAME)
    again = enter("olga", replayed(1.58), SAME)
    row = Standing.objects.get()
    assert (row.evaluation, row.judgings, row.score) == (again, 1, pytest.approx(1.58))
    enter("olga", replayed(1.60), SAME)
    row.refresh_from_db()
    assert (row.judgings, row.score) == (2, pytest.approx(1.59, abs=0.001))


def by(name: str) -> Standing:
    return Standing.objects.get(evaluation__submission__owner__username=name)


def hidden(name: str, report: Report) -> Evaluation:
    owner = User.objects.filter(username=name).first() or factories.user(name)
    return factories.judged_on_gpu(report, owner=owner, text=SAME, visibility=Visibility.PRIVATE)


@pytest.mark.parametrize("avoids", [(1.90, 1.40, 1.95, "bounded"), (1.98, 1.90, 2.00, "audited")])
@pytest.mark.parametrize("who", ["olga", "copies"])
def test_a_code_that_was_replayed_gains_nothing_by_avoiding_that_later(who: str, avoids: Any) -> None:
    entry = enter("olga", earlier(replayed(1.50)), SAME)
    enter(who, found(*avoids), SAME)
    row = by("olga")
    assert (row.evaluation, row.score, row.is_timed_earlier) == (entry, pytest.approx(1.50), True)
    assert board_records(key())[0] == entry
    assert max(record.score or 0.0 for record in board_records(key())) == (1.98 if avoids[1] == 1.90 else 1.50)


@pytest.mark.parametrize("who", ["olga", "copies"])
@pytest.mark.parametrize("how", ["private", "made private", "deleted"])
def test_hiding_a_judging_by_the_latest_revision_brings_no_earlier_figure_back(how: str, who: str) -> None:
    for _ in range(5):
        enter("olga", earlier(replayed(1.80)), SAME)
    if how == "private":
        hidden(who, replayed(1.60))
    else:
        unlucky = enter(who, replayed(1.60), SAME)
        if how == "deleted":
            ownership.submission_delete(unlucky.submission)
        else:
            ownership.visibility_change(unlucky.submission, Visibility.PRIVATE)
    row = by("olga")
    assert (row.score, row.judgings) == (pytest.approx(1.60), 1)
    assert row.is_timed_earlier, "other figures than the score are of the earlier judging"
    factories.worker(device=factories.GPU)
    assert services.leaders_rejudge() == 1
    assert bool(board_records(key())) == (who == "copies"), "only what is known of the owner's own takes it away"


def test_a_code_has_one_score_whoever_was_judged_again() -> None:
    for name, times in (("olga", 1), ("bob", 8)):
        for _ in range(times):
            enter(name, earlier(replayed(1.70)), SAME)
    enter("honest", replayed(1.60))
    factories.worker(device=factories.GPU)
    assert services.leaders_rejudge() == 1
    moves.record_report(factories.claimed_for_judging(factories.GPU), replayed(1.58))
    assert [(round(row.score, 2), row.judgings) for row in (by("olga"), by("bob"))] == [(1.58, 1)] * 2
    assert services.leaders_rejudge() == 1, "the other one's own submission"


def test_the_order_of_revisions_does_not_matter() -> None:
    enter("olga", replayed(1.60), SAME)
    late = enter("olga", earlier(replayed(1.80)), SAME)
    row = by("olga")
    assert (row.score, row.judgings, row.evaluation == late) == (pytest.approx(1.60), 1, False)


def test_an_audit_by_an_earlier_revision_stands_until_there_is_a_new_one() -> None:
    audited = enter("olga", earlier(found(1.60, 1.55, 1.62, "audited")), SAME)
    shown = hidden("olga", found(1.95, 1.93, 1.97, "bounded"))
    ownership.visibility_change(shown.submission, Visibility.PUBLIC)
    row = by("olga")
    assert (row.evaluation, row.is_timed_earlier) == (audited, True)
    factories.worker(device=factories.GPU)
    assert services.leaders_rejudge() == 1
    moves.record_report(factories.claimed_for_judging(factories.GPU), found(1.58, 1.55, 1.60, "audited"))
    row = by("olga")
    assert (row.is_timed_earlier, row.evaluation.reason) == (False, "rejudge")
    assert (row.score, row.score_lo) == (pytest.approx(1.755, abs=0.001), pytest.approx(1.55, abs=0.001))


def test_boards_are_written_anew_at_the_upgrade_if_judgings_may_contradict_each_other() -> None:
    enter("olga", replayed(9.0), SAME)
    enter("olga", replayed(8.9), SAME)
    Evaluation.objects.filter(score__lt=9.0).update(score=1.0, score_lo=0.9, score_hi=1.1)
    import_module("benchmarks.migrations.0043_timing_revisions").mark(apps, None)
    boards_complete()
    assert by("olga").under_review


def test_earlier_scores_of_what_was_judged_again_hold_no_record() -> None:
    enter("olga", earlier(replayed(1.64)), SAME)
    enter("olga", replayed(1.58), SAME)
    enter("bob", replayed(1.61))
    enter("old", earlier(replayed(1.70)))
    assert [round(record.score or 0.0, 2) for record in board_records(key())] == [1.58, 1.61, 1.70]


def test_replayed_judgings_contradict_each_other_under_the_same_conditions_alone(staff: User) -> None:
    enter("olga", replayed(1.50), "// clean\n")
    high = enter("cheat", on(replayed(1.90), "2.11"), SAME)
    enter("cheat", on(replayed(1.20), "2.12"), SAME)
    enter("stranger", on(replayed(1.20), "2.11"), SAME)
    row = Standing.objects.get(evaluation__submission__owner__username="cheat")
    assert not row.under_review
    enter("cheat", on(replayed(1.20), "2.11"), SAME)
    row.refresh_from_db()
    assert (row.under_review, row.rank) == (True, None)
    assert "1.90× with replayed times, 1.20× with replayed ones" in row.review_reason
    assert high not in board_records(key())
    decisions.decide(high.submission, ActionKind.CONFIRM, by=staff, reason="Both are right.")
    assert not Standing.objects.filter(under_review=True).exists()


@pytest.mark.parametrize(
    ("case", "far", "near"),
    [("alike", 7.0, 7.6), ("another revision", 4.0, 5.0), ("another torch", 4.0, 5.0), ("not known", 4.0, 5.0)],
)
def test_replayed_judgings_of_an_owner_contradict_each_other(case: str, far: float, near: float) -> None:
    """By a quarter under the same conditions, by twice under others."""
    enter("clean", replayed(1.0))
    for score, contradicts in ((near, False), (far, True)):
        first, again = replayed(9.00), replayed(score)
        if case != "not known":
            first, again = on(first, "2.11"), on(again, "2.12" if case == "another torch" else "2.11")
        name = f"owner{score}".replace(".", "")
        enter(name, first)
        enter(name, earlier(again) if case == "another revision" else again)
        assert by(name).under_review == contradicts


@pytest.mark.parametrize("by_site", [True, False])
def test_what_the_site_has_asked_for_contradicts_though_somebody_else_deletes_it(*, by_site: bool) -> None:
    enter("cheat", on(replayed(9.00), "2.11"), SAME)
    copy = enter("copies", on(replayed(8.90), "2.11"), SAME)
    slow = {"score": 1.20, "score_lo": 1.18, "score_hi": 1.22}
    priority = Priority.REJUDGE if by_site else Priority.AGENT  # as of a run that confirms its best
    Evaluation.objects.filter(pk=copy.pk).update(reason="rejudge", priority=priority, **slow)
    ownership.submission_delete(Evaluation.objects.get(pk=copy.pk).submission)
    assert DeletedScore.objects.get().for_site == by_site
    assert by("cheat").under_review == by_site


def test_conditions_are_known_if_all_of_them_are() -> None:
    known = {"gpu": "NVIDIA H200", "driver": "580", "torch": "2.11", "nvcc": "13.0", "cpu": "Xeon"}
    assert conditions_of(known) == "NVIDIA H200, 580, 2.11, 13.0, Xeon"
    assert [conditions_of({**known, name: None}) for name in known] == [""] * 5
    of_triton = {**known, "nvcc": None, "compiler": "g++ 13"}
    assert conditions_of(of_triton) == "NVIDIA H200, 580, 2.11, g++ 13, Xeon"
    assert len(conditions_of({**known, "torch": "x" * 999})) == 200


def test_what_was_deleted_contradicts_as_well() -> None:
    slow = enter("cheat", on(replayed(1.20), "2.11"), SAME)
    ownership.submission_delete(slow.submission)
    assert DeletedScore.objects.get().conditions
    enter("cheat", on(replayed(9.00), "2.11"), SAME)
    assert by("cheat").under_review


def test_leading_entries_of_an_earlier_revision_are_judged_again_a_few_at_a_time() -> None:
    scores = (("a", 2.5), ("b", 2.4), ("c", 2.3), ("d", 2.2))
    entries = [enter(name, earlier(replayed(score))) for name, score in scores]
    factories.worker(device=factories.GPU)
    assert (services.leaders_audit(), services.leaders_rejudge(), services.leaders_rejudge()) == (0, 3, 0)
    due = Evaluation.objects.exclude(state="done")
    assert {item.submission for item in due} == {item.submission for item in entries[:3]}
    assert {(item.reason, item.priority) for item in due} == {("rejudge", Priority.REJUDGE)}
    for _ in range(3):
        moves.record_report(factories.claimed_for_judging(factories.GPU), replayed(2.0))
    assert [round(row.score, 1) for row in Standing.objects.order_by("rank")][:2] == [2.2, 2.0]
    assert services.leaders_rejudge() == 1, "the fourth one leads now"
    moves.record_report(factories.claimed_for_judging(factories.GPU), earlier(replayed(2.2)))
    assert services.leaders_rejudge() == 0, "by a worker that has not been upgraded"
    Evaluation.objects.update(queued=timezone.now() - timedelta(days=2))
    assert services.leaders_rejudge() == 0
    Evaluation.objects.update(queued=timezone.now() - timedelta(days=8))
    assert services.leaders_rejudge() == 1


def test_no_more_leaders_are_judged_again_than_a_few_per_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "LEADERS_AT_ONCE", 2)
    for name in ("a", "b", "c", "d", "e"):
        enter(name, earlier(replayed(2.0)))
    factories.worker(device=factories.GPU)
    assert [services.leaders_rejudge() for _ in range(2)] == [2, 0]
    moves.record_report(factories.claimed_for_judging(factories.GPU), replayed(2.0))
    assert [services.leaders_rejudge() for _ in range(2)] == [1, 0]


def test_staff_judge_entries_of_an_earlier_revision_again() -> None:
    def waiting() -> list[str]:
        return sorted(
            rejudging.chosen(Wanted(on_boards=False, older_timing=True), rules).values_list(
                "submission__owner__username", flat=True
            )
        )

    enter("olga", earlier(replayed(1.6)))
    enter("latest", replayed(1.5))
    enter("twice", earlier(replayed(1.4)))
    enter("twice", earlier(replayed(1.3)), "// another kernel\n")
    avoids = enter("avoids", earlier(replayed(1.2)))
    services.evaluation_create(
        avoids.submission,
        version=avoids.task_version,
        device_kind=avoids.device_kind,
        ruleset=avoids.ruleset,
        reason="rejudge",
    )
    moves.record_report(factories.claimed_for_judging(factories.GPU), found(1.3, 1.2, 1.32, "bounded"))
    bounded = enter("audited", earlier(found(1.2, 1.1, 1.3, "bounded")))
    audited = enter("audited", found(1.2, 1.1, 1.3, "audited"))
    Evaluation.objects.filter(pk=audited.pk).update(submission=bounded.submission)
    factories.judged(factories.passing(), owner=factories.user("cpu"))
    rules = RuleSet.objects.get()
    entry = by("twice").evaluation
    services.evaluation_create(
        entry.submission, version=entry.task_version, device_kind=entry.device_kind, ruleset=rules, reason="rejudge"
    )
    assert waiting() == ["avoids", "olga", "twice"]
    Evaluation.objects.filter(state="queued").update(state="cancelled", reason_text="no", finished=timezone.now())
    assert waiting() == ["avoids", "olga", "twice", "twice"]


def test_pages_tell_which_entries_an_earlier_revision_has_timed(visitor: Client) -> None:
    old = enter("olga", earlier(replayed(1.6)))
    new = enter("latest", replayed(1.5))
    board = visitor.get(reverse("leaderboard", args=[*factories.TASK, factories.gpu_kind().slug])).content.decode()
    assert board.count('class="tag">earlier timing<') == 2, "its row, and its record"
    shown = [visitor.get(item.get_absolute_url()).content.decode() for item in (old, new)]
    assert ["earlier timing" in page for page in shown] == [True, False]


def test_a_contradiction_that_is_known_puts_no_false_score_in_rows_of_others() -> None:
    enter("cheat", on(replayed(9.0), "2.11"), SAME)
    enter("cheat", on(replayed(1.2), "2.11"), SAME)
    assert by("cheat").under_review
    enter("honest", on(replayed(1.2), "2.11"), SAME)
    row = by("honest")
    assert (row.score, row.under_review, row.is_contested) == (pytest.approx(1.2), False, False)


@pytest.mark.parametrize("kept", [True, False])
def test_the_high_score_of_an_account_that_was_deleted_raises_no_row(*, kept: bool) -> None:
    enter("cheat", on(replayed(9.0), "2.11"), SAME)
    ownership.account_delete(User.objects.get(username="cheat"), keep_submissions=kept)
    enter("again", on(replayed(1.2), "2.11"), SAME)
    assert by("again").score == pytest.approx(1.2)


def test_the_site_judges_itself_what_several_people_have_judged_far_apart(visitor: Client) -> None:
    for name, score in (("olga", 9.0), ("bob", 1.2)):
        enter(name, on(replayed(score), "2.11"), SAME)
    high, low = Standing.objects.order_by("rank", "-score")
    assert [(round(row.score, 1), row.is_contested) for row in (high, low)] == [(3.3, True), (1.2, False)]
    page = visitor.get(reverse("leaderboard", args=[*factories.TASK, factories.gpu_kind().slug])).content.decode()
    assert page.count('class="tag">contested<') == 1
    factories.worker(device=factories.GPU)
    assert [services.leaders_rejudge() for _ in range(2)] == [1, 0]
    moves.record_report(factories.claimed_for_judging(factories.GPU), on(replayed(1.21), "2.11"))
    high.refresh_from_db()
    assert (high.under_review, services.leaders_rejudge()) == (True, 0)
    assert [round(record.score or 0.0, 1) for record in board_records(key())] == [1.2]


def test_what_staff_have_confirmed_stays_confirmed_by_scores_as_they_have_seen(staff: User) -> None:
    enter("olga", on(replayed(4.0), "2.11"), SAME)
    low = enter("olga", on(replayed(1.9), "2.12"), SAME)
    decisions.decide(low.submission, ActionKind.CONFIRM, by=staff, reason="torch has become faster")
    for score in (1.91, 4.1, 2.5, 1.8):
        enter("olga", on(replayed(score), "2.12"), SAME)
        assert not by("olga").under_review
    enter("olga", on(replayed(1.2), "2.12"), SAME)
    assert by("olga").under_review


def test_nobody_takes_a_record_by_a_copy() -> None:
    entry = enter("olga", earlier(replayed(1.80)), SAME)
    enter("rival", replayed(1.76), SAME)
    assert board_records(key()) == [entry]
    gone = hidden("rival", replayed(1.75))
    ownership.submission_delete(gone.submission)
    assert board_records(key()) == [entry]


def test_housekeeping_judges_the_one_again_that_was_verified_first() -> None:
    olga = enter("olga", earlier(replayed(1.80)), SAME)
    enter("rival", earlier(replayed(1.79)), SAME)
    for visibility in (Visibility.UNLISTED, Visibility.PUBLIC):
        ownership.visibility_change(olga.submission, visibility)
    factories.worker(device=factories.GPU)
    for score in (1.76, 1.75):
        assert services.leaders_rejudge() == 1
        moves.record_report(factories.claimed_for_judging(factories.GPU), replayed(score))
    assert [record.submission for record in board_records(key())] == [olga.submission]


def test_an_owner_holds_no_earlier_record_by_a_variant_of_the_text() -> None:
    enter("olga", earlier(replayed(1.80)), "int a;\n")
    enter("olga", replayed(1.60), "int a; // again\n")
    assert [record.score for record in board_records(key())] == [pytest.approx(1.60)]


def test_a_row_with_figures_of_an_earlier_revision_is_marked_and_judged_again() -> None:
    enter("olga", earlier(replayed(1.80)), SAME)
    hidden("rival", replayed(1.76))
    factories.worker(device=factories.GPU)
    assert (by("olga").is_timed_earlier, services.leaders_rejudge()) == (True, 1)


def test_nobody_postpones_the_repeated_judging_of_a_leader_by_what_waits() -> None:
    enter("olga", earlier(replayed(2.50)), SAME)
    factories.worker(device=factories.GPU)
    waiting = services.submission_create(
        version=factories.version(),
        text=SAME,
        language="cuda",
        owner=User.objects.get(username="olga"),
        device_kind=factories.gpu_kind(),
        visibility=Visibility.PRIVATE,
    )
    assert services.is_withdrawable(waiting)
    assert services.leaders_rejudge() == 1


@pytest.mark.parametrize("queue", ["leaders_rejudge", "leaders_audit"])
def test_two_housekeepers_queue_a_leader_once(queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    enter("olga", earlier(replayed(2.5)) if queue == "leaders_rejudge" else found(2.5, 2.4, 2.6, "bounded"), SAME)
    factories.worker(device=factories.GPU)
    real, began = services._leader_queued, list[bool]()

    def slow(*details: Any) -> bool:
        if not began:
            began.append(True)
            getattr(services, queue)()
        return real(*details)

    monkeypatch.setattr(services, "_leader_queued", slow)
    assert getattr(services, queue)() == 0
    assert Evaluation.objects.exclude(reason="initial").count() == 1


def test_one_low_copy_outweighs_nobody() -> None:
    enter("olga", on(replayed(2.0), "2.11"), SAME)
    for number in range(10):
        enter(f"copies{number}", on(replayed(2.0), "2.11"), SAME)
    hidden("rival", on(replayed(1.55), "2.11"))
    row = by("olga")
    assert (row.judgings, row.score) == (12, pytest.approx(1.96, abs=0.02))


def test_the_judging_of_the_site_ends_what_others_contest() -> None:
    enter("olga", on(replayed(2.0), "2.11"), SAME)
    hidden("rival", on(replayed(1.2), "2.11"))
    factories.worker(device=factories.GPU)
    assert by("olga").is_contested
    queued = 0
    for _ in range(4):
        if services.leaders_rejudge():
            queued += 1
            moves.record_report(factories.claimed_for_judging(factories.GPU), on(replayed(2.0), "2.11"))
        enter("olga", on(replayed(2.0), "2.11"), SAME)
        Evaluation.objects.update(queued=timezone.now() - timedelta(days=8))
    row = by("olga")
    assert (queued, row.is_contested, row.score) == (1, False, pytest.approx(2.0))
    hidden("rival", on(replayed(1.2), "2.11"))
    assert by("olga").is_contested, "what is judged later asks again"


def test_the_judging_of_the_site_does_not_outweigh_several_others() -> None:
    enter("cheat", on(replayed(5.0), "2.11"), SAME)
    for number in range(10):
        hidden(f"other{number}", on(replayed(1.0), "2.11"))
    factories.worker(device=factories.GPU)
    assert services.leaders_rejudge() == 1
    moves.record_report(factories.claimed_for_judging(factories.GPU), on(replayed(5.0), "2.11"))
    row = by("cheat")
    assert (row.is_contested, row.judgings) == (False, 12)
    assert row.score < 1.6


@pytest.mark.parametrize("of_site", ["in between", "elsewhere", "not replayed"])
def test_the_site_is_asked_once_whatever_it_says(of_site: str) -> None:
    says = replayed(2.0) if of_site != "not replayed" else found(2.0, 1.9, 2.1, "audited")
    report = on(says, "2.12" if of_site == "elsewhere" else "2.11")
    enter("olga", on(replayed(2.3), "2.11"), SAME)
    hidden("rival", on(replayed(1.65), "2.11"))
    factories.worker(device=factories.GPU)
    queued = 0
    for day in range(1, 5):
        if services.leaders_rejudge():
            queued += 1
            moves.record_report(factories.claimed_for_judging(factories.GPU), report)
        Evaluation.objects.update(queued=timezone.now() - timedelta(days=day))
    assert queued == 1


def test_a_contested_entry_is_judged_by_the_site_wherever_it_stands() -> None:
    for number, score in enumerate((1.9, 1.8, 1.7, 1.6)):
        enter(f"other{number}", replayed(score))
    enter("olga", on(replayed(2.0), "2.11"), SAME)
    hidden("rival", on(replayed(1.2), "2.11"))
    assert (by("olga").rank or 0) > 3 or by("olga").score < 1.6
    factories.worker(device=factories.GPU)
    assert services.leaders_rejudge() == 1
    moves.record_report(factories.claimed_for_judging(factories.GPU), on(replayed(2.0), "2.11"))
    assert (by("olga").rank, by("olga").score) == (1, pytest.approx(2.0))


@pytest.mark.parametrize("name", ["cheat", "cheat{}"])
def test_nobody_hides_records_behind_many_that_are_in_question(name: str) -> None:
    enter("honest", replayed(1.5))
    hidden("second", on(replayed(1.2), "2.11"))
    for number in range(12):
        enter(name.format(number), on(replayed(9.0 - number / 10), "2.11"), SAME)
    enter("later", replayed(1.7))
    assert [record.score for record in board_records(key())] == [1.5, 1.7]


def test_a_text_is_judged_once_however_many_show_it() -> None:
    for number in range(6):
        enter(f"copies{number}", on(replayed(2.0), "2.11"), SAME)
    hidden("rival", on(replayed(1.2), "2.11"))
    factories.worker(device=factories.GPU)
    assert [services.leaders_rejudge() for _ in range(4)] == [1, 0, 0, 0]
    for number in range(3):
        enter(f"early{number}", earlier(replayed(2.0)), "// another\n")
    assert [services.leaders_rejudge() for _ in range(3)] == [1, 0, 0]


def test_no_false_record_is_kept_by_a_copy_that_hides_its_row() -> None:
    for name, score in (("a", 1.5), ("b", 1.6), ("c", 1.7)):
        enter(name, replayed(score))
    enter("cheat", earlier(replayed(9.0)), SAME)
    enter("copied", replayed(9.9), "// later\n")
    hidden("second", replayed(1.2))
    factories.judged_on_gpu(replayed(1.2), owner=factories.user("third"), text="// later\n", visibility="private")
    assert [record.score for record in board_records(key())] == [1.5, 1.6, 1.7]


def test_records_of_a_large_board_are_found_with_few_comparisons() -> None:
    """Whose the later judgings are is found by hash. Row by row, 1,000 earlier and as many later ones took 13 s."""
    first = enter("first", replayed(1.5))
    users = User.objects.bulk_create([User(username=f"user{number}") for number in range(1000)])
    for revision in (0, timing_revision("cuda")):
        names = [f"{revision:032x}{number:032x}" for number in range(len(users))]
        CodeBlob.objects.bulk_create([copied(first.submission.blob, sha256=name) for name in names])
        submissions = Submission.objects.bulk_create(
            copied(first.submission, owner_id=user.pk, blob_id=name, source_key=name, client_token="")
            for user, name in zip(users, names, strict=True)
        )
        Evaluation.objects.bulk_create(
            copied(first, submission_id=row.pk, object_key=row.source_key, timing_revision=revision)
            for row in submissions
        )
    began = time.process_time()
    board_records(key())
    assert time.process_time() - began < 3


def copied(row: Any, **changed: Any) -> Any:
    fields = [field.attname for field in row._meta.concrete_fields if field.name not in ("id", "code")]
    return type(row)(**{name: getattr(row, name) for name in fields} | changed)


def judged_by_site(report: Report) -> None:
    factories.worker(device=factories.GPU)
    assert services.leaders_rejudge() == 1
    moves.record_report(factories.claimed_for_judging(factories.GPU), report)


def test_the_site_speaks_under_other_conditions_as_well() -> None:
    enter("olga", on(replayed(2.0), "2.11"), SAME)
    hidden("rival", on(replayed(1.2), "2.11"))
    judged_by_site(on(replayed(2.0), "2.12"))
    row = by("olga")
    assert (row.score, row.is_contested) == (pytest.approx(2.0), False)


def test_a_record_does_not_come_back_because_the_site_has_judged_it_low() -> None:
    enter("honest", on(replayed(1.9), "2.11"), "// honest\n")
    enter("cheat", on(replayed(2.3), "2.11"), SAME)
    for name in ("other", "another"):
        hidden(name, on(replayed(1.2), "2.11"))
    judged_by_site(on(replayed(1.2), "2.12"))
    assert [record.score for record in board_records(key())] == [1.9]


@pytest.mark.parametrize("who", ["anonymous", "left"])
def test_people_without_an_account_are_not_several(who: str) -> None:
    enter("olga", on(replayed(2.0), "2.11"), SAME)
    for _ in range(2):
        if who == "left":
            enter("rival", on(replayed(1.2), "2.11"), SAME)
        else:
            factories.judged_on_gpu(on(replayed(1.2), "2.11"), text=SAME)
    if who == "left":
        ownership.account_delete(User.objects.get(username="rival"), keep_submissions=True)
    judged_by_site(on(replayed(2.0), "2.11"))
    assert by("olga").score == pytest.approx(2.0)


def test_an_entry_with_the_score_of_a_copy_is_judged_again_wherever_it_stands() -> None:
    for number, score in enumerate((1.9, 1.8, 1.7, 1.6)):
        enter(f"other{number}", replayed(score))
    enter("olga", earlier(replayed(2.0)), SAME)
    hidden("rival", replayed(1.2))
    assert (by("olga").rank or 0) > 3
    judged_by_site(replayed(1.98))
    assert by("olga").evaluation.reason == "rejudge"


def test_an_audit_that_was_not_done_postpones_no_contest() -> None:
    enter("olga", on(replayed(2.0), "2.11"), SAME)
    enter("second", on(found(1.95, 1.9, 2.0, "bounded"), "2.11"), SAME)
    hidden("rival", on(replayed(1.5), "2.11"))
    factories.worker(device=factories.GPU)
    assert services.leaders_audit() == 1
    moves.record_report(factories.claimed_for_judging(factories.GPU), on(found(1.95, 1.9, 2.0, "bounded"), "2.11"))
    Evaluation.objects.update(queued=timezone.now() - timedelta(days=2))
    assert services.leaders_rejudge() == 1


def test_a_strangers_bounded_judging_is_contested_and_what_the_site_finds_decides() -> None:
    enter("olga", on(replayed(2.0), "2.11"), SAME)
    hidden("rival", on(found(1.2, 1.1, 1.25, "bounded"), "2.11"))
    row = by("olga")
    assert (row.under_review, row.is_contested) == (False, True)
    judged_by_site(on(replayed(2.0), "2.11"))
    row = by("olga")
    assert (row.score, row.is_contested) == (pytest.approx(2.0), False)


def test_a_bounded_judging_of_the_site_puts_an_entry_under_review() -> None:
    enter("olga", on(replayed(2.0), "2.11"), SAME)
    hidden("rival", on(found(1.2, 1.1, 1.25, "bounded"), "2.11"))
    judged_by_site(on(found(1.2, 1.1, 1.25, "bounded"), "2.11"))
    assert by("olga").under_review


def test_no_record_is_held_by_what_a_variant_of_the_owner_contradicts() -> None:
    """The variant has been compiled to the same as the record once, and was slow as something else."""
    honest = enter("cheat", on(replayed(1.5), "2.11"), "// sound\n")
    named(enter("cheat", on(replayed(2.3), "2.11"), SAME), "k")
    for score, object_key in ((2.3, "k"), (1.2, "x")):
        named(enter("cheat", on(replayed(score), "2.11"), "// variant\n"), object_key)
    assert by("cheat").evaluation == honest
    assert [record.score for record in board_records(key())] == [1.5]


def named(evaluation: Evaluation, object_key: str) -> None:
    Evaluation.objects.filter(pk=evaluation.pk).update(object_key=object_key * 64)
    evaluation.refresh_from_db()
    standings_update(evaluation)
