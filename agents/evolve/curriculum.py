"""One configuration first: a run can search on a single configuration before it searches on all of them.

Once a kernel is correct, candidates are timed on the configuration with the largest headroom (where the best kernel is
furthest from the roofline) beside the fastest kernel there, and only those that are not clearly slower are judged. That
ends by a rule of its own; from then on every configuration counts. Pure functions of the state. Not covered: timing
(`verifiers/screen.py`) and kernels that choose settings by shape, which is what a template's text does.
"""

from dataclasses import replace

from benchmarks.harness import TaskSpec

from .archive import speedups
from .events import Draft
from .model import UNPROMISING, CandidateView
from .state import RunState

GAIN = 1.01  # what counts as better on the configuration
SHARE_MAX = 0.5  # of the judgings that the curriculum may use


def turn(state: RunState) -> list[Draft]:
    """What changes before the next generation is opened."""
    if state.config.curriculum is None or state.focus_over:
        return []
    if state.focus is None:
        return _begun(state)
    ended = _reason_to_end(state)
    return [Draft("curriculum.ended", None, {"config": state.focus.config, "text": ended})] if ended else []


def narrowed(task: TaskSpec, kind: str, config: str) -> TaskSpec:
    """The task with that configuration alone; as it is where everybody may not know the configuration."""
    chosen = tuple(item for item in task.configs_for(kind) if item.key == config and not item.hidden)
    return replace(task, configs={kind: chosen}) if chosen else task


def _begun(state: RunState) -> list[Draft]:
    best = state.best
    config = largest_headroom(best) if best is not None else None
    if best is None or config is None:
        return []
    speedup = speedups(state.archive.candidates[state.archive.champions[config]])[config]
    return [Draft("curriculum.began", None, {"config": config, "speedup": speedup})]


def largest_headroom(candidate: CandidateView) -> str | None:
    """The timed configuration that is furthest from the roofline, or from the baseline where no roofline is known."""
    rows = [item for item in (candidate.result.configs if candidate.result else ()) if item.get("speedup") is not None]
    if len(rows) < 2:
        return None
    known = all(item.get("roofline_fraction") is not None for item in rows)
    return str(min(rows, key=lambda item: item["roofline_fraction" if known else "speedup"])["key"])


def _reason_to_end(state: RunState) -> str:
    """Empty where it goes on."""
    focus, patience = state.focus, state.config.curriculum
    if focus is None or patience is None:
        return ""
    if state.is_unpromising:
        return UNPROMISING
    reached = [focus.speedup, *focus.reached]
    if len(reached) > patience and reached[-1] < reached[-1 - patience] * GAIN:
        return f"no gain of 1 % on this configuration in {patience} generations"
    cap = state.budget.caps.judgings
    if cap is not None and state.budget.spent.judgings >= SHARE_MAX * cap:
        return f"half of the {cap} judgings are spent"
    return ""
