"""The queries of the leaderboard pages: one board with filters, its records, the list of boards.

A filter hides entries and does not change ranks: a rank is always that of the whole board. What takes long to find is
kept until something on the board may have changed. Does NOT rank and does NOT compare methods over many tasks
(`overview.py`).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from django.conf import settings
from django.core.cache import caches
from django.core.paginator import Page, Paginator
from django.db.models import (
    Avg,
    Case,
    Count,
    F,
    Max,
    Min,
    OuterRef,
    Q,
    RowRange,
    Subquery,
    Sum,
    TextField,
    Value,
    When,
    Window,
)
from django.db.models.functions import Cast, Coalesce, Concat, Exp, Ln, Power
from django.http import Http404
from django.shortcuts import get_object_or_404

from ..harness import CPU, LANGUAGES, Verdict, timing_revision
from ..models import (
    BaselineResult,
    ConfigResult,
    DeletedScore,
    DeviceKind,
    Evaluation,
    Refusal,
    RuleSet,
    Standing,
    Submission,
    TaskVersion,
)
from ..querysets import counted
from ..selectors import PAGE_ROWS, find_device_kind, page_by_key, page_of_keys, visible_standings
from ..states import TIMINGS, MethodKind, Moderation, TaskVersionStatus, Visibility
from .accuracy import largest_share
from .confirmations import no_open_gate
from .contradictions import APART, is_contested
from .labels import is_ranked
from .orders import BY_RANK, in_order
from .reviews import pooled_judgings, review_reason
from .same_code import all_boards_of, own_names_of_many, owner_of
from .settled import Programs, SameCode
from .tradeoffs import mean_energy

RECORDS_MAX = 100
ROUNDS_MAX = 30  # of looking for records again without those that were refused
REVIEWS_MAX = 50
KEPT_S = 300
AUTHOR_MAX_CHARS = 150
# Keys of a program: the column of a judging, and of what is remembered of a deleted one.
_KEYS = {
    "text": ("submission__blob", "source_sha256"),
    "tokens": ("submission__source_key", "source_key"),
    "object": ("object_key", "object_key"),
}


@dataclass(frozen=True)
class BoardKey:
    """Which leaderboard: one task version on one device kind under one rule set."""

    version: TaskVersion
    device: DeviceKind
    ruleset: RuleSet


@dataclass(frozen=True)
class EntryFilter:
    """Which entries are shown; empty means all. `calls` is `without` or `with` calls of a library."""

    kind: str = ""
    language: str = ""
    calls: str = ""
    timing: str = ""  # one of TIMINGS
    author: str = ""  # the name of an account

    @classmethod
    def of(cls, kind: str, language: str, calls: str, timing: str, author: str) -> "EntryFilter":
        """An unknown choice counts as none; an unknown author has no entries."""
        return cls(
            kind=kind if kind in MethodKind.values else "",
            language=language if language in LANGUAGES else "",
            calls=calls if calls in ("without", "with") else "",
            timing=timing if timing in TIMINGS else "",
            author=author.strip()[:AUTHOR_MAX_CHARS] if author.isprintable() else "",
        )

    @property
    def is_active(self) -> bool:
        return bool(self.kind or self.language or self.calls or self.timing or self.author)


EVERYTHING = EntryFilter()


def board_key(version: TaskVersion, device: str, ruleset: str = "") -> BoardKey:
    """Raises Http404."""
    kind = find_device_kind(device)
    if kind is None:
        raise Http404(f"There is no device kind {device}.")
    return BoardKey(version, kind, get_object_or_404(RuleSet, name=ruleset or settings.KBENCH_RULESET))


def kept(key: BoardKey, what: str, read: Callable[[], Iterable[int]]) -> list[int]:
    """What `read` gives, from the last time that it was read if nothing on the board may have changed since.

    The mark has been read with the version, so it is never younger than what is kept under it. Only keys of rows are
    kept, the same for every reader: whoever shows the rows reads them anew, and asks whether everybody may see them.
    What the mark does not tell, such as the kind that staff give to a method, is seen after `KEPT_S`.
    """
    name = f"board:{key.version.pk}:{key.version.boards_mark}:{key.device.pk}:{key.ruleset.pk}:{what}"
    found: list[int] | None = caches["boards"].get(name)
    if found is None:
        found = list(read())
        caches["boards"].set(name, found, KEPT_S)
    return found


def board_rows(
    key: BoardKey,
    page: int | str = 1,
    chosen: EntryFilter = EVERYTHING,
    rows_per_page: int = PAGE_ROWS,
    sort: str = BY_RANK,
) -> Page[Any]:
    """Ranked standings with `ties` (how many share the rank) and `figures` of their configurations.

    What has lost its rank between two queries of this is left out.
    """
    ordered = in_order(_narrowed(_entries(key), chosen), key, sort).values_list("pk", flat=True)
    shown = Standing.objects.ranked().listable().with_context()
    if chosen.author or (sort, chosen) == (BY_RANK, EVERYTHING):
        # Of one account there are few, and its name may change; ranks are in order in an index.
        rows = page_by_key(ordered, shown, page, rows_per_page)
    else:
        keys = kept(key, ":".join((sort, *astuple(chosen))), lambda: ordered)
        rows = page_of_keys(keys, shown, page, rows_per_page)
    _attach_group_sizes(key, list(rows))
    _attach_config_figures(key, list(rows))
    return rows


def _entries(key: BoardKey) -> Any:
    """By the ranks alone, which an index holds: whatever may not be listed has been taken off its board."""
    return Standing.objects.board(key.ruleset, key.version, key.device).filter(rank__isnull=False)


def is_old(key: BoardKey) -> bool:
    """Of an earlier version of the task, or under an earlier rule set."""
    return key.version.status != TaskVersionStatus.ACTIVE or key.ruleset.name != settings.KBENCH_RULESET


def leader(key: BoardKey) -> Standing | None:
    found: Standing | None = _board(key).ranked().with_context().as_listed().first()
    return found


def board_under_review(key: BoardKey) -> list[Standing]:
    return list(_board(key).filter(under_review=True).with_context().order_by("-verified_at")[:REVIEWS_MAX])


def count_under_review(key: BoardKey, newest: list[Standing]) -> int:
    """How many there are, of which `newest` are the first."""
    return len(newest) if len(newest) < REVIEWS_MAX else _board(key).filter(under_review=True).count()


def board_baselines(key: BoardKey) -> list[BaselineResult]:
    """Of the configurations that count for the score."""
    rows = BaselineResult.objects.filter(task_version=key.version, device_kind=key.device)
    return list(rows.exclude(group="hidden"))


def board_records(key: BoardKey) -> list[Evaluation]:
    """The judgings that were the best of their board when they ended, oldest first, of late ones the last hundred.

    Best is of what most counts for a rank; each has its own score, not pooled with later judgings. What is under review
    or invalidated now never counts, nor what was refused at another time: that has no row on the board where its holder
    has a sound entry. Where nothing is ranked there is no record.
    """
    keys = kept(key, "records", lambda: [record.pk for record in _records(key)])
    shown = {"submission__visibility": Visibility.PUBLIC, "submission__moderation": Moderation.OK}
    return list(Evaluation.objects.with_holder().filter(pk__in=keys, **shown).order_by("finished", "pk"))


def _records(key: BoardKey) -> list[Evaluation]:
    if not is_ranked(key.version.task.labels):
        return []
    doubted: set[int] = set()
    sound: set[int] = set()  # of these it has been asked in an earlier round
    for number in range(ROUNDS_MAX):
        records = _best_so_far(key, doubted)
        asked = {record.pk: record for record in records if record.pk not in sound}
        if number:  # in case that many stand in front of each other
            asked |= {item.pk: item for item in _highest(key, doubted, sound, 2 ** min(number, 10))}
        found = _in_question(key, [*asked.values()])
        doubted |= found
        sound |= asked.keys()
        if found.isdisjoint(record.submission_id for record in records):
            break
    return _without_repeats([record for record in records if record.submission_id not in doubted])


def _best_so_far(key: BoardKey, doubted: set[int]) -> list[Evaluation]:
    counts, sound = _counts(key), _sound(key, doubted)
    earlier = Window(Max(counts), order_by=[F("finished"), F("pk")], frame=RowRange(start=None, end=-1))
    found = sound.annotate(counts=counts, earlier=earlier)
    records = found.filter(Q(earlier=None) | Q(counts__gt=F("earlier")))
    latest = list(records.order_by("-finished", "-pk").values_list("pk", flat=True)[:RECORDS_MAX])
    return list(Evaluation.objects.with_holder().filter(pk__in=latest).order_by("finished", "pk"))


def _highest(key: BoardKey, doubted: set[int], known: set[int], most: int) -> list[Evaluation]:
    """What counts most of those that nothing is known of yet."""
    best = _sound(key, doubted).exclude(pk__in=known).order_by(_counts(key).desc(), "finished", "pk")
    return list(Evaluation.objects.with_holder().filter(pk__in=list(best.values_list("pk", flat=True)[:most])))


def _counts(key: BoardKey) -> Any:
    return F("score") if key.device.device_class == CPU else counted()  # on a processor an index holds it


def _sound(key: BoardKey, doubted: set[int]) -> Any:
    """What may be a record, but for those in question."""
    sound = Evaluation.objects.scored_on(key).filter(no_open_gate()).exclude(submission__in=doubted)
    if key.device.device_class != CPU:
        sound = sound.annotate(**{f"own_{name}": _owned(column) for name, (column, _) in _KEYS.items()})
        sound = sound.exclude(_is_timed_again(key))
    for taken_off in (Submission.objects.moderated(), Submission.objects.not_public()):  # short: an index holds them
        sound = sound.exclude(submission__in=taken_off.order_by().values("pk"))
    return sound


def _is_timed_again(key: BoardKey) -> Q:
    """Whether the latest revision of the timing has scored it, or its owner's same code, with times as well known.

    What others submit of the same code takes no record away.
    """
    latest, found = timing_revision("cuda"), Q()
    scored = Evaluation.objects.scored_on(key).filter(timing_revision__gte=latest).order_by()
    board = {"task_version": key.version, "device_kind": key.device, "ruleset": key.ruleset}
    deleted = DeletedScore.objects.filter(timing_revision__gte=latest, **board).order_by()
    for trust in TIMINGS:
        as_well = {"timing_trust__in": TIMINGS[: TIMINGS.index(trust) + 1]}
        again = Q(submission__in=scored.filter(**as_well).values("submission"))
        for name, (column, gone) in _KEYS.items():
            own = scored.filter(**as_well).annotate(own=_owned(column)).exclude(own="").values("own")
            owned_gone = _owned(gone, "owner", "former_owner")
            own_gone = deleted.filter(**as_well).annotate(own=owned_gone).exclude(own="").values("own")
            again |= Q(**{f"own_{name}__in": own}) | Q(**{f"own_{name}__in": own_gone})
        found |= again & Q(timing_trust=trust, timing_revision__lt=latest)
    return found


def _owned(column: str, *owners: str) -> Any:
    """A key and whose it is, as one value; empty if one is not known. Lists of these can be searched by hash."""
    person: list[Any] = [
        Cast(F(name), TextField()) for name in owners or ("submission__owner", "submission__former_owner")
    ]
    if not owners:  # of what never had an account
        parts_of_text = Cast(F("submission__blob"), TextField()), Cast(F("submission__method"), TextField())
        person.append(Concat(*parts_of_text, output_field=TextField()))
    parts = (Coalesce(*person), Value(" "), Cast(F(column), TextField()))
    is_known = ~Q(**{column: ""}) & (~Q(**dict.fromkeys(owners)) if owners else Q())
    known = When(is_known, then=Concat(*parts, output_field=TextField()))
    return Case(known, default=Value(""), output_field=TextField())


def _in_question(key: BoardKey, records: list[Evaluation]) -> set[int]:
    """The submissions of those that would be contested or under review, had they a row of their own on the board.

    Only those are asked about whose text, tokens or compiled code were refused or held back there at any time, or have
    scores that may contradict each other.
    """
    if not records:
        return set()
    board = {"task_version": key.version, "device_kind": key.device, "ruleset": key.ruleset}
    named = own_names_of_many(records, all_boards_of(key.version.pk))  # on which decisions of staff count
    names = {kind: {name for its in named.values() for its_kind, name in its if its_kind == kind} for kind in _KEYS}
    texts, tokens, objects = names["text"], names["tokens"], names["object"]
    doubtful = (Q(gated=True) | ~Q(verdict__in=(Verdict.PASS, ""))) & Q(**board)
    by_staff = ~Q(submission__moderation=Moderation.OK) & Q(task_version__task=key.version.task_id)  # on all its boards
    held = Evaluation.objects.filter(doubtful | by_staff)
    alike = Submission.objects.filter(Q(blob__in=texts) | Q(source_key__in=tokens)).order_by().values("pk")
    like = Q(source_sha256__in=texts) | Q(object_key__in=objects) | Q(source_key__in=tokens)
    gone = Refusal.objects.filter(like).filter(Q(**board) | Q(verdict="", task_version__task=key.version.task_id))
    doubts = {
        name
        for names in (
            *held.filter(submission__in=alike).values_list("submission__blob", "submission__source_key"),
            *held.filter(object_key__in=objects).values_list("object_key"),
            *gone.values_list("source_sha256", "object_key", "source_key"),
        )
        for name in names
    }
    if key.device.device_class != CPU:
        scored = Evaluation.objects.filter(Q(submission__in=alike) | Q(object_key__in=objects), **board)
        deleted = DeletedScore.objects.filter(like, **board)
        figures = ("timing_trust", "score", "score_hi")
        doubts |= _far_apart(
            *scored.exclude(score=None).values_list(
                *figures, "submission__blob", "submission__source_key", "object_key"
            ),
            *deleted.values_list(*figures, "source_sha256", "source_key", "object_key"),
        )
    asked = [record for record in records if doubts.intersection(name for _, name in named[record.pk])]
    found, programs = set[int](), Programs()
    for record in asked:
        if record.submission_id not in found:
            found |= _questioned_with(record, programs.same_code(record))
    return found


def _questioned_with(record: Evaluation, same_code: SameCode) -> set[int]:
    """If it is in question, it and its owner's other submissions of the code: or each would have to be asked about."""
    counting = [*pooled_judgings(record, same_code), record]
    if not review_reason(record, same_code) and not is_contested(same_code, counting, APART):
        return set()
    own = {item.submission_id for item in same_code.judgings if owner_of(item) == owner_of(record)}
    return own | {record.submission_id}


def _far_apart(*judgings: Sequence[Any]) -> set[str]:
    """Names of programs whose judgings may contradict each other. Each tells trust, score, upper end and its names."""
    trusts, tops, bottoms = defaultdict[str, set[str]](set), defaultdict[str, float](float), dict[str, float]()
    for trust, score, most, *names in judgings:
        for name in names:
            trusts[name].add(trust)
            tops[name] = max(tops[name], score**2 / most)
            bottoms[name] = min(bottoms.get(name, most), most)
    return {name for name in trusts if len(trusts[name]) > 1 or bottoms[name] * APART < tops[name]}


def _without_repeats(records: list[Evaluation]) -> list[Evaluation]:
    """The same submission judged again a little faster has broken no record but its own."""
    kept: list[Evaluation] = []
    for record in records:
        if not kept or kept[-1].submission_id != record.submission_id:
            kept.append(record)
    return kept


def _board(key: BoardKey) -> Any:
    return Standing.objects.board(key.ruleset, key.version, key.device).listable()


def _narrowed(rows: Any, chosen: EntryFilter) -> Any:
    exact = {
        "evaluation__submission__method__kind": chosen.kind,
        "evaluation__submission__language": chosen.language,
        "evaluation__timing_trust": chosen.timing,
        "evaluation__submission__owner__username": chosen.author,
    }
    rows = rows.filter(**{name: value for name, value in exact.items() if value})
    return rows.filter(evaluation__calls_library=chosen.calls == "with") if chosen.calls else rows


def _attach_group_sizes(key: BoardKey, rows: list[Any]) -> None:
    ranks = {row.rank for row in rows}
    size_of = dict(_entries(key).filter(rank__in=ranks).order_by().values_list("rank").annotate(n=Count("pk")))
    for row in rows:
        row.ties = size_of.get(row.rank, 1)  # none: ranked anew since it was read


def _attach_config_figures(key: BoardKey, rows: list[Any]) -> None:
    figures = (
        ConfigResult.objects.filter(evaluation__in=[row.evaluation_id for row in rows])
        .order_by()
        .values("evaluation")
        .annotate(
            worst=Min("speedup"),
            floor=Min("roofline_fraction"),
            roof=Max("roofline_fraction"),
            time_us=Exp(Avg(Ln("kernel_us"))),
            mean_mj=Exp(Avg(Ln("energy_mj"))),
            energies=Count("energy_mj"),
            without_energy=Count("pk", filter=Q(kernel_us__isnull=False, energy_mj=None)),
            spread=Sum(Power(Ln(F("energy_hi_mj") / F("energy_lo_mj")), 2)),
            of_tolerance=largest_share(key.version.definition, key.device.device_class),
        )
    )
    by_evaluation = {item["evaluation"]: {**item, "energy": mean_energy(item)} for item in figures}
    for row in rows:
        row.figures = by_evaluation.get(row.evaluation_id, {})


# --- all boards ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BoardSummary:
    """One line of the list of leaderboards."""

    version: TaskVersion
    device: DeviceKind
    entries: int
    leader: Standing | None


def board_summaries(device: DeviceKind, page: int | str = 1) -> tuple[Page[Any], list[BoardSummary]]:
    """A page of versions, one board per listed task that has configurations for the device kind, and their lines."""
    shown = visible_standings(device.slug).order_by()
    versions = (
        TaskVersion.objects.filter(status=TaskVersionStatus.ACTIVE, task__listed=True)
        .filter(definition__devices__has_key=device.device_class)
        .select_related("task__suite")
        .defer("definition", "reference_source")
        .order_by("task__suite__slug", "task__op", "-task__direction")
    )
    rows = Paginator(versions, PAGE_ROWS).get_page(page)
    entries = dict(shown.filter(task_version__in=[*rows]).values_list("task_version").annotate(n=Count("pk")))
    leaders = _leaders([*rows], shown)
    return rows, [
        BoardSummary(version, device, entries.get(version.pk, 0), leaders.get(version.pk)) for version in rows
    ]


def _leaders(versions: Sequence[TaskVersion], shown: Any) -> dict[int, Standing]:
    """The first entry of the board of each version."""
    first = shown.filter(task_version=OuterRef("pk")).as_listed().values("pk")[:1]
    marked = TaskVersion.objects.filter(pk__in=[version.pk for version in versions]).annotate(first=Subquery(first))
    standings = dict(marked.exclude(first=None).values_list("first", "pk"))
    found = Standing.objects.with_context().filter(pk__in=list(standings))
    return {standings[row.pk]: row for row in found}
