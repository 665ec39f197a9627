"""Labels of tasks in words, and which of them keep a task's entries off the boards.

A label that is no remark names a filter that the task trips: it is judged, but nothing is ranked on it.
"""

from collections.abc import Iterable

REMARKS = {
    "one-shape": "The task has one shape, so entries are held against other values of it, not against other sizes.",
}
_FILTERS = {
    "small-output": "All results are within 0.01 of zero, so that zeros are nearly right.",
    "same-over-seeds": "The results hardly differ between one draw of the inputs and the next.",
    "flat-axis": "The results hardly differ along one of their axes.",
    "no-effect:inputs": "The inputs do not change the results.",
    "no-effect:weights": "The weights do not change the results.",
    "cheap-answers": "The checker takes answers that nothing was computed for.",
    "low-precision": "The checker takes answers of lower precision than float32.",
    "redundant-reference": "Who read the reference found work in it that its results do not need.",
    "inefficient-reference": "The reference is slow for no reason: torch.compile is more than ten times as fast.",
}


def is_ranked(labels: Iterable[str]) -> bool:
    """Whether entries of a task with these labels may stand on a board."""
    return all(label in REMARKS for label in labels)


def text_of(label: str) -> str:
    """A sentence for readers of the task's page."""
    unnamed = f"{label.partition(':')[2]} does not change the results." if ":" in label else f"{label}."
    return REMARKS.get(label) or _FILTERS.get(label) or unnamed
