"""Sends what is due by e-mail and to webhooks, and moves deliveries on; the only module that does.

A delivery is claimed by a conditional update that counts the attempt and sets the time of the next one, so two
processes never send the same message at once, and a delivery whose process died is tried again. After four attempts it
is dropped. A webhook that fails five times in a row is switched off. Addresses are contacted in threads, so a slow one
delays only a few others.
"""

import json
import logging
import smtplib
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.core.mail import send_mail
from django.db import connection
from django.db.models import F, Min, QuerySet
from django.urls import reverse
from django.utils import timezone

from ..models import Delivery, Notification, NotificationChoice
from ..states import Channel, DeliveryState, NotificationKind
from . import webhooks
from .choices import choice_of, mail_address

logger = logging.getLogger(__name__)
WAITS = (timedelta(minutes=1), timedelta(minutes=10), timedelta(hours=1))  # before the attempts after the first
ATTEMPTS_MAX = len(WAITS) + 1
WEBHOOK_FAILURES_MAX = 5
AT_ONCE = 8
MAIL_FOOT = "You chose to get this by e-mail. Change that at {url}"
_at_work = threading.Lock()


@dataclass(frozen=True)
class Letter:
    """All that sending needs, so that threads need no database."""

    delivery: Delivery
    notification: Notification
    to: str
    secret: str = ""


def start() -> bool:
    """Send what is due in a thread of this process. False: one is at it, or there is nothing."""
    if not _due().exists() or not _at_work.acquire(blocking=False):
        return False
    threading.Thread(target=_work, daemon=True, name="courier").start()
    return True


def _work() -> None:
    try:
        while deliver():
            pass
    finally:
        _at_work.release()
        connection.close()


def deliver() -> int:
    """Send some of what is due, at most one delivery of an account, so that nobody keeps others waiting. How many."""
    oldest = _due().order_by().values("notification__owner").annotate(first=Min("pk")).values_list("first", flat=True)
    rows = Delivery.objects.select_related("notification__owner").filter(pk__in=list(oldest[:AT_ONCE])).order_by("pk")
    letters = [letter for row in rows if _take(row) and (letter := _letter(row))]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for letter, problem in zip(letters, pool.map(_sent, letters), strict=True):
            _end(letter, problem)
    return len(rows)


def _due() -> QuerySet[Delivery]:
    return Delivery.objects.filter(state=DeliveryState.WAITING, due__lte=timezone.now())


def _take(row: Delivery) -> bool:
    """Counts the attempt and sets the time of the next one. False: another process was faster."""
    following = timezone.now() + WAITS[min(row.attempts, len(WAITS) - 1)]
    held = Delivery.objects.filter(pk=row.pk, state=DeliveryState.WAITING, attempts=row.attempts)
    taken = held.update(attempts=F("attempts") + 1, due=following) == 1
    row.attempts += 1
    return taken


def _letter(row: Delivery) -> Letter | None:
    """None where the account does not want it any more."""
    owner = row.notification.owner
    if row.channel == Channel.MAIL:
        letter = Letter(row, row.notification, mail_address(owner))
    else:
        choice = choice_of(owner)
        letter = Letter(row, row.notification, choice.webhook_url, choice.webhook_secret)
    if letter.to:
        return letter
    _move(row, DeliveryState.FAILED, "The account has no such address any more.")
    return None


def _sent(letter: Letter) -> str:
    """Why it could not be sent; empty where it was."""
    try:
        if letter.delivery.channel == Channel.MAIL:
            _mail(letter)
        else:
            webhooks.post(letter.to, _body(letter.notification), letter.secret)
    except (webhooks.NotAllowed, webhooks.NotDelivered) as error:
        return str(error)
    except (OSError, smtplib.SMTPException) as error:
        logger.warning("e-mail was not sent: %s", error)
        return "The mail server did not accept it."
    return ""


def _mail(letter: Letter) -> None:
    url = f"{settings.KBENCH_SITE_URL}{letter.notification.path}"
    foot = MAIL_FOOT.format(url=f"{settings.KBENCH_SITE_URL}{reverse('notification-settings')}")
    subject = f"kbench: {letter.notification.get_kind_display()}"
    send_mail(subject, f"{letter.notification.text}\n\n{url}\n\n{foot}\n", None, [letter.to])


def _body(notification: Notification) -> bytes:
    told = {
        "id": notification.pk,
        "kind": notification.kind,
        "text": notification.text,
        "url": f"{settings.KBENCH_SITE_URL}{notification.path}",
        "at": notification.created.isoformat(),
    }
    return json.dumps(told).encode()


def _end(letter: Letter, problem: str) -> None:
    row = letter.delivery
    if not problem:
        _move(row, DeliveryState.SENT, "")
    else:
        _move(row, DeliveryState.FAILED if row.attempts >= ATTEMPTS_MAX else DeliveryState.WAITING, problem)
    if row.channel == Channel.WEBHOOK:
        _count(letter, problem)


def _move(row: Delivery, state: DeliveryState, problem: str) -> None:
    """Only what this courier has taken: the attempts are the claim."""
    held = Delivery.objects.filter(pk=row.pk, state=DeliveryState.WAITING, attempts=row.attempts)
    held.update(state=state, problem=problem[:300])


def _count(letter: Letter, problem: str) -> None:
    """Switches off a webhook that never answers, and says so on the site."""
    owner = letter.notification.owner
    same = NotificationChoice.objects.filter(owner=owner, webhook_url=letter.to)
    if not problem:
        same.filter(webhook_failures__gt=0).update(webhook_failures=0)
        return
    same.update(webhook_failures=F("webhook_failures") + 1)
    if same.filter(webhook_failures__gte=WEBHOOK_FAILURES_MAX).update(webhook=[], webhook_failures=0):
        text = f"Your webhook was switched off: it failed {WEBHOOK_FAILURES_MAX} times in a row. {problem}"
        path = reverse("notification-settings")
        Notification.objects.create(owner=owner, kind=NotificationKind.WEBHOOK_OFF, text=text[:500], path=path)
        waiting = Delivery.objects.filter(notification__owner=owner, channel=Channel.WEBHOOK)
        waiting.filter(state=DeliveryState.WAITING).update(state=DeliveryState.FAILED, problem="It was switched off.")
