"""Boards of a GPU with bounded entries beside replayed ones: who leads, what stands for a holder, what is a record.

A kernel that could be replayed at 1.70× scores 1.98× when it avoids that; its interval reaches down to 1.45×.
"""

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

from benchmarks import selectors, services
from benchmarks.accounts import ownership
from benchmarks.boards import overview
from benchmarks.boards import selectors as boards
from benchmarks.boards.standings import standings_renew, wants_audit
from benchmarks.harness import Flag, Report, Verdict
from benchmarks.judgings import moves
from benchmarks.judgings.recording import boards_complete
from benchmarks.models import DeletedScore, Evaluation, Standing, Submission, TaskVersion
from benchmarks.moderation import decisions
from benchmarks.states import ActionKind, EvaluationReason, Priority, Visibility

from . import factories

AVOIDS = (1.98, 1.45, 2.00, "bounded")


def found(score: float, lo: float, hi: float, trust: str) -> Report:
    report = factories.passing_on_gpu(score, trust)
    assert report.score is not None
    return replace(report, score=replace(report.score, ci95=(lo, hi)))


def replayed(score: float) -> Report:
    return found(score, score - 0.02, score + 0.02, "replayed")


def enter(name: str, report: Report, text: str = "") -> Evaluation:
    owner = User.objects.filter(username=name).first() or factories.user(name)
    return factories.judged_on_gpu(report, owner=owner, text=text or f"// {name}\n")


def key() -> boards.BoardKey:
    return boards.board_key(factories.version(), factories.gpu_kind().slug)


def board() -> list[tuple[str, int | None, float]]:
    rows = boards.board_rows(key())
    return [(row.evaluation.submission.owner.username, row.rank, round(row.score, 2)) for row in rows]


@pytest.fixture
def three() -> None:
    enter("avoids", found(*AVOIDS))
    enter("fast", replayed(1.70))
    enter("slow", replayed(1.55))


def test_a_bound_has_the_place_of_its_lower_end(three: None, visitor: Client) -> None:
    assert board() == [("fast", 1, 1.70), ("slow", 2, 1.55), ("avoids", 3, 1.98)]
    leader, kind = boards.leader(key()), factories.gpu_kind()
    assert leader is not None
    assert leader.score == pytest.approx(1.70)
    _, summaries = boards.board_summaries(kind)
    assert [line.leader.score for line in summaries if line.leader] == [pytest.approx(1.70)]
    tasks = selectors.task_rows(selectors.TaskFilter(device=kind.slug))
    assert [task.best_score for task in tasks if task.entries] == [pytest.approx(1.70)]
    best = selectors.top_entries(factories.version(), kind.slug)
    assert [round(row.score, 2) for row in best] == [1.70, 1.55, 1.98]
    page = visitor.get(reverse("leaderboard", args=[*factories.TASK, kind.slug])).content.decode()
    assert page.index("1.70×</") < page.index("1.55×</") < page.index("1.98×</")


def test_boards_of_before_get_their_ranks_when_the_site_is_upgraded(three: None) -> None:
    Standing.objects.filter(score__gt=1.9).update(rank=1, score_lo=1.9)
    Standing.objects.exclude(score__gt=1.9).update(rank=2)
    import_module("benchmarks.migrations.0039_boards_of_bounds").mark(apps, None)
    enter("late", replayed(1.2))  # a judging that ends before the boards have been written
    boards_complete()
    assert not TaskVersion.objects.filter(boards_due=True).exists()
    Standing.objects.filter(score__lt=1.3).delete()
    assert board() == [("fast", 1, 1.70), ("slow", 2, 1.55), ("avoids", 3, 1.98)]


def test_boards_of_before_get_the_intervals_of_several_judgings_when_the_site_is_upgraded(three: None) -> None:
    upgrade = import_module("benchmarks.migrations.0042_intervals_of_several").mark
    upgrade(apps, None)
    assert not TaskVersion.objects.filter(boards_due=True).exists(), "each code has one judging"
    enter("fast", replayed(1.72), "// fast\n")
    row = Standing.objects.get(judgings=2)
    right = row.score_hi
    Standing.objects.filter(pk=row.pk).update(score_hi=9.0)
    upgrade(apps, None)
    boards_complete()
    assert Standing.objects.get(judgings=2).score_hi == right


def test_records_are_broken_by_what_counts() -> None:
    enter("first", replayed(1.50))
    enter("avoids", found(*AVOIDS))
    enter("fast", replayed(1.70))
    assert [round(row.score or 0.0, 2) for row in boards.board_records(key())] == [1.50, 1.70]


def test_a_bound_may_hold_the_record_until_more_counts() -> None:
    enter("avoids", found(*AVOIDS))
    enter("slow", replayed(1.40))
    enter("fast", replayed(1.50))
    assert [round(row.score or 0.0, 2) for row in boards.board_records(key())] == [1.98, 1.50]


@pytest.mark.parametrize("bound_first", [True, False])
def test_avoiding_replay_does_not_replace_the_replayed_entry_of_a_holder(*, bound_first: bool) -> None:
    reports = [found(*AVOIDS), replayed(1.70)]
    made = [enter("olga", report, f"// {report.score}\n") for report in (reports if bound_first else reports[::-1])]
    assert board() == [("olga", 1, 1.70)]
    standings_renew(made[0])
    assert board() == [("olga", 1, 1.70)]


def test_a_bound_whose_lower_end_is_higher_replaces_it() -> None:
    enter("olga", replayed(1.40), "// one\n")
    enter("olga", found(*AVOIDS), "// two\n")
    assert board() == [("olga", 1, 1.98)]


def test_the_same_code_judged_again_or_after_it_was_deleted_keeps_its_gap() -> None:
    first = enter("olga", found(*AVOIDS))
    enter("olga", found(*AVOIDS))
    standing = Standing.objects.get()
    assert (standing.judgings, standing.score) == (2, pytest.approx(1.98))
    assert standing.score_lo == pytest.approx(1.45)
    ownership.submission_delete(first.submission)
    assert Standing.objects.get().score_lo == pytest.approx(1.45)


def rows() -> list[tuple[str, int | None, float, str]]:
    """Name, rank, score and how the times of what the row names are known."""
    return [
        (row.evaluation.submission.owner.username, row.rank, round(row.score, 2), row.evaluation.timing_trust)
        for row in Standing.objects.order_by("rank", "verified_at")
    ]


def test_a_replayed_score_is_held_if_the_code_is_bounded_far_below_it() -> None:
    """Whether it is replayed is up to the code: it must not be able to keep a doubtful score by avoiding it."""
    enter("olga", replayed(1.80))
    first = enter("cheat", replayed(2.60), "// same\n")
    again = enter("cheat", found(1.05, 1.00, 1.07, "bounded"), "// same\n")
    row = Standing.objects.get(evaluation__submission__owner__username="cheat")
    assert (row.rank, row.under_review, row.evaluation) == (None, True, first)
    assert "2.60× with replayed times, 1.05× with bounded ones" in row.review_reason
    ownership.submission_delete(again.submission)
    assert Standing.objects.get(evaluation__submission__owner__username="cheat").under_review


def test_staff_settle_such_a_contradiction(staff: User) -> None:
    enter("cheat", replayed(2.60), "// same\n")
    enter("cheat", found(1.05, 1.00, 1.07, "bounded"), "// same\n")
    row = Standing.objects.get()
    decisions.decide(row.evaluation.submission, ActionKind.CONFIRM, by=staff, reason="the machine was busy")
    row = Standing.objects.get()
    assert (row.rank, row.under_review) == (1, False)
    enter("cheat", found(1.05, 1.00, 1.07, "bounded"), "// same\n")
    assert Standing.objects.get().under_review


def test_no_audit_of_a_slow_judging_clears_a_fast_one() -> None:
    enter("olga", replayed(1.80))
    gated = replace(replayed(9.0), gates=(Flag("gate-roofline", "faster than possible"),))
    enter("cheat", gated, "// same\n")
    slow = enter("cheat", found(1.05, 1.00, 1.07, "bounded"), "// same\n")
    services.audit_request(slow, by_staff=True)
    moves.record_report(factories.claimed_for_judging(factories.GPU), found(1.05, 1.0, 1.07, "audited"))
    row = Standing.objects.get(evaluation__submission__owner__username="cheat")
    assert (row.rank, row.under_review, row.evaluation.timing_trust) == (None, True, "replayed")


def test_an_audit_answers_for_no_more_than_it_found() -> None:
    """Both judgings have the same gate; the audit has confirmed 12×, not 40×."""
    gate = (Flag("gate-speedup", "faster than usual"),)
    enter("cheat", replace(found(40.0, 39.5, 40.5, "bounded"), gates=gate), "// same\n")
    slow = enter("cheat", replace(found(12.0, 11.9, 12.1, "bounded"), gates=gate), "// same\n")
    services.audit_request(slow, by_staff=True)
    report = replace(found(12.0, 11.9, 12.1, "audited"), gates=gate)
    moves.record_report(factories.claimed_for_judging(factories.GPU), report)
    assert Standing.objects.get().under_review


def test_an_audit_is_not_compared_with_the_gap_of_what_it_settles() -> None:
    gated = replace(found(12.0, 6.5, 12.1, "bounded"), gates=(Flag("gate-speedup", "faster than usual"),))
    fast = enter("cheat", gated)
    services.audit_request(fast, by_staff=True)
    moves.record_report(factories.claimed_for_judging(factories.GPU), found(6.0, 3.5, 6.1, "audited"))
    assert Standing.objects.get().under_review


def test_a_confirmation_settles_no_contradiction_that_comes_later(staff: User) -> None:
    first = enter("cheat", found(1.05, 1.00, 1.07, "bounded"), "// same\n")
    decisions.decide(first.submission, ActionKind.CONFIRM, by=staff, reason="looked at it")
    second = enter("cheat", replayed(2.60), "// same\n")
    assert Standing.objects.get().under_review
    decisions.decide(first.submission, ActionKind.CONFIRM, by=staff, reason="looked at it again")
    assert not Standing.objects.get().under_review
    again = enter("cheat", found(1.05, 1.00, 1.07, "bounded"), "// same\n")
    ownership.submission_delete(again.submission)
    assert Standing.objects.get().under_review, second


def test_an_audited_score_far_below_a_bounded_one_contradicts_it() -> None:
    for _ in range(4):
        enter("cheat", found(2.6, 2.4, 2.62, "bounded"), "// same\n")
    enter("cheat", found(1.05, 1.00, 1.07, "audited"), "// same\n")
    assert Standing.objects.get().under_review


@pytest.mark.parametrize("slow", [(1.25, 1.23, 1.27, "replayed"), (1.56, 1.50, 1.60, "bounded")])
def test_a_slow_judging_improves_no_rank(slow: tuple[float, float, float, str]) -> None:
    enter("olga", found(2.05, 1.80, 2.07, "audited"))
    enter("cheat", replayed(1.70), "// same\n")
    assert [row[:2] for row in rows()] == [("olga", 1), ("cheat", 2)]
    enter("cheat", found(*slow), "// same\n")
    assert [row[:2] for row in rows()] == [("olga", 1), ("cheat", 2)]


def test_a_contradiction_holds_no_record_and_hides_no_other_entry_of_its_holder() -> None:
    enter("olga", replayed(1.80))
    enter("cheat", replayed(1.60), "// clean\n")
    enter("cheat", replayed(2.60), "// same\n")
    enter("cheat", found(1.05, 1.00, 1.07, "bounded"), "// same\n")
    assert [row[:3] for row in rows()] == [("olga", 1, 1.80), ("cheat", 2, 1.60)]
    assert [round(row.score or 0.0, 2) for row in boards.board_records(key())] == [1.80]


def test_a_row_that_is_written_anew_keeps_what_is_not_in_question() -> None:
    gated = replace(replayed(9.0), gates=(Flag("gate-roofline", "faster than possible"),))
    clean, _ = enter("olga", replayed(1.60), "// clean\n"), enter("olga", gated, "// fast\n")
    assert rows() == [("olga", 1, 1.60, "replayed")]
    standings_renew(clean)
    assert rows() == [("olga", 1, 1.60, "replayed")]


def test_what_was_deleted_before_trusts_were_kept_counts_as_bounded() -> None:
    old = enter("olga", found(1.98, 1.96, 2.00, "bounded"), "// same\n")
    ownership.submission_delete(old.submission)
    DeletedScore.objects.update(timing_trust="")
    enter("olga", replayed(1.70), "// same\n")
    assert rows() == [("olga", 1, 1.70, "replayed")]


def test_an_audit_that_agrees_still_clears_it() -> None:
    gated = replace(found(9.0, 8.9, 9.1, "bounded"), gates=(Flag("gate-roofline", "faster than possible"),))
    fast = enter("olga", gated)
    assert Standing.objects.get().under_review
    services.audit_request(fast, by_staff=True)
    moves.record_report(factories.claimed_for_judging(factories.GPU), found(8.8, 8.7, 8.9, "audited"))
    assert not Standing.objects.get().under_review


def test_a_row_names_a_replayed_judging_where_its_score_rests_on_one() -> None:
    enter("olga", replayed(1.70), "// same\n")
    enter("olga", found(*AVOIDS[:3], "audited"), "// same\n")
    assert rows() == [("olga", 1, 1.70, "replayed")]


def test_avoiding_replay_where_a_code_does_badly_brings_nothing() -> None:
    scores = (1.72, 1.71, 1.84, 1.70)
    for score in scores:
        enter("honest", found(score, score - 0.02, score + 0.02, "replayed"), "// honest\n")
        trust = "replayed" if score > 1.8 else "bounded"
        enter("picky", found(score, score - 0.02, score + 0.02, trust), "// picky\n")
    honest, picky = (row.score for row in Standing.objects.order_by("evaluation__submission__owner__username"))
    assert picky == pytest.approx(honest, rel=0.001)


def test_bounds_of_a_code_that_was_replayed_do_not_count_even_when_deleted() -> None:
    """Else a kernel could be replayed once and avoid it from then on."""
    avoided = [enter("olga", found(*AVOIDS), f"// {number}\n") for number in range(3)]
    enter("olga", replayed(1.70), "// replayed\n")
    assert Standing.objects.get().score == pytest.approx(1.70)
    for evaluation in avoided:
        ownership.submission_delete(evaluation.submission)
    assert Standing.objects.get().score == pytest.approx(1.70)


def test_the_best_of_a_method_is_the_one_of_which_most_counts(three: None) -> None:
    field = overview.read_field(factories.version().task.suite, factories.gpu_kind())
    [marks] = field.best.values()
    [mark] = marks.values()
    assert (mark.score, mark.counts, mark.trust) == (pytest.approx(1.70), pytest.approx(1.70), "replayed")


def test_a_bound_that_could_enter_the_first_places_is_audited_though_its_lower_end_could_not(three: None) -> None:
    for name, score in (("a", 2.5), ("b", 2.4), ("c", 2.3)):
        enter(name, replayed(score))
    assert _is_audited(found(1.98, 1.45, 2.35, "bounded"))
    assert not _is_audited(found(*AVOIDS))


def _is_audited(report: Report) -> bool:
    return wants_audit(enter("late", report, f"// {report.score}\n"), report)


def _audit_queued() -> Evaluation:
    factories.worker(device=factories.GPU)
    assert (services.leaders_audit(), services.leaders_audit()) == (1, 0)
    return Evaluation.objects.exclude(state="done").get()


def test_a_bound_that_was_private_when_it_was_judged_is_audited_once_it_leads() -> None:
    enter("olga", replayed(1.5))
    options = {"owner": factories.user("cheat"), "text": "// lie\n", "visibility": Visibility.PRIVATE}
    private = factories.judged_on_gpu(found(2.2, 2.15, 2.22, "bounded"), **options)
    factories.worker(device=factories.GPU)
    assert services.leaders_audit() == 0
    ownership.visibility_change(private.submission, Visibility.PUBLIC)
    audit = _audit_queued()
    assert audit.submission == private.submission
    assert not services.is_withdrawable(audit)
    slow = found(1.3, 1.28, 1.32, "bounded")
    assert wants_audit(audit, slow)
    moves.record_report(factories.claimed_for_judging(factories.GPU), found(1.3, 1.28, 1.32, "audited"))
    assert Standing.objects.get(under_review=True).evaluation.submission == private.submission
    assert services.leaders_audit() == 0


def test_a_bound_is_audited_once_those_above_it_have_gone() -> None:
    above = [enter(name, replayed(2.5), "// lead\n") for name in ("olga", "one", "two")]
    bounded = enter("cheat", found(2.2, 2.15, 2.22, "bounded"))
    factories.worker(device=factories.GPU)
    assert services.leaders_audit() == 0
    for copy in above[1:]:
        ownership.account_delete(copy.submission.owner, keep_submissions=False)
    assert _audit_queued().submission == bounded.submission
    moves.record_report(factories.claimed_for_judging(factories.GPU), found(2.2, 2.15, 2.22, "audited"))
    assert [row[3] for row in rows()] == ["replayed", "audited"]
    assert services.leaders_audit() == 0


def test_an_audit_without_a_verdict_about_the_source_is_repeated_after_a_day() -> None:
    enter("olga", found(2.2, 2.15, 2.22, "bounded"))
    assert moves.evaluation_cancel(_audit_queued(), "Enough.")
    assert services.leaders_audit() == 0
    Evaluation.objects.filter(state="cancelled").update(queued=timezone.now() - timedelta(days=2))
    assert services.leaders_audit() == 1


def test_an_audit_that_its_owner_withdraws_or_whose_tool_fails_replaces_none() -> None:
    entry = enter("olga", found(2.2, 2.15, 2.22, "bounded"))
    asked = services.audit_request(entry, by_staff=False)
    assert services.is_withdrawable(asked)
    queued = _audit_queued_beside(asked)
    moves.evaluation_cancel(asked, "Not now.")
    assert services.leaders_audit() == 0
    moves.record_report(factories.claimed_for_judging(factories.GPU), found(2.2, 2.15, 2.22, "bounded"))
    assert services.leaders_audit() == 0
    Evaluation.objects.filter(pk=queued.pk).update(queued=timezone.now() - timedelta(days=6))
    assert services.leaders_audit() == 0
    Evaluation.objects.filter(pk=queued.pk).update(queued=timezone.now() - timedelta(days=8))
    assert services.leaders_audit() == 1


def _audit_queued_beside(asked: Evaluation) -> Evaluation:
    factories.worker(device=factories.GPU)
    assert services.leaders_audit() == 1
    return Evaluation.objects.exclude(state="done").exclude(pk=asked.pk).get()


def test_the_api_lists_entries_as_the_page_does(three: None, client: Any) -> None:
    query = {"task": "/".join(factories.TASK), "device": factories.gpu_kind().slug}
    rows = client.get(reverse("api:leaderboard"), query).json()
    assert [entry["rank"] for entry in rows["entries"]] == [1, 2, 3]


def test_a_task_is_faster_than_pytorch_if_what_counts_of_its_leader_is() -> None:
    enter("olga", found(1.05, 0.90, 1.06, "bounded"))
    kind = factories.gpu_kind().slug
    assert not list(selectors.task_rows(selectors.TaskFilter(device=kind, state="faster")))
    [task] = selectors.task_rows(selectors.TaskFilter(device=kind, state="slower"))
    assert task.best_score == pytest.approx(1.05)


def test_deleting_a_gated_judging_leaves_its_score_and_its_gate() -> None:
    gated = replace(replayed(9.0), gates=(Flag("gate-roofline", "faster than possible"),))
    fast = enter("cheat", gated, "// same\n")
    ownership.submission_delete(fast.submission)
    enter("cheat", replayed(2.0), "// same\n")
    row = Standing.objects.get()
    assert (row.under_review, row.score < 9.0) == (True, True), "as if it were still there"
    assert "contradict" in row.review_reason


def test_a_copy_that_somebody_deletes_reopens_no_review_that_staff_have_closed(staff: User) -> None:
    gated = replace(replayed(9.0), gates=(Flag("gate-roofline", "faster than possible"),))
    own = enter("olga", gated, "// same\n")
    decisions.decide(own.submission, ActionKind.CONFIRM, by=staff, reason="looked at it")
    copy = enter("bob", gated, "// same\n")
    ownership.submission_delete(copy.submission)
    assert rows() == [("olga", 1, 9.0, "replayed")]


def test_what_ended_by_our_fault_is_not_remembered_for_its_gates() -> None:
    gates = (Flag("gate-roofline", "faster than possible"),)
    noisy = replace(replayed(9.0), gates=gates, verdict=Verdict.NOISY, score=None)
    ours = enter("olga", noisy, "// same\n")
    if ours.submission.evaluations.filter(verdict="").exists():  # it is judged a second time
        moves.record_report(factories.claimed_for_judging(factories.GPU), noisy)
    ownership.submission_delete(ours.submission)
    enter("olga", replayed(1.7), "// same\n")
    assert rows() == [("olga", 1, 1.7, "replayed")]


def test_a_row_names_the_newest_text_of_a_program_also_if_it_is_written_anew() -> None:
    best = enter("olga", replayed(2.0), "// first\nint x;\n")
    newest = enter("olga", replayed(1.9), "// second\nint x;\n")
    assert Standing.objects.get().evaluation == newest
    standings_renew(best)
    assert Standing.objects.get().evaluation == newest


def test_private_judgings_take_no_row_off_a_board() -> None:
    public = enter("olga", replayed(1.98))
    for number in range(51):
        private = enter("olga", replayed(2.5), f"// {number}\n")
        Submission.objects.filter(pk=private.submission_id).update(visibility=Visibility.PRIVATE)
    standings_renew(public)
    assert rows() == [("olga", 1, 1.98, "replayed")]


def test_many_judgings_of_a_doubtful_program_hide_no_clean_one() -> None:
    clean = enter("olga", replayed(1.60), "// clean\n")
    for _ in range(51):
        enter("olga", replayed(2.60), "// fast\n")
    enter("olga", found(1.05, 1.00, 1.07, "bounded"), "// fast\n")
    assert rows() == [("olga", 1, 1.60, "replayed")], clean


def test_confirming_a_program_brings_back_the_rows_of_all_who_have_it(staff: User) -> None:
    enter("olga", replayed(1.60), "// clean\n")
    first = enter("bob", replayed(2.60), "// same\n")
    enter("olga", replayed(2.60), "// same\n")
    enter("olga", found(1.05, 1.00, 1.07, "bounded"), "// same\n")
    assert {row[0] for row in rows() if row[1]} == {"bob", "olga"}, "to bob it was a stranger's"
    services.evaluation_create(
        first.submission,
        device_kind=first.device_kind,
        reason=EvaluationReason.REJUDGE,
        priority=Priority.REJUDGE,
    )
    moves.record_report(factories.claimed_for_judging(factories.GPU), found(1.05, 1.00, 1.07, "bounded"))
    assert [row[:2] for row in rows() if row[1]] == [("olga", 1)]
    decisions.decide(first.submission, ActionKind.CONFIRM, by=staff, reason="the machine was busy")
    assert sorted(row[:2] for row in rows()) == [("bob", 1), ("olga", 1)]
    assert len({row[2] for row in rows()}) == 1


def test_a_contradiction_with_what_was_deleted_long_ago_can_be_settled(staff: User) -> None:
    old = enter("olga", found(1.05, 1.00, 1.07, "bounded"), "// same\n")
    ownership.submission_delete(old.submission)
    DeletedScore.objects.update(finished=None)
    now = enter("olga", replayed(1.50), "// same\n")
    assert Standing.objects.get().under_review
    decisions.decide(now.submission, ActionKind.CONFIRM, by=staff, reason="looked at it")
    assert not Standing.objects.get().under_review


def test_a_row_that_is_written_anew_names_the_audit() -> None:
    bounded = enter("olga", found(1.70, 1.60, 1.72, "bounded"))
    services.audit_request(bounded, by_staff=True)
    moves.record_report(factories.claimed_for_judging(factories.GPU), found(1.66, 1.56, 1.68, "audited"))
    assert [row[3] for row in rows()] == ["audited"]
    standings_renew(bounded)
    assert [row[3] for row in rows()] == ["audited"]
    assert Standing.objects.get().judgings == 2


def test_pooled_rows_of_a_processor_are_written_anew_as_well() -> None:
    """Several judgings of one code were pooled by another rule before."""
    for _ in range(2):
        factories.judged(owner=User.objects.filter(username="olga").first() or factories.user("olga"))
    Standing.objects.update(score=9.0)
    import_module("benchmarks.migrations.0039_boards_of_bounds").mark(apps, None)
    boards_complete()
    assert Standing.objects.get().score < 9.0
