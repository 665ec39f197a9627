"""A suspension ends what the account has asked for, and not what a contest or the site has.

Not covered: the pages and permissions of a suspended account (`test_moderation.py`).
"""

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from benchmarks import services
from benchmarks.contests import running
from benchmarks.judgings import moves
from benchmarks.models import Contest, ContestEntry, Evaluation, RuleSet
from benchmarks.moderation import decisions, rejudging
from benchmarks.states import EvaluationReason, Priority, State

from . import contests, factories


def suspend(account: User, staff: User) -> None:
    decisions.ban(account, by=staff, reason="by mistake")


def test_a_suspension_that_is_lifted_costs_no_final(staff: User) -> None:
    ann = factories.user("ann")
    contest = contests.running_with(ann, hidden={contests.TASK: {"cpu": [{"batch_size": 4861}]}})
    factories.judged(factories.passing(2.0), owner=ann, text="// ann\n")
    Contest.objects.filter(pk=contest.pk).update(ends=timezone.now())
    running.advance()
    suspend(ann, staff)
    decisions.unban(ann, by=staff, reason="it was a mistake")
    moves.record_report(factories.claimed_for_judging(), factories.passing(2.0))
    running.advance()
    assert ContestEntry.objects.get().score == pytest.approx(2.0)


def test_what_staff_have_judged_again_goes_on(staff: User) -> None:
    ann = factories.user("ann")
    factories.judged(factories.passing(9.0), owner=ann, text="// doubtful\n")
    rules = RuleSet.objects.get(name="rk-2")
    rejudging.batch_create(rejudging.Wanted(on_boards=False), rules, by=staff, reason="doubts", expected=1)
    rejudging.advance()
    suspend(ann, staff)
    assert Evaluation.objects.queued().filter(reason=EvaluationReason.REJUDGE).exists()


def test_an_audit_of_the_site_goes_on(staff: User) -> None:
    ann = factories.user("ann")
    item = factories.judged(factories.passing(9.0), owner=ann, text="// leads\n")
    of_site = {"reason": EvaluationReason.SITE_AUDIT, "priority": Priority.AGENT}
    services.evaluation_create(item.submission, device_kind=item.device_kind, **of_site)
    suspend(ann, staff)
    assert Evaluation.objects.queued().filter(reason=EvaluationReason.SITE_AUDIT).exists()


@pytest.mark.parametrize(
    "asked",
    [
        {"reason": EvaluationReason.VERIFICATION},
        {"reason": EvaluationReason.INITIAL, "priority": Priority.AGENT},
        {"reason": EvaluationReason.REJUDGE, "priority": Priority.AGENT},
    ],
)
def test_what_the_account_or_its_runs_have_asked_for_is_cancelled(staff: User, asked: dict[str, str]) -> None:
    ann = factories.user("ann")
    item = factories.judged(factories.passing(2.0), owner=ann, text="// ann\n")
    mine = services.evaluation_create(item.submission, device_kind=item.device_kind, **asked)
    suspend(ann, staff)
    mine.refresh_from_db()
    assert (mine.state, mine.reason_text) == (State.CANCELLED, decisions.SUSPENDED)
