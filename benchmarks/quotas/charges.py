"""The ledger: the seconds of building and on a device that an evaluation is charged, refunds, and what requests pay.

Does NOT decide what may be submitted (`metering.py`).
"""

from collections.abc import Callable
from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.core.paginator import Page
from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from ..harness import Verdict
from ..models import Evaluation, KernelRequest, LedgerEntry, Submission
from ..querysets import HEAVY
from ..selectors import page_by_key
from ..states import EvaluationReason, LedgerKind, Moderation, RequestState, State

DAY = timedelta(hours=24)
LEDGER_ROWS = 50
CHARGED_REASONS = (  # what the owner asked for
    EvaluationReason.INITIAL,
    EvaluationReason.QUICK,
    EvaluationReason.VERIFICATION,
)
LEAST_S = 1.0  # that every judging, check and profile is charged: each leaves rows, however soon it ends
NOT_ON_DEVICE = ("static", "compile")
BUILDING = "compile"
OURS = [verdict.value for verdict in Verdict if verdict.ours]


def ledger(account: User, page: int | str = 1) -> Page[LedgerEntry]:
    """The lines of an account, newest first."""
    rows = LedgerEntry.objects.select_related("evaluation__submission", "evaluation__task_version__task__suite")
    rows = rows.defer("evaluation__report", *(f"evaluation__{name}" for name in HEAVY))
    return page_by_key(LedgerEntry.objects.filter(payer__account=account), rows, page, LEDGER_ROWS)


def settle(evaluation: Evaluation) -> None:
    """Charge an evaluation that has ended for its seconds of building and on a device, once.

    What was our own fault is given back a few times a day: who finds out how to provoke it shall not judge for nothing.
    """
    payer_id, used_s = evaluation.submission.payer_id, _build_s(evaluation) + _judging_s(evaluation)
    if evaluation.report:
        used_s = max(used_s, LEAST_S)
    if payer_id is None or used_s <= 0 or evaluation.reason not in CHARGED_REASONS:
        return
    what = f"{evaluation.task_version.task.name} on {evaluation.device_kind.slug}"
    ended = evaluation.verdict or evaluation.get_state_display().lower()
    ours = evaluation.verdict in OURS or evaluation.state == State.EXPIRED
    refunded = ours and has_refunds_left(payer_id)
    full = f"; {settings.KBENCH_REFUNDS_PER_DAY} were refunded within 24 hours" if ours and not refunded else ""
    _write(evaluation, LedgerKind.CHARGE, used_s, f"{what}: {ended}{full}")
    if refunded:
        refund(evaluation, f"{what}: {ended} is our own fault")
    elif evaluation.verdict == Verdict.PASS and evaluation.reason == EvaluationReason.INITIAL:
        _pay_from_request(evaluation, used_s, what)


def refund(evaluation: Evaluation, text: str) -> bool:
    """Give back the whole charge of an evaluation. False: nothing was charged, or it was given back before."""
    charge = LedgerEntry.objects.filter(evaluation=evaluation, kind=LedgerKind.CHARGE).first()
    return charge is not None and _write(evaluation, LedgerKind.REFUND, charge.judging_s, text)


def _pay_from_request(evaluation: Evaluation, used_s: float, what: str) -> None:
    """Give an account back what a verified answer to somebody else's request has cost, while the offer covers it.

    An answer is public, and each program is paid once, whoever submits it and also after it was deleted: otherwise an
    offer could be used up without an answer.
    """
    submission = evaluation.submission
    account = submission.payer.account_id if submission.payer else None
    public = Submission.objects.published().filter(pk=submission.pk)
    if account is None or not public.exists():
        return
    with transaction.atomic():
        offers = KernelRequest.objects.select_for_update(of=("self",)).exclude(owner=account)
        opened = offers.filter(state=RequestState.OPEN, moderation=Moderation.OK, worth_left_s__gte=used_s)
        request = opened.filter(task=evaluation.task_version.task_id).only("paid").first()
        keys = [key for key in (submission.source_key, evaluation.object_key) if key]
        if request is None or any(key in request.paid for key in keys):
            return
        columns = {"worth_left_s": F("worth_left_s") - used_s, "paid": [*request.paid, *keys]}
        KernelRequest.objects.filter(pk=request.pk).update(**columns)
        _write(evaluation, LedgerKind.GRANT, used_s, f"{what}: paid by the request for it")


def paid_answers() -> QuerySet[Submission]:
    """What requests have paid for; it stays public."""
    paid = LedgerEntry.objects.filter(kind=LedgerKind.GRANT, evaluation__isnull=False)
    return Submission.objects.filter(evaluations__in=paid.values("evaluation"))


def _write(evaluation: Evaluation, kind: LedgerKind, judging_s: float, text: str) -> bool:
    """Whether the line is new: the constraint of the table lets each kind in once."""
    columns = {"payer_id": evaluation.submission.payer_id, "judging_s": judging_s, "text": text[:500]}
    return LedgerEntry.objects.get_or_create(evaluation=evaluation, kind=kind, defaults=columns)[1]


def _build_s(evaluation: Evaluation) -> float:
    """Seconds of compiling, none where an earlier build was found; of a failure at least what its report tells."""
    if evaluation.build_s is not None:
        return float(evaluation.build_s)
    failed = evaluation.verdict == Verdict.COMPILE_ERROR
    return _stages_s(evaluation, lambda name: name == BUILDING) if failed else 0.0


def _judging_s(evaluation: Evaluation) -> float:
    """Seconds on a device: measured stages, or for how long a worker had it that was not allowed to finish."""
    if evaluation.report:
        return _stages_s(evaluation, lambda name: name not in NOT_ON_DEVICE)
    if evaluation.state != State.CANCELLED or not (evaluation.claimed and evaluation.finished):
        return 0.0
    return float((evaluation.finished - evaluation.claimed).total_seconds())


def _stages_s(evaluation: Evaluation, wanted: Callable[[str], bool]) -> float:
    stages = (evaluation.report or {}).get("stages", [])
    return float(sum(stage["seconds"] for stage in stages if wanted(stage["name"])))


def has_refunds_left(payer_id: int | None) -> bool:
    """Whether one more judging or profile of the last 24 hours may cost nothing."""
    since = timezone.now() - DAY
    recent = LedgerEntry.objects.filter(payer=payer_id, kind=LedgerKind.REFUND, created__gte=since)
    return bool(recent.count() < settings.KBENCH_REFUNDS_PER_DAY)
