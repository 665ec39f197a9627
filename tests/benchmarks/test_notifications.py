"""Who is told what, by which channels, and that each delivery is tried a bounded number of times."""

from datetime import timedelta

import pytest
from allauth.account.models import EmailAddress
from django.core import mail
from django.utils import timezone

from benchmarks.judgings import moves
from benchmarks.models import Delivery, Notification, NotificationChoice
from benchmarks.moderation import decisions
from benchmarks.notifications import choices, courier, lists, telling, webhooks
from benchmarks.states import ActionKind, Channel, DeliveryState, NotificationKind, Origin

HOOK = "https://hook.example/told"
EVERYTHING = {channel: [NotificationKind.VERDICT] for channel in Channel}


@pytest.fixture
def olga(person):
    return person("olga", email="olga@example.org")


@pytest.fixture
def posted(monkeypatch):
    """What was posted to webhooks; `problem` makes them fail."""
    sent = []

    def post(url, body, secret):
        sent.append((url, secret))
        if sent_to.problem:
            raise webhooks.NotDelivered(sent_to.problem)

    sent_to = type("Sent", (), {"sent": sent, "problem": ""})
    monkeypatch.setattr(webhooks, "post", post)
    return sent_to


def told(owner):
    return [(row.kind, row.text) for row in Notification.objects.filter(owner=owner).order_by("pk")]


def tell(owner, kind=NotificationKind.VERDICT):
    telling.notify(owner, kind, "A sentence.", "/tasks/")


def test_an_author_is_told_the_verdict(judged, olga):
    evaluation = judged(owner=olga, title="Mine")
    [row] = Notification.objects.all()
    assert (row.owner, row.kind, row.path) == (olga, "verdict", evaluation.get_absolute_url())
    assert row.text.startswith("“Mine”, mnist_linear_relu/forward: PASS.")


def test_nobody_is_told_of_candidates_and_of_what_they_cancel(judged, submit, olga):
    judged(owner=olga, origin=Origin.AGENT)
    moves.evaluation_cancel(submit(owner=olga, text="// other\n"), "Cancelled by its author.")
    judged(text="// nobody's\n")
    assert told(olga) == []


def test_who_loses_the_first_place_is_told(judged, olga, person):
    judged(owner=olga, speedup=2.0)
    judged(owner=person("stefan"), speedup=3.0, text="// faster\n")
    assert told(olga)[1:] == [
        (
            "record-lost",
            "Your first place on mnist_linear_relu/forward on cpu-avx2 was lost: the record is now 3.00×.",
        )
    ]
    judged(owner=olga, speedup=4.0, text="// best\n")
    judged(owner=olga, speedup=5.0, text="// better than her own\n")
    assert [kind for kind, _ in told(olga)].count("record-lost") == 1


def test_who_reported_a_submission_is_told_the_decision(judged, olga, person):
    submission = judged(owner=person("stefan")).submission
    decisions.report(submission, by=olga, text="It copies mine.")
    decisions.decide(submission, ActionKind.INVALIDATE, by=person("staff", is_staff=True), reason="It was a copy.")
    [(kind, text)] = told(olga)
    assert (kind, text.endswith("Invalidated: readable, but not ranked. It was a copy.")) == ("report-decided", False)
    assert "Invalidated. It was a copy." in text


def test_only_what_was_chosen_is_told(olga):
    choices.choose(olga, {Channel.SITE: [NotificationKind.RUN_ENDED]}, "")
    tell(olga)
    tell(olga, NotificationKind.RUN_ENDED)
    assert [kind for kind, _ in told(olga)] == ["run-ended"]
    assert not Delivery.objects.exists()


def test_a_notification_goes_by_e_mail_and_to_the_webhook(olga, settings, posted):
    settings.KBENCH_SENDS_MAIL, settings.KBENCH_SITE_URL = True, "https://kbench.example"
    EmailAddress.objects.create(user=olga, email="olga@example.org", verified=True)
    choice = choices.choose(olga, EVERYTHING, HOOK)
    tell(olga)
    while courier.deliver():
        pass
    assert set(Delivery.objects.values_list("state", "attempts")) == {(DeliveryState.SENT, 1)}
    assert posted.sent == [(HOOK, choice.webhook_secret)]
    assert mail.outbox[0].to == ["olga@example.org"]
    assert "https://kbench.example/tasks/" in mail.outbox[0].body


def test_a_site_without_e_mail_sends_none(olga, settings, posted):
    settings.KBENCH_SENDS_MAIL = False
    EmailAddress.objects.create(user=olga, email="olga@example.org", verified=True)
    choices.choose(olga, EVERYTHING, "")
    tell(olga)
    assert not Delivery.objects.exists()


def test_a_delivery_is_tried_four_times_with_growing_pauses(olga, posted):
    choices.choose(olga, EVERYTHING, HOOK)
    tell(olga)
    posted.problem = "The address answered 500."
    pauses = []
    for _ in range(6):
        row = Delivery.objects.get()
        Delivery.objects.filter(state=DeliveryState.WAITING).update(due=timezone.now())
        courier.deliver()
        again = Delivery.objects.get()
        pauses.append((again.due - timezone.now()) > timedelta(seconds=50) and again.attempts > row.attempts)
    assert pauses == [True] * 4 + [False] * 2
    assert (again.state, again.attempts, again.problem) == (DeliveryState.FAILED, 4, "The address answered 500.")


def test_a_delivery_is_taken_once(olga, posted):
    choices.choose(olga, EVERYTHING, HOOK)
    tell(olga)
    first, second = Delivery.objects.get(), Delivery.objects.get()
    assert (courier._take(first), courier._take(second)) == (True, False)
    assert courier.deliver() == 0  # it is not due again before a minute


def test_a_webhook_that_keeps_failing_is_switched_off_and_its_owner_told(olga, posted):
    choices.choose(olga, EVERYTHING, HOOK)
    posted.problem = "The address answered 410."
    for _ in range(courier.WEBHOOK_FAILURES_MAX + 2):
        tell(olga)
    while courier.deliver():
        pass
    assert len(posted.sent) == courier.WEBHOOK_FAILURES_MAX
    assert told(olga)[-1][0] == "webhook-off"
    assert NotificationChoice.objects.get().webhook == []
    assert not Delivery.objects.filter(state=DeliveryState.WAITING).exists()


def test_accounts_take_turns(olga, person, posted):
    for owner, number in ((olga, 3), (person("stefan"), 1)):
        choices.choose(owner, EVERYTHING, HOOK)
        for _ in range(number):
            tell(owner)
    assert [courier.deliver() for _ in range(4)] == [2, 1, 1, 0]


def test_a_new_address_has_a_new_secret(olga):
    first = choices.choose(olga, EVERYTHING, HOOK).webhook_secret
    assert choices.choose(olga, EVERYTHING, HOOK).webhook_secret == first
    assert choices.choose(olga, EVERYTHING, HOOK + "/other").webhook_secret != first


def test_reading_and_forgetting(olga, person):
    tell(olga)
    tell(olga)
    tell(person("stefan"))
    newest = lists.notifications_of(olga)[0]
    assert (lists.unread_count(olga), lists.mark_read(olga, newest.pk), lists.unread_count(olga)) == (2, 1, 1)
    assert (lists.mark_read(olga), lists.unread_count(olga)) == (1, 0)
    Notification.objects.update(created=timezone.now() - timedelta(days=telling.KEPT_DAYS + 1))
    telling.forget()
    assert not Notification.objects.exists()
