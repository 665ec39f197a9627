"""The notifications that an account has chosen, and their channels."""

import secrets
from collections.abc import Collection, Mapping

from allauth.account.models import EmailAddress
from django.conf import settings
from django.contrib.auth.models import User

from ..models import NotificationChoice
from ..states import Channel, NotificationKind

DEFAULT = NotificationChoice(site=list(NotificationKind.values))
Kinds = Mapping[Channel, Collection[str]]


def choice_of(owner: User) -> NotificationChoice:
    """What the account has chosen, or the defaults: everything on the site, nothing elsewhere."""
    return NotificationChoice.objects.filter(owner=owner.pk).first() or DEFAULT


def choose(owner: User, kinds: Kinds, webhook_url: str) -> NotificationChoice:
    """A new address gets a new secret, so nobody who knew the old one can sign for it."""
    row, _ = NotificationChoice.objects.get_or_create(owner=owner)
    row.site, row.mail, row.webhook = (sorted(kinds.get(channel, ())) for channel in Channel)
    if row.webhook_url != webhook_url:
        row.webhook_url, row.webhook_secret = webhook_url, secrets.token_hex(32) if webhook_url else ""
    row.webhook_failures = 0
    row.save()
    return row


def renew_secret(owner: User) -> None:
    """What is signed from now on is signed with another secret."""
    rows = NotificationChoice.objects.filter(owner=owner).exclude(webhook_url="")
    rows.update(webhook_secret=secrets.token_hex(32))


def mail_address(owner: User) -> str:
    """The confirmed e-mail address of the account; empty where it has none, or the site sends no e-mail."""
    if not settings.KBENCH_SENDS_MAIL:
        return ""
    rows = EmailAddress.objects.filter(user=owner, verified=True)
    return str(rows.order_by("-primary").values_list("email", flat=True).first() or "")
