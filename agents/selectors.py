"""The queries of the pages of runs: lists, one run, candidates by page, budgets, opinions for the matrix.

Runs are public. A run that staff have hidden can be read by staff and its owner only and is in no list. Does NOT write
and does NOT draw.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.paginator import Page, Paginator
from django.db.models import Avg, F, OuterRef, Q, QuerySet, Subquery
from django.http import Http404
from django.utils import timezone

from benchmarks.models import DeviceKind, Evaluation, Worker
from benchmarks.querysets import EXAMPLES_WAIT_S, User
from benchmarks.states import WorkerRole

from .evolve.budget import CURRENCIES
from .evolve.model import SLOW
from .evolve.verifiers.matrix import MatrixRow, Rate, rate
from .models import Candidate, Opinion, Run, RunEvent
from .record import kept
from .record.projection import SLOWER
from .record.snapshots import Scene, present
from .states import IN_FLIGHT, CandidateState, RunStatus

PAGE_ROWS = 50
LOG_ROWS = 200
Rows = QuerySet[RunEvent] | list[RunEvent]


# --- runs ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunFilter:
    """The filter of the list; empty means everything."""

    task: str = ""
    state: str = ""
    method: str = ""
    by: str = ""


def runs() -> QuerySet[Run]:
    """For lists: without those that are hidden."""
    return _all_runs().filter(hidden=False)


def _all_runs() -> QuerySet[Run]:
    return Run.objects.select_related(
        "task_version__task__suite", "device_kind", "method", "owner", "forked_from"
    ).defer("task_version__definition", "task_version__reference_source")


def run_rows(chosen: RunFilter, page: int | str = 1) -> Page[Any]:
    rows = _with_intervals(runs())
    if chosen.task:
        rows = rows.filter(Q(task_version__task__op__icontains=chosen.task) | Q(code__startswith=chosen.task))
    if chosen.state:
        rows = rows.filter(state=chosen.state)
    if chosen.method:
        rows = rows.filter(method__slug=chosen.method)
    if chosen.by:
        rows = rows.filter(owner__username=chosen.by)
    return Paginator(rows, PAGE_ROWS).get_page(page)


def _with_intervals(rows: QuerySet[Run]) -> QuerySet[Run]:
    """Those of the best scores, as `score_lo` and `score_hi`."""
    best = Candidate.objects.filter(run=OuterRef("pk"), key=OuterRef("best_key"))
    return rows.annotate(**{name: Subquery(best.values(name)[:1]) for name in ("score_lo", "score_hi")})


def best_candidates(runs: Sequence[Run]) -> dict[int, Candidate]:
    """The best candidate of each run that has one, by the key of the run; one query however many runs there are."""
    best = Candidate.objects.filter(run__in=runs, key=F("run__best_key"))
    return {row.run_id: row for row in best}


def run_methods() -> list[tuple[str, str]]:
    return list(Run.objects.order_by("method__slug").values_list("method__slug", "method__title").distinct())


def newest_runs_of(person: Any, limit: int = 10) -> list[Run]:
    return list(_with_intervals(runs()).filter(owner=person)[:limit])


def has_runs(person: Any) -> bool:
    """Runs are public, with the name of who started them."""
    return Run.objects.filter(owner=person, hidden=False).exists()


def run_of(user: User, code: uuid.UUID) -> Run:
    """The only access to a run of this site."""
    found = _all_runs().filter(code=code).first()
    if found is None or not may_read(user, found):
        raise Http404("There is no such run, or staff have hidden it. The moderation log gives their reasons.")
    return found


def run_shown(user: User, code: uuid.UUID) -> Run:
    """For pages that only show: also a recorded run, which nobody controls. Raises Http404."""
    recorded = None if Run.objects.filter(code=code).exists() else kept.run_with(code)
    return run_of(user, code) if recorded is None else recorded


def may_read(user: User, run: Run) -> bool:
    return not run.hidden or getattr(user, "is_staff", False) or (user.is_authenticated and run.owner_id == user.pk)


def find_run(code: str) -> Run | None:
    """By its code or an unambiguous beginning of it."""
    known = code.replace("-", "")
    if not known or not all(letter in "0123456789abcdefABCDEF" for letter in known):
        return None
    try:
        return runs().filter(code=uuid.UUID(code)).first()
    except ValueError:
        found = list(runs().filter(code__startswith=known.lower())[:2])
        return found[0] if len(found) == 1 else None


def runs_of_task(run: Run) -> list[Run]:
    """The others on the same task and device kind, to compare with."""
    same = runs().filter(task_version=run.task_version_id, device_kind=run.device_kind_id)
    return list(same.exclude(pk=run.pk).exclude(best_score=None)[:20])


def ahead_of(run: Run) -> int:
    """The number of open runs ahead of a waiting one."""
    return Run.objects.filter(state=RunStatus.WAITING, claim=None, pk__lt=run.pk).count()


def is_about_to_want(kind: DeviceKind) -> bool:
    """Whether a run at work, or one that was started a moment ago, will soon have something to judge there."""
    since = timezone.now() - timedelta(seconds=EXAMPLES_WAIT_S)
    soon = Q(state=RunStatus.RUNNING, heartbeat__gte=since) | Q(state=RunStatus.WAITING, created__gte=since)
    return Run.objects.filter(soon, device_kind=kind).exists()


def judges_of(kind: DeviceKind) -> int:
    """The number of workers that judge for the device kind, at least one."""
    since = timezone.now() - timedelta(seconds=settings.KBENCH_HEARTBEAT_TIMEOUT_S)
    return Worker.objects.alive(since).filter(device_kind=kind, role=WorkerRole.JUDGE).count() or 1


# --- candidates ----------------------------------------------------------------------------------------------------

SHOWS = {
    "all": "All",
    "accepted": "Accepted",
    "failed": "Failed",
    "dropped": "Not judged",
    "flying": "In progress",
}


def candidate_rows(scene: Scene, show: str, page: int | str, reason: str = "") -> Page[Any]:
    """Accepted ones best first, everything else newest first."""
    rows = [row for row in scene.rows if _is_shown(row, show)]
    if reason:
        rows = [row for row in rows if reason in (row.verdict, row.drop_reason)]
    rows.sort(key=lambda row: (-(row.counts or 0.0), row.position) if show == "accepted" else (-row.position, 0))
    return Paginator(rows, PAGE_ROWS).get_page(page)


def _is_shown(row: Candidate, show: str) -> bool:
    if show == "accepted":
        return row.score is not None
    if show == "failed":
        return row.state == CandidateState.DONE and row.score is None
    if show == "dropped":
        return row.state == CandidateState.DROPPED
    return row.state in IN_FLIGHT if show == "flying" else True


def candidate_of(run: Run, key: str) -> Candidate:
    found = present(run).by_key.get(key) if run.kept else Candidate.objects.filter(run=run, key=key).first()
    if found is None:
        raise Http404("There is no such candidate.")
    return found


def parents_of(row: Candidate) -> list[Candidate]:
    if row.run.kept:
        return [item for item in present(row.run).rows if item.key in row.parents]
    return list(Candidate.objects.filter(run=row.run, key__in=row.parents))


def evaluations_by_ticket(rows: Sequence[Candidate]) -> dict[str, Evaluation]:
    tickets = [row.ticket for row in rows if row.ticket]
    found = Evaluation.objects.select_related("device_kind").defer("report").filter(code__in=tickets)
    return {str(evaluation.code): evaluation for evaluation in found}


# --- log -----------------------------------------------------------------------------------------------------------


def log_rows(
    run: Run, *, kind: str = "", candidate: str = "", at: int | None = None, oldest_first: bool = False
) -> Rows:
    """Newest first. `kind` is a type or its first word."""
    if run.kept:
        found = [row for row in kept.rows_of(run, at) if candidate in ("", row.candidate) and _is_kind(row, kind)]
        return found if oldest_first else found[::-1]
    rows = RunEvent.objects.filter(run=run).order_by("seq" if oldest_first else "-seq")
    if kind:
        rows = rows.filter(Q(type=kind) | Q(type__startswith=f"{kind}."))
    if candidate:
        rows = rows.filter(candidate=candidate)
    return rows if at is None else rows.filter(seq__lte=at)


def _is_kind(row: RunEvent, kind: str) -> bool:
    return kind in ("", row.type) or row.type.startswith(f"{kind}.")


def log_page(rows: Rows, page: int | str, seq: int | None = None) -> Page[Any]:
    """A page of the log; with `seq` the one on which that event stands."""
    pages = Paginator(rows, LOG_ROWS)
    if seq is not None:
        later = rows.filter(seq__gt=seq).count() if isinstance(rows, QuerySet) else sum(row.seq > seq for row in rows)
        page = later // LOG_ROWS + 1
    return pages.get_page(page)


def log_kinds(run: Run) -> list[str]:
    if run.kept:
        return sorted({row.type for row in kept.rows_of(run)})
    return list(RunEvent.objects.filter(run=run).order_by("type").values_list("type", flat=True).distinct())


# --- budget --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CurrencyUse:
    """One currency of a run; `cap` is None where nothing limits it."""

    name: str
    spent: float
    reserved: float
    cap: float | None

    @property
    def top(self) -> float:
        """The amount represented by a full bar; what has no limit has no bar."""
        return self.cap or 1.0


def purses(run: Run) -> list[CurrencyUse]:
    """The currencies that are limited or in use."""
    reserved = {name: sum(lease.get(name, 0.0) for lease in run.leases.values()) for name in CURRENCIES}
    known = [CurrencyUse(name, run.spent.get(name, 0.0), reserved[name], run.caps.get(name)) for name in CURRENCIES]
    return [purse for purse in known if purse.cap is not None or purse.spent or purse.reserved]


# --- screening ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScreeningSummary:
    """What screening has dropped as slower. `wrong`: of those that were judged all the same, the ones that became the
    best of the run."""

    dropped: int
    audited: int
    wrong: Rate | None


def screening(scene: Scene) -> ScreeningSummary | None:
    """None where nothing was dropped."""
    slow = Opinion.objects.filter(run=scene.run.pk, fault=SLOW, decision="reject")
    audited = slow.filter(audit=True).values_list("candidate__key", flat=True)
    judged = [row for row in (scene.by_key.get(key) for key in audited) if row is not None and row.judged_as]
    dropped = sum(row.drop_reason == SLOWER for row in scene.rows)
    if not dropped and not judged:
        return None
    return ScreeningSummary(dropped, len(judged), rate(sum(row.improved for row in judged), len(judged)))


@dataclass(frozen=True)
class CurriculumSummary:
    """The configuration that counted alone, since which event, and why that ended; empty while it goes on."""

    config: str
    seq: int
    ended: str


def curriculum(scene: Scene) -> CurriculumSummary | None:
    """None where all configurations count from the start."""
    found = log_rows(scene.run, kind="curriculum", at=scene.at or scene.run.last_seq, oldest_first=True)[:2]
    if not found:
        return None
    ended = found[1].payload["text"] if len(found) > 1 else ""
    return CurriculumSummary(found[0].payload["config"], found[0].seq, ended)


# --- confirming ---------------------------------------------------------------------------------------------------


def confirming(scene: Scene) -> list[str]:
    """The candidates that are judged again because the run is about to end; none before."""
    found = log_rows(scene.run, kind="confirming", at=scene.at or scene.run.last_seq)[:1]
    return list(found[0].payload["candidates"]) if found else []


# --- verifiers -----------------------------------------------------------------------------------------------------


def matrix_rows(run: Run | None = None) -> list[MatrixRow]:
    """One per opinion, oldest first, of one run or of all.

    What was not judged would have taken as long as the mean of its run.
    """
    opinions = Opinion.objects.all() if run is None else Opinion.objects.filter(run=run)
    withheld = Candidate.objects.filter(withheld=True)
    texts = withheld.exclude(source_sha256="").values("source_sha256")
    opinions = opinions.exclude(run__hidden=True).exclude(candidate__in=withheld)
    opinions = opinions.exclude(candidate__source_sha256__in=texts)
    opinions = opinions.exclude(fault=SLOW)  # says that it is slower, not that it is wrong
    means = dict(
        Candidate.objects.exclude(judging_s=None).order_by().values_list("run").annotate(mean=Avg("judging_s"))
    )
    values = opinions.order_by("pk").values_list(
        *("verifier", "version", "fault", "decision", "truth", "seconds", "cost_usd"),
        *("candidate__judging_s", "run", "run__code"),
    )
    return [
        MatrixRow(
            verifier, version, fault, decision, truth or None, seconds, usd, judging_s or means.get(pk, 0.0), str(code)
        )
        for verifier, version, fault, decision, truth, seconds, usd, judging_s, pk, code in values
    ]
