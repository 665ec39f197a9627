"""Kills a run after each of its commits in turn, really, and has it go on. Prints one JSON document.

`python -m tests.evolve.killing FOLDER JUDGINGS EVERY` kills after each EVERY-th commit; a process of its own, because
it forks.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from agents.evolve.budget import Caps, Cost
from agents.evolve.config import RunConfig
from agents.evolve.events import Draft, LogEvent
from agents.evolve.logs import JsonlLog
from agents.evolve.state import RunState

from .world import TASK, Judge, Racing, Scripted, Suspicious, of_type, run

KILLED = 9


class Dying(JsonlLog):
    """Ends its process with the n-th commit."""

    left = -1

    def append(self, drafts: Sequence[Draft]) -> list[LogEvent]:
        events = super().append(drafts)
        self.left -= 1
        if self.left == 0:
            os._exit(KILLED)
        return events


def drive(folder: Path, config: RunConfig, left: int = -1) -> tuple[RunState, list[LogEvent], Scripted, Judge]:
    with Dying(folder) as log:
        log.left = left
        proposer, judge = Scripted(Cost(usd=0.01)), Judge(folder / "judged.jsonl")
        run(log, config, proposer=proposer, judge=judge, verifiers=(Suspicious(), Racing()))
        return RunState.fold(log.read(), log.get_source), log.read(), proposer, judge


def kill(folder: Path, config: RunConfig, at: int) -> bool:
    """True if the run was killed, False if it was over before."""
    child = os.fork()
    if child == 0:
        drive(folder, config, at)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED


def answered(folder: Path) -> set[str | None]:
    with JsonlLog(folder) as log:
        return {event.candidate for event in of_type(log.read(), "proposal.received", "proposal.rejected")}


def problems(
    found: tuple[RunState, list[LogEvent], Scripted, Judge], whole: RunState, before: set[str | None]
) -> list[str]:
    """What is not as in the run that was left alone."""
    state, events, proposer, judge = found
    settled = [event.payload["lease"] for event in of_type(events, "budget.settled")]
    reserved = [event.payload["lease"] for event in of_type(events, "budget.reserved")]
    wrong = {
        "another archive": state.archive.sha256() != whole.archive.sha256(),
        "another winner": state.archive.best != whole.archive.best,
        "not confirmed": state.best is None or state.best.judgings != 3,
        "judged twice": set(judge.judged.values()) != {1},
        "finished twice": len(of_type(events, "evaluation.finished", "confirmation.finished")) != len(judge.judged),
        "an answered call was made again": bool(before & set(proposer.asked)),
        "a lease is open": bool(state.budget.leases) or sorted(settled) != sorted(reserved),
        "judgings were lost": state.budget.spent.judgings != whole.budget.spent.judgings,
        "money was lost": state.budget.spent.usd < whole.budget.spent.usd - 1e-9,
    }
    return [text for text, holds in wrong.items() if holds]


def main(folder: Path, judgings: int, every: int) -> None:
    caps, checks = Caps(judgings=judgings), ("static", "compile", "screen")
    config = RunConfig(TASK.name, caps=caps, verifiers=checks, curriculum=3, confirmations=4)
    whole = drive(folder / "whole", config)
    at, found = every, {}
    while kill(folder / str(at), config, at):
        before = answered(folder / str(at))
        wrong = problems(drive(folder / str(at), config), whole[0], before)
        if wrong:
            found[at] = wrong
        at += every
    kills = at // every - 1
    state, events, *_ = whole
    done = {
        "candidates": len(state.archive.candidates),
        "types": sorted({event.type for event in events}),
        "kills": kills,
        "problems": found,
    }
    sys.stdout.write(json.dumps(done) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
