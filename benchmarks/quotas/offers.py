"""Judging time that a requester offers for answers: taken from the quota when it is offered, and what is left of it.

The time of an accepted answer of somebody else is paid from it (`charges.settle`). Does NOT know who asks for what:
`requests/asking.py` does.
"""

from datetime import datetime

from django.db import transaction
from django.utils import timezone

from ..models import LedgerEntry, Payer
from ..states import LedgerKind
from .charges import DAY
from .metering import JUDGING, hold, meters


class NotEnoughTime(Exception):
    """The quota has less left than is offered; the text is for the person."""


def offer(payer: Payer, seconds: float, text: str) -> None:
    """Charge what is offered, in the transaction of the request. Raises NotEnoughTime."""
    with transaction.atomic():
        hold(payer)  # two at once are counted one after the other
        left = next(meter.left for meter in meters(payer) if meter.kind is JUDGING)
        if left is not None and left < seconds:
            raise NotEnoughTime(f"Your quota has {left:.0f} s of judging time left within 24 hours.")
        LedgerEntry.objects.create(payer=payer, kind=LedgerKind.CHARGE, judging_s=seconds, text=text[:500])


def give_back(payer: Payer, seconds: float, text: str, *, offered: datetime) -> None:
    """What nobody has used, as of the time of the offer: dated later it would count longer than the charge.

    After a day nothing: by then the charge limits nobody any more.
    """
    if seconds > 0 and offered > timezone.now() - DAY:
        columns = {"kind": LedgerKind.GRANT, "judging_s": seconds, "text": text[:500], "created": offered}
        LedgerEntry.objects.create(payer=payer, **columns)


def spend(payer: Payer, seconds: float, text: str) -> None:
    """Charge time that was used for no evaluation."""
    if seconds > 0:
        LedgerEntry.objects.create(payer=payer, kind=LedgerKind.CHARGE, judging_s=seconds, text=text[:500])
