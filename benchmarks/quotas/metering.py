"""The limits of a payer, and how much of them is left.

A payer is an account, or an address without one. `take_place` and the figures that a page shows before a submission
are computed alike, so they cannot contradict each other. Submissions without a payer are not metered: the site's own
agent runs have caps, until their owner asks for more, and shipped examples and entries that staff judge again are free.
Does NOT know requests: `accounts/limits.py` says who a visitor is. Does NOT write the ledger (`charges.py`).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Case, Exists, F, OuterRef, Q, When
from django.utils import timezone
from django.utils.crypto import salted_hmac

from ..models import EmulatorCheck, Evaluation, LedgerEntry, Payer, ProfileRequest, SpentPlace, Submission
from ..querysets import EvaluationQuerySet
from ..states import CHECK_OPEN, RUNNING, EvaluationReason, LedgerKind, State, Visibility
from .charges import CHARGED_REASONS, DAY, OURS

WITHOUT_ACCOUNT = 4  # a visitor without an account, or with a new one, has this part of what an account has
FORGOTTEN_AFTER = timedelta(days=2)
IN_FLIGHT_RETRY_S = 15
_SIGNED = Case(When(kind=LedgerKind.CHARGE, then=F("judging_s")), default=-F("judging_s"))


@dataclass(frozen=True)
class MeterKind:
    """What is counted, in which unit, against which setting, and what is said when there is no more room."""

    code: str
    title: str
    unit: str
    setting: str
    refusal: str


IN_FLIGHT = MeterKind(
    "in-flight",
    "Waiting or being judged",
    "evaluations",
    "KBENCH_IN_FLIGHT_MAX",
    "{limit} of your evaluations are waiting or being judged, which is the limit. "
    "Submit when one of them has ended, or cancel one.",
)
PUBLIC = MeterKind(
    "public-per-day",
    "Public submissions in 24 hours",
    "submissions",
    "KBENCH_PUBLIC_PER_DAY",
    "That is {limit} public submissions within 24 hours, which is the limit. "
    "Try again in {wait}; private and unlisted submissions do not count.",
)
CANCELLED = MeterKind(
    "cancelled-per-day",
    "Cancelled evaluations in 24 hours",
    "evaluations",
    "KBENCH_PUBLIC_PER_DAY",
    "You have cancelled {limit} of your submissions and other evaluations within 24 hours, which is the limit. "
    "Try again in {wait}.",
)
JUDGING = MeterKind(
    "judging-seconds-per-day",
    "Time on devices in 24 hours",
    "s",
    "KBENCH_JUDGING_S_PER_DAY",
    "Your submissions have used {limit} seconds on devices within 24 hours, which is the limit. Try again in {wait}.",
)


class OverQuota(Exception):
    """A meter is full; the text is for the person."""

    def __init__(self, meter: "QuotaUse") -> None:
        super().__init__(meter.refusal)
        self.meter = meter


@dataclass(frozen=True)
class QuotaUse:
    """One limit and how much of it is used; `limit` None: there is none. `retry_after_s` is set while it is full."""

    kind: MeterKind
    used: float
    limit: int | None
    retry_after_s: int | None = None
    of_new_account: bool = False

    @property
    def code(self) -> str:
        return self.kind.code

    @property
    def is_full(self) -> bool:
        return self.limit is not None and self.used >= self.limit

    @property
    def left(self) -> float | None:
        return None if self.limit is None else max(0.0, self.limit - self.used)

    @property
    def refusal(self) -> str:
        """The reason why the quota is used up, and what to do."""
        said = self.kind.refusal.format(limit=self.limit, wait=_span(self.retry_after_s or 0))
        hours = settings.KBENCH_NEW_ACCOUNT_HOURS
        return (
            f"{said} The limits of an account are smaller in its first {hours} hours." if self.of_new_account else said
        )


def payer_of(user: User | AnonymousUser, address: str) -> Payer:
    """Who pays for what this visitor submits."""
    if user.is_authenticated:
        return Payer.objects.get_or_create(account=user)[0]
    return Payer.objects.get_or_create(address_digest=_digest(address))[0]


def payer_for(submission: Submission) -> Payer | None:
    """Who pays for what is asked of it later: of what a run of the site has made, its owner from now on.

    In a transaction.
    """
    if submission.payer is None and submission.owner is not None:
        submission.payer = payer_of(submission.owner, "")
        hold(submission.payer)
        submission.save(update_fields=["payer"])
    return submission.payer


def meters_of(user: User | AnonymousUser, address: str) -> list[QuotaUse]:
    """The same as `meters`, without creating a row for a visitor who only looks."""
    known = Q(account=user.pk) if user.is_authenticated else Q(address_digest=_digest(address))
    return meters(Payer.objects.filter(known).first() or Payer(account_id=user.pk))


def meters(payer: Payer) -> list[QuotaUse]:
    """In flight, public submissions and judging seconds, in this order."""
    return [_in_flight(payer), _public_per_day(payer), _judging_per_day(payer)]


def hold(payer: Payer) -> None:
    """Nobody else takes a place of it until the transaction ends; before its submissions are locked.

    Lines of the ledger may be written meanwhile.
    """
    Payer.objects.select_for_update(no_key=True).filter(pk=payer.pk).first()


def take_place(payer: Payer, *, public: bool, of: Submission | None = None) -> None:
    """Make sure that one more may be judged, inside the transaction that writes it. Raises OverQuota.

    `of` is the submission where it exists already. The row of the payer is locked until that transaction ends, so two
    at once cannot take the last place.
    """
    _refuse_full(payer, (IN_FLIGHT, CANCELLED, JUDGING, *([PUBLIC] if public else [])))
    if public and of is not None:
        _spend_place(of, payer)


def take_public_place(submission: Submission) -> None:
    """The same for an existing submission that becomes public."""
    payer = payer_for(submission)
    if payer is None:
        return
    _refuse_full(payer, (PUBLIC,))
    _spend_place(submission, payer)


def keep_places(submissions: Sequence[Submission]) -> None:
    """Remember the public places of the day that submissions took which are about to be deleted or hidden again.

    Hiding gives no place back: whoever shows and hides an entry again and again changes a board each time.
    """
    for payer in Payer.objects.filter(pk__in={item.payer_id for item in submissions if item.payer_id}):
        taken = _public_places(payer, settings.KBENCH_REFUNDS_PER_DAY).filter(submission__in=submissions).order_by()
        created = taken.values_list("submission", "submission__created").distinct()
        SpentPlace.objects.bulk_create(SpentPlace(payer=payer, submitted=moment) for _, moment in created)


def count_cancelled(evaluation: Evaluation) -> None:
    """Remember that what its author had asked for was cancelled, also when the submission is deleted."""
    payer = evaluation.submission.payer
    if payer is not None and evaluation.reason in CHARGED_REASONS:
        SpentPlace.objects.create(payer=payer, submitted=timezone.now(), cancelled=True)


def forget_places() -> int:
    """Drop what counts for nobody any more. How many that were."""
    return SpentPlace.objects.filter(submitted__lt=timezone.now() - DAY).delete()[0]


def forget_addresses() -> int:
    """Drop the digests of addresses that have not submitted for a while. How many that were."""
    old = Payer.objects.filter(address_digest__isnull=False, seen__lt=timezone.now() - FORGOTTEN_AFTER)
    return old.update(address_digest=None)


def _spend_place(submission: Submission, payer: Payer) -> None:
    """Remember the place that it takes now, unless its first judging is of this day and counts by itself."""
    if not _first_judgings(payer).filter(submission=submission).exists():
        SpentPlace.objects.create(payer=payer, submitted=timezone.now())


def _refuse_full(payer: Payer, kinds: Iterable[MeterKind]) -> None:
    hold(payer)
    Payer.objects.filter(pk=payer.pk).update(seen=timezone.now())
    for meter in (*meters(payer), _cancelled_per_day(payer)):
        if meter.is_full and meter.kind in kinds:
            raise OverQuota(meter)


def _in_flight(payer: Payer) -> QuotaUse:
    open_rows = _evaluations(payer).filter(state__in=(State.QUEUED, *RUNNING))
    checks = EmulatorCheck.objects.filter(payer=payer.pk or 0, explains=None, state__in=CHECK_OPEN)
    soon = timezone.now() + timedelta(seconds=IN_FLIGHT_RETRY_S)
    profiles = ProfileRequest.objects.filter(payer=payer.pk or 0, state__in=CHECK_OPEN)
    used = open_rows.count() + checks.count() + profiles.count()
    return _meter(payer, IN_FLIGHT, used, lambda _: soon)


def _public_per_day(payer: Payer) -> QuotaUse:
    """What was deleted counts still, and of what was our own fault what is beyond the refunds of a day."""
    places = _public_places(payer, settings.KBENCH_REFUNDS_PER_DAY)
    created = [*places.values_list("submission__created", flat=True), *_spent(payer, cancelled=False)]
    created.sort(reverse=True)
    return _meter(payer, PUBLIC, len(created), lambda limit: created[limit - 1] + DAY)


def _public_places(payer: Payer, forgiven: int) -> EvaluationQuerySet:
    """First judgings of public submissions of the last 24 hours, without so many that were our own fault."""
    counted = _first_judgings(payer).filter(submission__visibility=Visibility.PUBLIC)
    ours = counted.filter(verdict__in=OURS).order_by("submission__created", "pk").values_list("pk", flat=True)
    return counted.exclude(pk__in=list(ours[:forgiven]))


def _first_judgings(payer: Payer) -> EvaluationQuerySet:
    """Those that take a place by the day of their submission: after a quick check one takes it when it is asked for."""
    checked = Evaluation.objects.filter(submission=OuterRef("submission"), reason=EvaluationReason.QUICK)
    rows = _evaluations(payer).filter(~Exists(checked), submission__created__gte=timezone.now() - DAY)
    return rows.filter(reason=EvaluationReason.INITIAL).exclude(state__in=(State.CANCELLED, State.EXPIRED))


def _cancelled_per_day(payer: Payer) -> QuotaUse:
    """They cost no time on a device, but each leaves rows. Nobody is shown this meter before it is full."""
    cancelled = _spent(payer, cancelled=True)
    return _meter(payer, CANCELLED, len(cancelled), lambda limit: cancelled[limit - 1] + DAY)


def _spent(payer: Payer, *, cancelled: bool) -> list[datetime]:
    """The moments of the last 24 hours that the table of spent places has for a payer, newest first."""
    rows = SpentPlace.objects.filter(payer=payer.pk or 0, submitted__gte=timezone.now() - DAY, cancelled=cancelled)
    return list(rows.values_list("submitted", flat=True))


def _judging_per_day(payer: Payer) -> QuotaUse:
    since = timezone.now() - DAY
    recent = LedgerEntry.objects.filter(payer=payer.pk or 0, created__gte=since).annotate(signed=_SIGNED)
    rows: list[tuple[datetime, float]] = list(recent.order_by("-created", "-pk").values_list("created", "signed"))
    totals = list(accumulate((signed for _, signed in rows), initial=0.0))

    def free_at(limit: int) -> datetime:
        return next(created + DAY for (created, _), total in zip(rows, totals[1:], strict=True) if total >= limit)

    return _meter(payer, JUDGING, max(0.0, totals[-1]), free_at)


def _meter(payer: Payer, kind: MeterKind, used: float, free_at: Callable[[int], datetime]) -> QuotaUse:
    """`free_at` is asked, with the limit, when the meter is full: when is there room again?"""
    limit, is_new = _limit(payer, kind), _is_new(payer)
    if limit is None or used < limit:
        return QuotaUse(kind, used, limit, of_new_account=is_new)
    wait_s = max(1, round((free_at(limit) - timezone.now()).total_seconds()))
    return QuotaUse(kind, used, limit, wait_s, of_new_account=is_new)


def _limit(payer: Payer, kind: MeterKind) -> int | None:
    """For an account the setting, for an address and for a new account a part of it; 0 means no limit."""
    limit: int = getattr(settings, kind.setting)
    if limit == 0:
        return None
    return limit if payer.account_id and not _is_new(payer) else max(1, limit // WITHOUT_ACCOUNT)


def _is_new(payer: Payer) -> bool:
    """On a public site, where anybody can make accounts; those of staff never are."""
    if not settings.KBENCH_PUBLIC or payer.account is None or payer.account.is_staff:
        return False
    age = timezone.now() - payer.account.date_joined
    return bool(age < timedelta(hours=settings.KBENCH_NEW_ACCOUNT_HOURS))


def _evaluations(payer: Payer) -> EvaluationQuerySet:
    """0 is nobody's key: of a payer without a row there is nothing."""
    rows: EvaluationQuerySet = Evaluation.objects.filter(submission__payer=payer.pk or 0, reason__in=CHARGED_REASONS)
    return rows


def _digest(address: str) -> str:
    return salted_hmac("benchmarks.quotas.address", address, algorithm="sha256").hexdigest()


def _span(seconds: int) -> str:
    """`90` → `2 minutes`: rounded up, so that the next attempt is not too early."""
    for size_s, word in ((3600, "hour"), (60, "minute")):
        if seconds > size_s:
            count = -(-seconds // size_s)
            return f"{count} {word}s"
    return "a minute"
