"""The requests of people and programs: a submission, a full judging after a quick check, a repeated judging, an audit.

Each writes rows and wakes a worker. Raises Refused for requests that cannot be granted now. Does NOT move an
evaluation on (`judgings/moves.py`).
"""

import uuid
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import cast

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db import IntegrityError, transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from . import quotas
from .boards.reviews import AUDITS
from .boards.standings import AUDITED_PLACES
from .harness import CPU, Source, Verdict, source_key, timing_revision
from .judgings.moves import evaluation_cancel, tell
from .judgings.queue import wake_check, wake_compile, wake_judge, wake_profile
from .models import (
    CodeBlob,
    DeviceKind,
    EmulatorCheck,
    Evaluation,
    Method,
    Payer,
    ProfileRequest,
    RuleSet,
    Standing,
    Submission,
    TaskVersion,
    Team,
)
from .selectors import alive_workers, find_device_kind
from .states import (
    AUDITED,
    BOUNDED,
    FINISHED,
    REPLAYED,
    TIMINGS,
    CheckState,
    EvaluationReason,
    Origin,
    Priority,
    State,
    Switch,
    TaskVersionStatus,
    Visibility,
    WorkerRole,
)
from .submissions import selectors as submission_selectors
from .switches import paused

IDENTICAL = "The same source was submitted before."
_ENDED_EARLY = (State.CANCELLED, State.EXPIRED)
_REPEATED_AFTER, _FAILED_REPEATED_AFTER = timedelta(days=1), timedelta(days=7)
_AUDITS_OF_OURS = (EvaluationReason.AUDIT, EvaluationReason.SITE_AUDIT)
_REJUDGED = Q(reason=EvaluationReason.REJUDGE, priority=Priority.REJUDGE)  # not what an agent run confirms
_OUR_FAULT = Q(verdict__in=[verdict.value for verdict in Verdict if verdict.ours])
LEADERS_AT_ONCE = 4  # of a device kind, that the site has audited, and as many that it judges again


class Refused(Exception):
    """A request that cannot be granted now; the text is for the person."""


class Identical(Exception):
    """The same source was judged or is queued already, in an evaluation that the submitter may read."""

    def __init__(self, evaluation: Evaluation) -> None:
        super().__init__(IDENTICAL)
        self.evaluation = evaluation


def submission_create(  # noqa: PLR0913 - keywords only, one per column of the row
    *,
    version: TaskVersion,
    text: str,
    language: str,
    owner: User | None = None,
    method: Method | None = None,
    device_kind: DeviceKind | None = None,
    visibility: str = Visibility.PUBLIC,
    origin: str = Origin.WEB,
    priority: int = Priority.PERSON,
    title: str = "",
    client_token: str = "",
    payer: Payer | None = None,
    judge_again: bool = True,
    quick: bool = False,
    team: Team | None = None,
) -> Evaluation:
    """Creates a submission and returns its queued evaluation.

    If the owner has used `client_token` before, nothing is created, and the evaluation of that submission is returned.
    `quick` asks for a quick check alone. The owner must belong to `team`. Without a `payer` no quota is charged.

    Raises Refused while submissions are paused and for a task version that is no longer judged, OverQuota, and, unless
    `judge_again` is set, Identical.
    """
    _refuse_if_closed(version)
    kind, key = device_kind or _processor_kind(), source_key(Source(text, language))
    try:
        with transaction.atomic():
            if not judge_again:
                _refuse_identical(version, Source(text, language), owner, kind)
            if payer is not None:
                quotas.take_place(payer, public=visibility == Visibility.PUBLIC and not quick)
            submission = Submission.objects.create(
                task_version=version,
                owner=owner,
                team=team,
                method=method or Method.objects.get(slug="human"),
                blob=_blob(text, language),
                language=language,
                source_key=key,
                visibility=visibility,
                origin=origin,
                title=title,
                licence="" if origin == Origin.EXAMPLE else settings.KBENCH_ENTRY_LICENCE,
                client_token=client_token,
                payer=payer,
            )
            reason = EvaluationReason.QUICK if quick else EvaluationReason.INITIAL
            return evaluation_create(submission, device_kind=kind, priority=priority, reason=reason)
    except (IntegrityError, quotas.OverQuota, Identical):
        earlier = Evaluation.objects.filter(submission__owner=owner, submission__client_token=client_token)
        evaluation = earlier.order_by("queued", "pk").first() if client_token else None
        if evaluation is None:
            raise
        return cast(Evaluation, evaluation)


def evaluation_create(
    submission: Submission,
    *,
    version: TaskVersion | None = None,
    device_kind: DeviceKind | None = None,
    ruleset: RuleSet | None = None,
    reason: str = EvaluationReason.INITIAL,
    priority: int = Priority.PERSON,
    supersedes: Evaluation | None = None,
    compiled: bool = False,
    code: uuid.UUID | None = None,
) -> Evaluation:
    """Queue one judging of `submission`; judging again never edits an earlier evaluation.

    `version` of the task is by default the one that it was submitted for; `code` is drawn if it is not given. With
    `compiled` no compile worker is needed: the judge has the build already, or compiles the source itself.
    """
    with transaction.atomic():
        evaluation = Evaluation.objects.create(
            submission=submission,
            task_version=version or submission.task_version,
            device_kind=device_kind or _processor_kind(),
            ruleset=ruleset or RuleSet.objects.get(name=settings.KBENCH_RULESET),
            reason=reason,
            priority=priority,
            supersedes=supersedes,
            queued=timezone.now(),
            built=timezone.now() if compiled else None,
            code=code or uuid.uuid4(),
        )
        tell(evaluation, queue_changed=True)
        (wake_judge if compiled else wake_compile)(evaluation.device_kind.slug)
    return evaluation


def check_create(
    *, version: TaskVersion, text: str, owner: User | None, payer: Payer | None, client_token: str = ""
) -> EmulatorCheck:
    """A queued check of a CUDA source without a GPU, or the earlier one with the same owner and `client_token`.

    Raises Refused where nothing is accepted now, and OverQuota.
    """
    _refuse_if_closed(version)
    kind = _processor_kind()
    try:
        with transaction.atomic():
            if payer is not None:
                quotas.take_place(payer, public=False)
            columns = {"text": text, "owner": owner, "payer": payer, "client_token": client_token}
            check = EmulatorCheck.objects.create(task_version=version, **columns)
            wake_check(kind.slug)
    except (IntegrityError, quotas.OverQuota):
        earlier = EmulatorCheck.objects.filter(owner=owner, client_token=client_token).first() if client_token else None
        if earlier is None:
            raise
        return earlier
    return check


def profile_request(evaluation: Evaluation, payer: Payer | None) -> ProfileRequest:
    """A queued profile of an evaluated submission on its device kind, or the earlier one if that has not failed.

    Raises Refused if the evaluation cannot be profiled or submissions are closed, and OverQuota.
    """
    earlier = ProfileRequest.objects.filter(evaluation=evaluation).first()
    if earlier is not None and earlier.state != CheckState.FAILED:
        return earlier
    if not is_profilable(evaluation):
        raise Refused("Only a finished evaluation whose source compiled can be profiled.")
    _refuse_if_closed(evaluation.task_version)
    with transaction.atomic():
        if payer is not None:
            quotas.take_place(payer, public=False)
        fresh = {"state": CheckState.QUEUED, "payer": payer, "attempt": 1, "problem": "", "finished": None}
        request, _ = ProfileRequest.objects.update_or_create(evaluation=evaluation, defaults=fresh)
        wake_profile(evaluation.device_kind.slug)
    return request


def is_profilable(evaluation: Evaluation) -> bool:
    """Whether a profile is possible: the source compiled and the kernel ran, with right or wrong results."""
    unprofiled = (Verdict.COMPILE_ERROR, Verdict.REJECTED, Verdict.TAMPERING, Verdict.INTERNAL_ERROR)
    return evaluation.state == State.DONE and evaluation.verdict not in ("", *unprofiled)


def judge_in_full(evaluation: Evaluation, payer: Payer | None) -> Evaluation:
    """The first judging of a submission that had a quick check, as that was; the same one if it is asked for twice.

    The quota is that of who submitted, for whom it is counted, or of `payer`. Raises Refused where it was no quick
    check or submissions are paused, and OverQuota.
    """
    version = evaluation.task_version
    if not evaluation.is_quick:
        raise Refused("It was already judged in full.")
    _refuse_if_closed(version)
    with transaction.atomic():
        paying = evaluation.submission.payer or payer
        if paying is not None:
            quotas.hold(paying)
        submission = Submission.objects.select_for_update(no_key=True).get(pk=evaluation.submission_id)
        known: Evaluation | None = submission.evaluations.full().exclude(state__in=_ENDED_EARLY).first()
        if known is not None:
            return known
        if paying is not None:
            quotas.take_place(paying, public=submission.visibility == Visibility.PUBLIC, of=submission)
        return evaluation_create(submission, version=version, device_kind=evaluation.device_kind)


def is_withdrawable(evaluation: Evaluation) -> bool:
    """Whether its author may cancel it: not if staff or a contest requested the evaluation."""
    return evaluation.reason in quotas.CHARGED_REASONS


def evaluation_withdraw(evaluation: Evaluation, *, by_author: bool) -> bool:
    """Cancel it for its author or for staff. False: it has already ended."""
    why = "Cancelled by its author." if by_author else "Cancelled by staff."
    return evaluation_cancel(evaluation, why, by_author=by_author)


def is_auditable(evaluation: Evaluation) -> bool:
    """Whether it is an accepted evaluation on a GPU with bounded times."""
    return evaluation.verdict == Verdict.PASS and evaluation.timing_trust == BOUNDED


def audit_request(evaluation: Evaluation, *, by_staff: bool) -> Evaluation:
    """Judge the submission again and audit it. An audit requested by staff also closes a review.

    Raises Refused where nothing is to be confirmed or somebody has asked already. If staff do not ask for it, who
    submitted pays, and nothing may be closed: raises OverQuota, and Refused as for a submission.
    """
    if not by_staff:
        _refuse_if_closed(evaluation.task_version)
    if not is_auditable(evaluation):
        raise Refused("Only an accepted GPU evaluation that has not been audited can be audited.")
    reasons = (EvaluationReason.AUDIT,) if by_staff else AUDITS  # an audit of its owner settles nothing
    asked = Evaluation.objects.filter(submission=evaluation.submission, reason__in=reasons)
    if asked.exclude(state__in=FINISHED).exists():
        raise Refused("An audit of this submission is already queued.")
    with transaction.atomic():
        if not by_staff and (payer := quotas.payer_for(evaluation.submission)) is not None:
            quotas.take_place(payer, public=False)
        return evaluation_create(
            evaluation.submission,
            version=evaluation.task_version,
            device_kind=evaluation.device_kind,
            ruleset=evaluation.ruleset,
            reason=EvaluationReason.AUDIT if by_staff else EvaluationReason.VERIFICATION,
            priority=Priority.REJUDGE,
            supersedes=evaluation,
        )


def leaders_audit() -> int:
    """Queue audits of leading entries with a bounded time whose text has none, a few at a time. Returns their number.

    An audit during the first judging is not enough: the entry may have been private then, or others may have stood
    above it. An audit without a verdict about the source is repeated after a day, one whose tool failed after a week.
    """
    return _leaders_queued(_unaudited, EvaluationReason.SITE_AUDIT, Priority.AGENT)


def leaders_rejudge() -> int:
    """Queue entries that the site should judge itself, a few at a time. Returns their number.

    Leading ones that an earlier revision of the judge's timing has timed, and those whose replayed judgings by several
    people are far apart. One that stays so is tried again after a week, one without a verdict of its own after a day.
    """
    return _leaders_queued(_due_again, EvaluationReason.REJUDGE, Priority.REJUDGE)


def _leaders_queued(due: Callable[[], QuerySet[Standing]], reason: EvaluationReason, priority: Priority) -> int:
    """Of each device kind so many that LEADERS_AT_ONCE are unfinished, one of each program. How many that were.

    Without a limit an account could show private entries by turns, each of which leads then, and have all judged.
    """
    asked = Evaluation.objects.filter(reason=reason, priority=priority).exclude(state__in=FINISHED)
    unfinished = Counter(asked.values_list("device_kind", flat=True))
    full = [kind for kind, count in unfinished.items() if count >= LEADERS_AT_ONCE]
    wanted, programs = [], set[tuple[int, int, str]]()
    # Many may share a rank, so the rows themselves are read only of those that are queued.
    figures = ("pk", "device_kind", "task_version", "evaluation__object_key", "evaluation__submission__blob")
    for pk, kind, version, code, text in due().exclude(device_kind__in=full).values_list(*figures):
        program = (kind, version, code or text)
        if unfinished[kind] < LEADERS_AT_ONCE and program not in programs:
            programs.add(program)
            unfinished[kind] += 1
            wanted.append(pk)
    return sum(_leader_queued(pk, due, reason, priority) for pk in wanted)


def _leader_queued(
    pk: int, due: Callable[[], QuerySet[Standing]], reason: EvaluationReason, priority: Priority
) -> bool:
    """Asks again with the row locked, or two housekeepers would queue it twice. False if it is not due any more."""
    try:
        with transaction.atomic():
            Standing.objects.select_for_update().filter(pk=pk).first()
            row = due().filter(pk=pk).first()
            if row is None:
                return False
            evaluation_create(
                row.evaluation.submission,
                version=row.task_version,
                device_kind=row.device_kind,
                ruleset=row.ruleset,
                reason=reason,
                priority=priority,
                supersedes=row.evaluation,
            )
    except IntegrityError:  # the submission has just been deleted
        return False
    return True


def _unaudited() -> QuerySet[Standing]:
    """Leading entries that can be audited now. Their owners can withdraw only audits that they have asked for."""
    failed = Q(verdict=Verdict.PASS, timing_trust=BOUNDED)  # a machine without the tool, for example
    since = Q(timing_revision__gte=OuterRef("evaluation__timing_revision")) | ~Q(verdict=Verdict.PASS)
    done = Q(reason__in=AUDITS, state=State.DONE) & ~_OUR_FAULT & ~failed & since
    now = timezone.now()
    lately = Q(queued__gte=now - _REPEATED_AFTER) | failed & Q(queued__gte=now - _FAILED_REPEATED_AFTER)
    asked = Q(reason__in=_AUDITS_OF_OURS) & (lately | ~Q(state__in=FINISHED))
    audits = _of_same_text().filter(Q(timing_trust=AUDITED) & since | done | asked)
    return _ranked_now().filter(~Exists(audits), rank__lte=AUDITED_PLACES, evaluation__timing_trust=BOUNDED)


def _due_again() -> QuerySet[Standing]:
    """Entries that the site should judge itself, best first, and has not had judged lately.

    Of an earlier timing those that lead, or whose score is that of somebody else's later judging: each holder's own
    submission, one of a text at a time, as it shows other figures. Contested ones: one of a program, wherever it
    stands, since a low judging of somebody else may be why it is there.
    """
    now, revision = timezone.now(), timing_revision("cuda")
    asked = Q(reason__in=_AUDITS_OF_OURS) | _REJUDGED
    recent, unfinished = Q(queued__gte=now - _REPEATED_AFTER), ~Q(state__in=FINISHED)
    again = Q(state=State.DONE) & ~_OUR_FAULT & Q(queued__gte=now - _FAILED_REPEATED_AFTER)
    own = Q(submission=OuterRef("evaluation__submission")) & (again | recent)
    earlier = Q(timing_revision__lt=revision) | Q(evaluation__timing_revision__lt=revision)
    scored_by_others = Q(evaluation__timing_revision__lt=F("timing_revision"))
    places = Q(rank__lte=AUDITED_PLACES) | scored_by_others
    timed = earlier & places & ~Exists(_of_same_text().filter(asked, unfinished | own))
    unknown = again & (~Q(timing_trust=REPLAYED) | Q(timing_revision__lt=revision))  # it has answered nothing
    lately = asked & (unfinished | recent) | _REJUDGED & unknown
    contested = ~Exists(_of_same_text().filter(lately)) & ~Exists(_of_same_object().filter(lately))
    due = timed | Q(is_contested=True) & contested
    return _ranked_now().filter(due, evaluation__timing_trust__in=TIMINGS)


def _of_same_text() -> QuerySet[Evaluation]:
    return _on_same_board().filter(
        submission__blob=OuterRef("evaluation__submission__blob"),
        submission__language=OuterRef("evaluation__submission__language"),
    )


def _of_same_object() -> QuerySet[Evaluation]:
    code = OuterRef("evaluation__object_key")
    known = Q(object_key=code) & ~Q(object_key="")
    asked = Q(object_key="", supersedes__object_key=code) & ~Q(supersedes__object_key="")  # not compiled yet
    return _on_same_board().filter(known | asked)


def _on_same_board() -> QuerySet[Evaluation]:
    return Evaluation.objects.full().filter(
        **{name: OuterRef(name) for name in ("ruleset", "task_version", "device_kind")}
    )


def _ranked_now() -> QuerySet[Standing]:
    """On boards that are judged now, of kinds that have a judge."""
    judges = alive_workers().filter(role=WorkerRole.JUDGE)
    rows = Standing.objects.with_context().select_related("ruleset", "task_version", "device_kind")
    ranked = rows.filter(rank__isnull=False, device_kind__in=judges.values("device_kind"))
    judged_now = ranked.filter(ruleset__name=settings.KBENCH_RULESET, task_version__status=TaskVersionStatus.ACTIVE)
    return judged_now.order_by("rank", "verified_at", "pk")


def _refuse_if_closed(version: TaskVersion) -> None:
    if reason := paused(Switch.SUBMISSIONS):
        raise Refused(reason)
    if version.status != TaskVersionStatus.ACTIVE:
        raise Refused("This version of the task is no longer judged.")


def _processor_kind() -> DeviceKind:
    """The site's CPU kind, on which a submission is judged unless another kind is given."""
    kind = find_device_kind(CPU)
    if kind is None:
        raise Refused("No worker with a CPU has ever reported.")
    return kind


def _refuse_identical(version: TaskVersion, source: Source, owner: User | None, kind: DeviceKind) -> None:
    same = submission_selectors.identical(version, source, owner or AnonymousUser(), kind)
    if same is not None:
        raise Identical(same)


def _blob(text: str, language: str) -> CodeBlob:
    blob, _ = CodeBlob.objects.get_or_create(
        sha256=Source(text, language).sha256,
        defaults={"text": text, "size_bytes": len(text.encode()), "line_count": len(text.splitlines())},
    )
    return blob
