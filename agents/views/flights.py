"""The candidates in progress: each with its current step and the reason why it waits.

Steps of the judge are read from the evaluation, so a page that is opened later shows them, too. Does NOT show streamed
text: the page's script does.
"""

from dataclasses import dataclass

from agents import selectors
from agents.driving.evaluator import progress_of
from agents.models import Candidate
from agents.record.snapshots import Scene
from agents.record.withheld import EVERYBODY, hidden_keys, readable_candidates
from agents.states import CandidateState
from benchmarks.models import Evaluation
from benchmarks.states import State

_LANE_OF_STATE = {
    State.QUEUED: "queued",
    State.CLAIMED: "queued",
    State.COMPILING: "compiling",
    State.VERIFYING: "checking",
    State.TIMING: "timing",
    State.AUDITING: "auditing",
}


@dataclass(frozen=True)
class Flight:
    """One candidate in progress."""

    row: Candidate
    lane: str
    text: str
    done: int | None = None
    total: int | None = None


def flights(scene: Scene) -> list[Flight]:
    rows = scene.in_flight
    evaluations = selectors.evaluations_by_ticket(rows) if scene.at is None else {}
    hidden = hidden_keys(EVERYBODY, rows) if scene.at is None else set()
    for row in readable_candidates(EVERYBODY, rows):
        if row.key in hidden:
            evaluations.pop(row.ticket, None)
    return [_flight(row, evaluations.get(row.ticket)) for row in rows]


def _flight(row: Candidate, evaluation: Evaluation | None) -> Flight:
    if row.state != CandidateState.QUEUED or evaluation is None:
        return Flight(row, row.state, row.hint)
    if evaluation.is_finished:
        return Flight(row, "done", evaluation.reason_text)
    now = progress_of(evaluation)
    return Flight(row, _LANE_OF_STATE[State(evaluation.state)], now.text, now.done, now.total)
