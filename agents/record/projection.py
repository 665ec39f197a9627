"""Computes what pages read of a run from its log: figures of the run, candidates, opinions.

The same code updates the tables as the log grows (`log.py`) and rebuilds a page as of an earlier event
(`snapshots.py`). Does NOT query or save anything: the caller supplies the rows that the events name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from benchmarks.harness import SpeedupEstimate, is_bound, pooled

from ..evolve.events import LogEvent
from ..evolve.model import OURS, PASS, SLOW, best_of
from ..models import Candidate, Opinion, Run
from ..states import CandidateState, RunStatus

Payload = Mapping[str, Any]
SLOWER = "screened: slower"
KEPT_TEXT = 4000  # characters of a reason or a thought that rows keep; the log has all of it


@dataclass
class Picture:
    """A run as of one event. `touched` names the candidates that changed."""

    run: Run
    candidates: dict[str, Candidate] = field(default_factory=dict)
    opinions: dict[str, list[Opinion]] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)

    def apply(self, event: LogEvent) -> None:
        self.run.last_seq, self.run.as_of = event.seq, _moment(event)
        handler = HANDLERS.get(event.type)
        if handler is not None:
            handler(self, event)

    def candidate(self, event: LogEvent) -> Candidate:
        """The row that the event is about, made when it is named first."""
        key = event.candidate or ""
        found = self.candidates.get(key)
        if found is None:
            self.run.candidate_count += 1
            found = Candidate(run=self.run, key=key, position=self.run.candidate_count, first_seq=event.seq)
            self.candidates[key] = found
        found.last_seq = event.seq
        self.touched.add(key)
        return found


def keys_of(run: Run, events: list[LogEvent]) -> set[str]:
    """The candidates that the events are about, and the best of the run, with which they are compared."""
    return {run.best_key, *(event.candidate for event in events if event.candidate)} - {""}


def _created(picture: Picture, event: LogEvent) -> None:
    picture.run.config = dict(event.payload.get("config", {}))


def _running(picture: Picture, event: LogEvent) -> None:
    run = picture.run
    run.started = run.started or _moment(event)
    run.state, run.reason_text = RunStatus.RUNNING, ""


def _paused(picture: Picture, event: LogEvent) -> None:
    picture.run.state, picture.run.reason_text = RunStatus.PAUSED, event.payload.get("text", "")


def _stopping(picture: Picture, event: LogEvent) -> None:
    picture.run.state = RunStatus.STOPPING


def _finished(picture: Picture, event: LogEvent) -> None:
    run = picture.run
    run.state, run.finished = RunStatus.FINISHED, _moment(event)
    run.reason, run.reason_text = event.payload["reason"], event.payload.get("text", "")
    run.claim = None


def _generation(picture: Picture, event: LogEvent) -> None:
    picture.run.generation = event.payload["number"]


def _requested(picture: Picture, event: LogEvent) -> None:
    row = picture.candidate(event)
    row.state = CandidateState.PROPOSING
    _place(row, event.payload)
    row.hint = str(event.payload.get("hint") or "")[:300]
    row.probabilities = event.payload.get("probabilities") or {}


def _tool(picture: Picture, event: LogEvent) -> None:
    """The step of an agent that works on its proposal."""
    picture.candidate(event).hint = f"turn {event.payload['turn']}: {event.payload['tool']}"[:300]


def _received(picture: Picture, event: LogEvent) -> None:
    row, payload = picture.candidate(event), event.payload
    row.state, row.hint = CandidateState.VERIFYING, ""
    _place(row, payload)
    row.source_sha256, row.language = payload["source_sha256"], payload.get("language") or ""
    row.name, row.thought = (payload.get("name") or "")[:200], (payload.get("thought") or "")[:KEPT_TEXT]
    row.template, row.params = payload.get("template") or "", payload.get("params")


def _place(row: Candidate, payload: Payload) -> None:
    """The position and origin of a candidate, as given by the event."""
    for name in ("generation", "slot", "island"):
        setattr(row, name, payload.get(name) or 0)
    row.operator = payload.get("operator") or row.operator
    row.arm = payload.get("arm") or row.arm
    row.parents = list(payload.get("parents") or row.parents)


def _rejected(picture: Picture, event: LogEvent) -> None:
    row = picture.candidate(event)
    row.generation, row.slot = event.payload.get("generation", row.generation), event.payload.get("slot", row.slot)
    _drop(row, event.payload["reason"], event.payload.get("text", ""))


def _verdict(picture: Picture, event: LogEvent) -> None:
    row, payload = picture.candidate(event), event.payload
    said = Opinion(
        run=picture.run,
        candidate=row,
        verifier=payload["verifier"],
        version=payload.get("version", ""),
        decision=payload["decision"],
        fault=payload.get("fault") or "",
        probability=payload.get("probability"),
        reasons=list(payload.get("reasons") or []),
        seconds=payload.get("seconds") or 0.0,
        cost_usd=(payload.get("cost") or {}).get("usd", 0.0),
        audit=bool(payload.get("audit")),
    )
    picture.opinions.setdefault(row.key, []).append(said)
    row.audited = row.audited or said.audit
    if said.decision == "reject" and not said.audit:
        _drop(row, SLOWER if said.fault == SLOW else f"verifier {said.verifier}", _sentence(said))


def _sentence(said: Opinion) -> str:
    texts = [reason["text"] if isinstance(reason, dict) else str(reason) for reason in said.reasons]
    return " ".join(texts) or said.fault


def _drop(row: Candidate, reason: str, text: str) -> None:
    row.state = CandidateState.DROPPED
    row.drop_reason, row.drop_text = reason[:40], text[:KEPT_TEXT]


def _submitted(picture: Picture, event: LogEvent) -> None:
    row = picture.candidate(event)
    row.state, row.ticket = CandidateState.QUEUED, str(event.payload.get("ticket") or "")
    row.drop_reason = row.drop_text = ""


def _judged(picture: Picture, event: LogEvent) -> None:
    row, run = picture.candidate(event), picture.run
    payload = event.payload["result"]
    row.reused_from = event.payload.get("reused_from") or ""
    run.judged_count += 1
    row.state, row.judged_as, row.judged_at_s = CandidateState.DONE, run.judged_count, event.at_s
    row.verdict, row.verdict_text = payload["verdict"], (payload.get("reason") or "")[:KEPT_TEXT]
    row.score = payload.get("score")
    row.score_lo, row.score_hi = payload.get("ci95") or (None, None)
    row.vs_eager, row.vs_compile = payload.get("vs_eager"), payload.get("vs_compile")
    row.configs, row.resources = list(payload.get("configs") or []), payload.get("resources")
    row.timing_trust, row.judging_s = payload.get("timing_trust") or "", payload.get("seconds")
    row.judged_at_usd = run.spent.get("usd", 0.0)
    for said in picture.opinions.get(row.key, []):
        said.truth = row.verdict
    _note_best(picture, row)


def _judged_again(picture: Picture, event: LogEvent) -> None:
    """The row then has the pooled score. A judging that ended by our fault says nothing."""
    row, payload = picture.candidate(event), event.payload["result"]
    if row.score is None or payload["verdict"] in OURS:
        return
    if payload["verdict"] == PASS:
        _pool(row, payload)
    else:
        row.estimates = row.estimates or [_estimate(row)]  # how the first judging ended
        row.judgings = 1
        row.verdict, row.verdict_text = payload["verdict"], (payload.get("reason") or "")[:KEPT_TEXT]
        row.score = row.score_lo = row.score_hi = None
    _choose_best(picture)


def _estimate(row: Candidate) -> list[Any]:
    return [row.score, row.score_lo or row.score, row.score_hi or row.score, row.timing_trust]


def _pool(row: Candidate, payload: Payload) -> None:
    lo, hi = payload.get("ci95") or (payload["score"], payload["score"])
    row.estimates = [
        *(row.estimates or [_estimate(row)]),
        [payload["score"], lo, hi, payload.get("timing_trust") or ""],
    ]
    known = pooled([SpeedupEstimate(score, lo, hi, is_bound(trust)) for score, lo, hi, trust in row.estimates])
    row.judgings, row.score, row.score_lo, row.score_hi = len(row.estimates), known.score, known.lo, known.hi
    row.timing_trust = next(item[3] for item in row.estimates if is_bound(item[3]) == known.bound)


def _choose_best(picture: Picture) -> None:
    """As the engine does; all candidates of the run are in the picture."""
    known = picture.candidates
    scored = [row for row in known.values() if row.counts is not None and row.reused_from not in known]
    best = best_of(scored)
    picture.run.best_key, picture.run.best_score = (best.key, best.score) if best is not None else ("", None)
    if best is not None and not best.improved:
        best.improved = True
        picture.touched.add(best.key)


def _note_best(picture: Picture, row: Candidate) -> None:
    run, best = picture.run, picture.candidates.get(picture.run.best_key)
    if row.counts is not None and (best is None or best.counts is None or row.counts > best.counts):
        run.best_score, run.best_key, row.improved = row.score, row.key, True


def _inserted(picture: Picture, event: LogEvent) -> None:
    if event.candidate:
        picture.candidate(event).archived = True


def _evicted(picture: Picture, event: LogEvent) -> None:
    if event.candidate:
        picture.candidate(event).archived = False


def _reserved(picture: Picture, event: LogEvent) -> None:
    run = picture.run
    run.leases = {**run.leases, event.payload["lease"]: event.payload["cost"]}


def _settled(picture: Picture, event: LogEvent) -> None:
    run, payload = picture.run, event.payload
    run.leases = {name: cost for name, cost in run.leases.items() if name != payload["lease"]}
    run.spent = {**run.spent, **{name: run.spent.get(name, 0) + value for name, value in payload["cost"].items()}}


def _moment(event: LogEvent) -> datetime:
    return datetime.fromtimestamp(event.at_s, UTC)


HANDLERS: dict[str, Callable[[Picture, LogEvent], None]] = {
    "run.created": _created,
    "run.started": _running,
    "run.resumed": _running,
    "run.paused": _paused,
    "run.stopping": _stopping,
    "run.finished": _finished,
    "generation.opened": _generation,
    "proposal.requested": _requested,
    "tool.called": _tool,
    "proposal.received": _received,
    "proposal.rejected": _rejected,
    "verdict": _verdict,
    "evaluation.submitted": _submitted,
    "evaluation.finished": _judged,
    "confirmation.finished": _judged_again,
    "archive.inserted": _inserted,
    "archive.evicted": _evicted,
    "budget.reserved": _reserved,
    "budget.settled": _settled,
}
