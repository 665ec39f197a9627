"""The fields of a withheld candidate that everybody may still read.

A candidate is withheld while its submission is private or hidden, if that was deleted, and if staff have withheld it
(`moderation.py`). Then its text is withheld in the same run, and what staff withhold in every run, forks included. The
lists name what stays visible, so a new column or field is withheld until somebody adds it. Output that is made once for
all readers contains only what EVERYBODY may read. Does NOT cover sources and opinions: the page of a candidate leaves
them out itself.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.db.models import Q, QuerySet

from benchmarks.models import Evaluation
from benchmarks.querysets import User
from benchmarks.states import Moderation

from ..models import Candidate, Run, RunEvent

EVERYBODY = AnonymousUser()
TOLD_BY = ("run", "key", "ticket", "source_sha256")  # the columns of a candidate that `hidden_keys` asks for
KEPT_COLUMNS = frozenset(
    (
        *("id", "run", "key", "position", "generation", "slot", "island", "state", "language", "parents"),
        *("source_sha256", "drop_reason", "audited", "ticket", "reused_from", "verdict", "score", "score_lo"),
        *("score_hi", "judgings", "estimates", "vs_eager", "vs_compile", "timing_trust", "configs", "judging_s"),
        *("judged_as", "judged_at_s"),
        *("judged_at_usd", "improved", "archived", "first_seq", "last_seq", "withheld"),
    )
)
_KEPT_OF_PAYLOAD = frozenset(
    (
        *("generation", "slot", "island", "number", "parents", "language", "source_sha256", "key", "ticket"),
        *("reused_from", "result", "reason", "verifier", "version", "decision", "audit", "probability", "seconds"),
        *("cost", "cost_usd", "usd", "lease", "currency", "role", "status", "retry_after_s", "from_island"),
        *("to_island", "by", "configs", "gain"),
    )
)
_KEPT_OF_RESULT = frozenset(
    ("verdict", "score", "ci95", "vs_eager", "vs_compile", "timing_trust", "seconds", "configs")
)
_KEPT_OF_CONFIG = frozenset(
    (
        *("key", "group", "hidden", "correct", "speedup", "ci95", "kernel_us", "eager_us", "compile_us"),
        "roofline_fraction",
    )
)


def hidden_keys(user: User, rows: Sequence[Candidate]) -> set[str]:
    """Of the candidates of one run: the keys of those whose words this reader may not read.

    A duplicate has no submission of its own, so it goes with the candidate whose text it has.
    """
    sources = {row.source_sha256 for row in rows} - {""}
    same = Q(pk__in=[row.pk for row in rows]) | Q(source_sha256__in=sources)
    marked = list(withheld_for(user).filter(same).values_list("pk", "source_sha256"))
    keys, texts = {pk for pk, _ in marked}, {text for _, text in marked}
    tickets = _unreadable_tickets(user, rows, sources)
    texts |= set(tickets.values())
    return {row.key for row in rows if row.ticket in tickets or row.pk in keys or (row.source_sha256 in texts - {""})}


def _unreadable_tickets(user: User, rows: Sequence[Candidate], sources: set[str]) -> Mapping[str, str]:
    """The tickets of these candidates, and of others of their run with the same text, that this reader may not read.

    Each with the hash of its text. Deleted evaluations are among them: their owner has left the site.
    """
    run = rows[0].run_id if rows else None
    if run is None:  # a recorded run, which everybody may read
        return {}
    alike = Candidate.objects.filter(run=run, source_sha256__in=sources).exclude(ticket="")
    told = {row.ticket: row.source_sha256 for row in rows if row.ticket}
    told |= dict(alike.values_list("ticket", "source_sha256"))
    readable = Evaluation.objects.filter(code__in=told).readable_by(user).values_list("code", flat=True)
    known = {str(code) for code in readable}
    return {ticket: text for ticket, text in told.items() if ticket not in known}


def tells_hidden(user: User, run: Run) -> bool:
    """Whether a run holds words that this reader may not read now: of a candidate, or of a kernel that it was told."""
    return bool(hidden_keys(user, list(run.candidates.only(*TOLD_BY)))) or was_told_hidden(user, run.config)


def was_told_hidden(user: User, config: Mapping[str, Any]) -> bool:
    """Whether a run began with a kernel that is hidden, private or deleted by now: its prompts quote it."""
    memory = (config.get("options") or {}).get("memory") or {}
    codes = {item["evaluation"] for item in memory.get("kernels", ()) if item.get("evaluation")}
    if not codes:
        return False
    sources = {item["source_sha256"] for item in memory["kernels"]}
    readable = Evaluation.objects.filter(code__in=codes).readable_by(user).count()
    return readable < len(codes) or withheld_for(user).filter(source_sha256__in=sources).exists()


def withheld_for(user: User) -> QuerySet[Candidate]:
    """What staff have withheld: from everybody but staff and the owner of its run."""
    marked = Candidate.objects.filter(withheld=True)
    if getattr(user, "is_staff", False):
        return marked.none()
    return marked.exclude(run__owner=user.pk) if user.is_authenticated else marked


def readable_events(user: User, rows: Iterable[RunEvent]) -> list[RunEvent]:
    """The same events of one run, without the words that this reader is not told.

    Prompts quote other candidates: parents, further kernels that an edit does not name as parents, and what failed
    last. So they go as soon as one candidate of the run is withheld, and also in a run that was told of a kernel which
    this reader may not read now, or whose task is a request that staff have hidden: they begin with its words.
    """
    events = list(rows)
    if not events or events[0].run_id is None:  # of a recorded run, which everybody may read
        return events
    run = events[0].run_id
    parents = {key for row in events if row.payload.get("prompt") for key in row.payload.get("parents") or ()}
    withheld = _withheld(user, run, parents | {row.candidate for row in events if row.candidate})
    any_marked = withheld_for(user).filter(run=run).exists() or (
        any(row.payload.get("prompt") for row in events)
        and (_is_on_hidden_request(user, run) or was_told_hidden(user, _config_of(run)) or _has_unreadable(user, run))
    )
    for row in events:
        if row.candidate in withheld:
            row.payload = _silent(row.payload)
        elif row.payload.get("prompt") and (any_marked or withheld.intersection(row.payload.get("parents") or ())):
            row.payload = {**row.payload, "prompt": None}
    return events


def readable_candidates(user: User, rows: Sequence[Candidate]) -> list[Candidate]:
    """The same candidates of one run, as it is or as it was, without the words that this reader is not told."""
    if not rows or rows[0].run_id is None:  # of a recorded run, which everybody may read
        return list(rows)
    withheld = _withheld(user, rows[0].run_id, {row.key for row in rows})
    lost = [field for field in Candidate._meta.concrete_fields if field.name not in KEPT_COLUMNS]
    for row in rows:
        if row.key in withheld:
            vars(row).update({field.attname: field.get_default() for field in lost})
            row.configs = _silent_configs(row.configs)
    return list(rows)


def _is_on_hidden_request(user: User, run: int) -> bool:
    if getattr(user, "is_staff", False):
        return False
    return Run.objects.filter(pk=run, task_version__task__request__moderation=Moderation.HIDDEN).exists()


def _has_unreadable(user: User, run: int) -> bool:
    """Whether one of its candidates was judged in what this reader may not read."""
    tickets = set(Candidate.objects.filter(run=run).exclude(ticket="").values_list("ticket", flat=True))
    return Evaluation.objects.filter(code__in=tickets).readable_by(user).count() < len(tickets)


def _config_of(run: int) -> Mapping[str, Any]:
    found: Mapping[str, Any] = Run.objects.values_list("config", flat=True).get(pk=run)
    return found


def _withheld(user: User, run: int, keys: set[str]) -> set[str]:
    """By what the table knows now: in the past of a run a candidate had no submission yet."""
    return hidden_keys(user, list(Candidate.objects.filter(run=run, key__in=keys).only(*TOLD_BY)))


def _silent(payload: Mapping[str, Any]) -> dict[str, Any]:
    kept = _only(payload, _KEPT_OF_PAYLOAD)
    if isinstance(kept.get("result"), Mapping):
        result = _only(kept["result"], _KEPT_OF_RESULT)
        kept["result"] = {**result, "configs": _silent_configs(result.get("configs") or ())}
    return kept


def _silent_configs(configs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [_only(item, _KEPT_OF_CONFIG) for item in configs]


def _only(data: Mapping[str, Any], kept: frozenset[str]) -> dict[str, Any]:
    """Every name with its value, or with an empty one of the same kind."""
    return {name: value if name in kept else _empty(value) for name, value in data.items()}


def _empty(value: Any) -> Any:
    return "" if isinstance(value, str) else [] if isinstance(value, list) else None
