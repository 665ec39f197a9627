"""Template tags of the pages of runs: states, outcomes, currencies, and the run that an evaluation belongs to.

Does NOT format plain numbers: `numbers` does.
"""

import json
from datetime import UTC, datetime
from typing import Any

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from agents.drawing.lineage import mark_of
from agents.evolve.model import SLOW
from agents.evolve.texts import CURRENCY_TITLES, sentence
from agents.models import Candidate, Run, RunEvent
from agents.selectors import CurrencyUse, newest_runs_of
from agents.states import CandidateState, RunStatus
from benchmarks.harness import Verdict
from benchmarks.harness import is_bound as has_bound
from benchmarks.models import Evaluation
from benchmarks.templatetags.kbench import VERDICT_BADGES, Badge

register = template.Library()

STATE_BADGES = {
    RunStatus.WAITING: Badge("Waiting", "live", "clock"),
    RunStatus.RUNNING: Badge("Running", "live", "play"),
    RunStatus.PAUSED: Badge("Paused", "warn", "pause"),
    RunStatus.STOPPING: Badge("Stopping", "warn", "pause"),
    RunStatus.FINISHED: Badge("Finished", "good", "check"),
}
BAD_ENDS = ("error", "failed")
DECISION_BADGES = {
    "accept": Badge("accepts", "good", "check"),
    "reject": Badge("rejects", "bad", "cross"),
    "abstain": Badge("abstains", "", "info"),
}


@register.inclusion_tag("_badge.html")
def run_state(run: Run) -> dict[str, Badge]:
    if run.reason in BAD_ENDS:
        return {"badge": Badge("Failed", "bad", "cross")}
    return {"badge": STATE_BADGES[RunStatus(run.state)]}


@register.inclusion_tag("_badge.html")
def candidate_badge(row: Candidate) -> dict[str, Badge]:
    if row.state == CandidateState.DROPPED:
        return {"badge": Badge(row.drop_reason.replace("_", " "), "warn", "info")}
    if row.state == CandidateState.DONE and row.verdict in list(Verdict):
        return {"badge": VERDICT_BADGES[Verdict(row.verdict)]}
    return {"badge": Badge(row.get_state_display(), "live", "play")}


@register.inclusion_tag("_badge.html")
def decision_badge(decision: str) -> dict[str, Badge]:
    return {"badge": DECISION_BADGES.get(decision, Badge(decision, "", "info"))}


@register.filter
def was_wrong(opinion: Any) -> bool:
    """Whether the judge contradicted the verifier."""
    if opinion.truth in ("", "NOISY", "INTERNAL_ERROR"):
        return False
    passed: bool = opinion.truth == "PASS"
    if opinion.fault == SLOW:
        return passed and opinion.candidate.improved
    return not passed if opinion.decision == "accept" else passed and opinion.decision == "reject"


@register.filter
def is_bound(row: Candidate) -> bool:
    """Whether the lower end of its interval counts, and not its score."""
    return row.score is not None and has_bound(row.timing_trust)


@register.filter
def mark(row: Candidate) -> str:
    return mark_of(row)


@register.filter
def said(event: RunEvent) -> str:
    return sentence(event)


@register.filter
def payload_text(event: RunEvent) -> str:
    """The full payload as readable JSON."""
    return json.dumps(event.payload, indent=1, ensure_ascii=False)


@register.filter
def clock(at_s: float) -> SafeString:
    """The time of day of an event, with the date in the title."""
    moment = datetime.fromtimestamp(at_s, UTC)
    iso = moment.isoformat()
    return format_html('<time datetime="{}" title="{}">{}</time>', iso, iso, f"{moment:%H:%M:%S}")


@register.filter
def elapsed_s(run: Run) -> float:
    """Since a worker first took it, until its end, or the event as of which it is shown."""
    if run.started is None:
        return 0.0
    return ((run.finished or run.as_of or timezone.now()) - run.started).total_seconds()


@register.filter
def currency(purse: CurrencyUse) -> str:
    return CURRENCY_TITLES[purse.name]


@register.simple_tag
def amount(purse: CurrencyUse, value: float | None) -> str:
    """In the unit of the currency."""
    if value is None:
        return "no limit"
    if purse.name == "usd":
        return f"${value:.2f}"
    if purse.name.endswith("_s"):
        return f"{value / 60:.1f} min" if value >= 90 else f"{value:.1f} s"
    return f"{value:,.0f}"


@register.simple_tag
def bar_width(purse: CurrencyUse, *values: float) -> str:
    """How much of a bar of 200 units the values fill together."""
    return f"{min(sum(values) / purse.top, 1.0) * 200:.1f}"


@register.filter
def genes(params: dict[str, Any] | None) -> str:
    return ", ".join(f"{name}={value}" for name, value in (params or {}).items())


@register.simple_tag
def runs_of(person: Any) -> list[Run]:
    """The newest runs that an account has started."""
    return newest_runs_of(person)


@register.simple_tag
def run_behind(evaluation: Evaluation) -> Candidate | None:
    """The candidate that the evaluation judged, or None where no run submitted it."""
    if evaluation.submission.origin != "agent":
        return None
    return Candidate.objects.select_related("run").filter(ticket=str(evaluation.code)).first()
