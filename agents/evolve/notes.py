"""A note on a task, written from the log when a run ends: what worked there and what did not.

It is computed from measurements and our own words; nothing that a model or a kernel's author wrote is in it. Not
covered: who is shown it (`memory.py`).
"""

from collections import Counter
from collections.abc import Iterator

from .model import CandidateView
from .state import RunState
from .templates import TEMPLATES, difference

GAIN = 1.02  # what a step must bring to be named
LINES_MAX = 4  # of each kind
NOTE_CHARS_MAX = 1_500
_OURS = {template.name for template in TEMPLATES}  # the genes of others are words of a model


def note_of(state: RunState) -> str:
    """Empty where nothing correct was found."""
    best = state.best
    if best is None or best.counts is None:
        return ""
    judged = [item for item in state.archive.candidates.values() if item.result is not None and not item.result.ours]
    lines = [
        f"{len(judged)} kernels were judged; the best reached {best.counts:.3f} times the stronger baseline"
        f"{best.counted_where}.",
        *_best(best),
        *_steps(state, judged),
        *_failures(judged),
    ]
    return "\n".join(lines)[:NOTE_CHARS_MAX]


def _best(best: CandidateView) -> Iterator[str]:
    if best.template in _OURS and best.params:
        yield f"Best setting of {best.template}: " + ", ".join(f"{name} {value}" for name, value in best.params.items())


def _steps(state: RunState, judged: list[CandidateView]) -> Iterator[str]:
    """Changes of one setting into another, by what they gained over their first parent, largest first."""
    known = state.archive.candidates
    steps: list[tuple[float, str]] = []
    for item in judged:
        parent = known.get(item.parents[0]) if item.parents else None
        if parent is None or not item.counts or not parent.counts:
            continue
        if item.template not in _OURS or item.template != parent.template or not item.params or not parent.params:
            continue
        if item.params.keys() == parent.params.keys():
            steps.append((item.counts / parent.counts, difference(parent.params, item.params)))
    steps = [step for step in steps if step[1]]
    for ratio, change in sorted((step for step in steps if step[0] >= GAIN), reverse=True)[:LINES_MAX]:
        yield f"Worked: {change} ({ratio:.2f} times)"
    for ratio, change in sorted(step for step in steps if step[0] <= 1 / GAIN)[:LINES_MAX]:
        yield f"Did not work: {change} ({ratio:.2f} times)"


def _failures(judged: list[CandidateView]) -> Iterator[str]:
    counts = Counter(item.result.verdict for item in judged if item.result is not None and not item.correct)
    for verdict, count in counts.most_common(LINES_MAX):
        yield f"{count} of them failed with {verdict}."
