"""What an unscrupulous account tries to have for nothing: rows, places in the queue, judgings, audits, mail.

Each was a finding of an attack once.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchmarks import quotas, services
from benchmarks.accounts import ownership
from benchmarks.judgings import moves
from benchmarks.models import Evaluation, LedgerEntry, Notification, SpentPlace, Submission
from benchmarks.notifications import telling
from benchmarks.states import EvaluationReason, NotificationKind, Origin, Visibility
from tests.asking import opened, version_of

from . import factories
from .test_bounds import found
from .test_connected import private


def _earlier(evaluation: Evaluation, by: timedelta = timedelta(days=2)) -> Evaluation:
    moment = timezone.now() - by
    Submission.objects.filter(pk=evaluation.submission_id).update(created=moment)
    Evaluation.objects.filter(pk=evaluation.pk).update(queued=moment, finished=moment)
    return Evaluation.objects.select_related("submission", "task_version").get(pk=evaluation.pk)


def _times(count: int, act: Callable[[int], object]) -> None:
    for number in range(count):
        act(number)


@pytest.mark.parametrize("what", ["a second opinion", "an older quick check"])
def test_asking_and_cancelling_fills_no_table_without_bound(owner: Any, settings: Any, what: str) -> None:
    """Each is a row that the page of the submission and its API answer read, all of them at once."""
    settings.KBENCH_PUBLIC_PER_DAY, settings.KBENCH_IN_FLIGHT_MAX = 5, 10
    payer = quotas.payer_of(owner, "")
    if what == "a second opinion":
        judged = factories.judged_on_gpu(found(2.0, 1.9, 2.1, "bounded"), owner=owner, payer=payer)
    else:
        private = {"visibility": Visibility.PRIVATE}  # it takes no public place
        judged = _earlier(factories.judged(owner=owner, payer=payer, quick=True, **private))

    def asked_and_cancelled(_: int) -> None:
        asked = (
            services.audit_request(judged, by_staff=False)
            if what == "a second opinion"
            else services.judge_in_full(judged, payer)
        )
        assert services.is_withdrawable(asked)
        moves.evaluation_cancel(asked, "Cancelled by its author.", by_author=True)

    with pytest.raises(quotas.OverQuota, match="cancelled 5 of your submissions and other evaluations"):
        _times(40, asked_and_cancelled)


def test_deleting_what_was_cancelled_gives_no_place_back(owner: Any, settings: Any) -> None:
    """The row that is counted goes with it: submit, cancel and delete without end, with events that stay a week."""
    settings.KBENCH_PUBLIC_PER_DAY, settings.KBENCH_IN_FLIGHT_MAX = 5, 10
    payer = quotas.payer_of(owner, "")

    def cancelled_and_deleted(number: int) -> None:
        evaluation = factories.queued(owner=owner, payer=payer, text=f"// {number}\n")
        moves.evaluation_cancel(evaluation, "Cancelled by its author.", by_author=True)
        ownership.submission_delete(evaluation.submission)

    with pytest.raises(quotas.OverQuota, match="cancelled 5"):
        _times(20, cancelled_and_deleted)


def test_what_does_not_compile_again_is_not_judged_for_nothing(owner: Any) -> None:
    """A failure is kept with the builds: the same text again takes no second, no public place, but rows."""
    payer = quotas.payer_of(owner, "")
    for _ in range(3):
        factories.queued(owner=owner, payer=payer, visibility=Visibility.PRIVATE)
        holding = factories.claimed_for_judging()
        moves.evaluation_compiled(holding, 0.0, None)  # as `jobs.judging._compile` does where the build was cached
        moves.record_report(holding, factories.failing())
    assert [meter.used for meter in quotas.meters(payer)] == [0, 0, 3]


@pytest.mark.parametrize("age", [timedelta(days=2), timedelta(hours=23, minutes=59)])
def test_earlier_quick_checks_take_public_places_when_they_are_judged(
    owner: Any, settings: Any, age: timedelta
) -> None:
    """A quick check takes no place on the day of its submission; the judging in full takes one for a whole day."""
    settings.KBENCH_PUBLIC_PER_DAY, settings.KBENCH_IN_FLIGHT_MAX = 3, 100
    payer = quotas.payer_of(owner, "")
    checked = [factories.judged(owner=owner, payer=payer, text=f"// {number}\n", quick=True) for number in range(4)]
    older = [_earlier(item, age) for item in checked]
    _times(3, lambda number: services.judge_in_full(older[number], payer))
    Submission.objects.update(created=timezone.now() - timedelta(hours=25))
    with pytest.raises(quotas.OverQuota, match="3 public submissions"):
        services.judge_in_full(older[3], payer)


def test_another_address_asks_for_no_full_judging_beyond_the_limits_of_who_submitted(settings: Any) -> None:
    """It counts for the payer of the submission, so the meters of another one would never fill."""
    settings.KBENCH_PUBLIC_PER_DAY = 4  # a visitor without an account has a quarter of it
    here, there = (quotas.payer_of(AnonymousUser(), address) for address in ("192.0.2.1", "192.0.2.2"))
    checked = [factories.judged(payer=here, text=f"// {number}\n", quick=True) for number in range(2)]
    services.judge_in_full(checked[0], there)
    with pytest.raises(quotas.OverQuota):
        services.judge_in_full(checked[1], there)


def test_audits_of_what_a_run_has_made_are_charged_to_who_asks() -> None:
    """Candidates of the site's runs have no payer: each audit takes minutes of a GPU, one after the other."""
    olga = factories.user("olga")
    made = factories.judged_on_gpu(found(2.0, 1.9, 2.1, "bounded"), owner=olga, origin=Origin.AGENT)
    assert not LedgerEntry.objects.exists()
    for _ in range(3):
        services.audit_request(made, by_staff=False)
        moves.record_report(factories.claimed_for_judging(factories.GPU), found(2.0, 1.9, 2.1, "audited"))
    assert [line.payer.account for line in LedgerEntry.objects.select_related("payer__account")] == [olga] * 3


def test_showing_and_hiding_what_a_run_has_made_takes_places(settings: Any) -> None:
    """Each time a board changes, as for any other entry."""
    settings.KBENCH_PUBLIC_PER_DAY = 2
    made = factories.judged(owner=factories.user("olga"), origin=Origin.AGENT).submission
    with pytest.raises(quotas.OverQuota, match="2 public submissions"):
        _times(8, lambda number: ownership.visibility_change(made, (Visibility.PRIVATE, Visibility.PUBLIC)[number % 2]))


def test_an_account_makes_the_site_audit_no_more_than_a_few_entries_at_once() -> None:
    """Judged while it is private nothing is audited, or paid for. Shown by turns each leads, and the site pays."""
    owner = factories.user("many")
    factories.worker(device=factories.GPU)
    made = [private("many", found(2.0, 1.9, 2.1, "bounded"), f"// {number}\nint x{number};") for number in range(8)]
    for item in made:
        for wanted in (Visibility.PUBLIC, Visibility.PRIVATE):
            ownership.visibility_change(Submission.objects.get(pk=item.submission_id), wanted)
            services.leaders_audit()
    asked = Evaluation.objects.filter(submission__owner=owner, reason=EvaluationReason.SITE_AUDIT)
    assert asked.queued().count() == services.LEADERS_AT_ONCE


def test_nobody_fills_the_mailbox_of_who_asked_by_the_same_answer() -> None:
    """As of a record that is lost; here each new submission of one text takes the row."""
    asks, answers = factories.user("asks"), factories.user("answers")
    version = version_of(opened(asks))
    _times(3, lambda _: factories.judged(owner=answers, version=version))
    assert _told_of_answers(asks) == 1


def test_nobody_fills_the_mailbox_of_who_asked_by_many_answers() -> None:
    """Each is a little better than the one before."""
    asks, answers = factories.user("asks"), factories.user("answers")
    version = version_of(opened(asks))

    def better(number: int) -> None:
        text = f"static int a{number};\n{factories.SOURCE}"
        factories.judged(factories.passing(1.5 + number), owner=answers, version=version, text=text)

    _times(6, better)
    assert _told_of_answers(asks) == telling.TOLD_PER_DAY


def _told_of_answers(account: User) -> int:
    return Notification.objects.filter(owner=account, kind=NotificationKind.ANSWER).count()


def test_what_staff_cancel_is_not_counted_as_cancelled_by_its_author(as_staff: Client, owner: User) -> None:
    payer = quotas.payer_of(owner, "")
    item = factories.queued(owner=owner, payer=payer)
    as_staff.post(reverse("evaluation-cancel", args=[item.code]))
    item.refresh_from_db()
    assert (item.state, item.reason_text) == ("cancelled", "Cancelled by staff.")
    assert not SpentPlace.objects.filter(payer=payer, cancelled=True).exists()
