"""The words that the tables of runs store, and which state may follow which.

Does NOT cover the types of events, which belong to the engine.
"""

from django.db import models


class RunState(models.TextChoices):
    """Where a run is in its life."""

    WAITING = "waiting", "Waiting for a worker"
    RUNNING = "running", "Running"
    PAUSED = "paused", "Paused"
    STOPPING = "stopping", "Stopping"
    FINISHED = "finished", "Finished"


OPEN = (RunState.WAITING, RunState.RUNNING, RunState.STOPPING)  # a worker is wanted
MOVES: dict[RunState, frozenset[RunState]] = {
    RunState.WAITING: frozenset({RunState.RUNNING, RunState.PAUSED, RunState.STOPPING, RunState.FINISHED}),
    RunState.RUNNING: frozenset({RunState.PAUSED, RunState.STOPPING, RunState.FINISHED}),
    RunState.PAUSED: frozenset({RunState.WAITING, RunState.RUNNING, RunState.STOPPING, RunState.FINISHED}),
    RunState.STOPPING: frozenset({RunState.FINISHED}),
    RunState.FINISHED: frozenset(),
}


def sources(target: RunState) -> tuple[RunState, ...]:
    """The states from which `target` may be entered."""
    return tuple(state for state, targets in MOVES.items() if target in targets)


class Wish(models.TextChoices):
    """What people want of a run; its worker looks about once a second."""

    GO = "go", "Go on"
    PAUSE = "pause", "Pause"
    STOP = "stop", "Stop"


class CandidateState(models.TextChoices):
    """Where a candidate is on its way."""

    PROPOSING = "proposing", "Being proposed"
    VERIFYING = "verifying", "Being verified"
    QUEUED = "queued", "With the judge"
    DONE = "done", "Judged"
    DROPPED = "dropped", "Not judged"


IN_FLIGHT = (CandidateState.PROPOSING, CandidateState.VERIFYING, CandidateState.QUEUED)
