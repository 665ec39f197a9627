"""A log of more than 10,000 events folds; the time it takes is printed, not judged."""

import sys
import time

from agents.evolve.budget import Caps
from agents.evolve.config import RunConfig
from agents.evolve.logs import MemoryLog
from agents.evolve.state import RunState

from .world import TASK, Steady, run


def test_ten_thousand_events_fold() -> None:
    log = MemoryLog()
    run(log, RunConfig(TASK.name, caps=Caps(judgings=1500), generation_size=8), proposer=Steady())
    events = log.read()
    started = time.perf_counter()
    state = RunState.fold(events, log.get_source)
    seconds = time.perf_counter() - started
    sys.stdout.write(f"{len(events)} events of {len(state.archive.candidates)} candidates: {seconds:.2f} s\n")
    assert len(events) > 10_000
    assert state.status == "finished"
    assert state.budget.spent.judgings == 1500
