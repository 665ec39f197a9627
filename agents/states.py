"""The states of runs as stored in the tables, and the allowed transitions between them.

Does NOT cover the types of events, which belong to the engine.
"""

from django.db import models


class RunStatus(models.TextChoices):
    """The state of a run."""

    WAITING = "waiting", "Waiting for a worker"
    RUNNING = "running", "Running"
    PAUSED = "paused", "Paused"
    STOPPING = "stopping", "Stopping"
    FINISHED = "finished", "Finished"


OPEN = (RunStatus.WAITING, RunStatus.RUNNING, RunStatus.STOPPING)  # a worker is wanted
MOVES: dict[RunStatus, frozenset[RunStatus]] = {
    RunStatus.WAITING: frozenset({RunStatus.RUNNING, RunStatus.PAUSED, RunStatus.STOPPING, RunStatus.FINISHED}),
    RunStatus.RUNNING: frozenset({RunStatus.PAUSED, RunStatus.STOPPING, RunStatus.FINISHED}),
    RunStatus.PAUSED: frozenset({RunStatus.WAITING, RunStatus.RUNNING, RunStatus.STOPPING, RunStatus.FINISHED}),
    RunStatus.STOPPING: frozenset({RunStatus.FINISHED}),
    RunStatus.FINISHED: frozenset(),
}


def sources(target: RunStatus) -> tuple[RunStatus, ...]:
    """The states from which `target` may be entered."""
    return tuple(state for state, targets in MOVES.items() if target in targets)


class Wish(models.TextChoices):
    """The state that people have requested for a run; its worker checks about once a second."""

    GO = "go", "Continue"
    PAUSE = "pause", "Pause"
    STOP = "stop", "Stop"


class CandidateState(models.TextChoices):
    """The state of a candidate."""

    PROPOSING = "proposing", "Being proposed"
    VERIFYING = "verifying", "Being verified"
    QUEUED = "queued", "In judging"
    DONE = "done", "Judged"
    DROPPED = "dropped", "Not judged"


IN_FLIGHT = (CandidateState.PROPOSING, CandidateState.VERIFYING, CandidateState.QUEUED)
