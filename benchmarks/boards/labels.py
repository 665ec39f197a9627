"""Labels of tasks in words, and which of them exclude a task from ranking.

A label is either a remark or the name of a filter that flagged the task. A flagged task is judged, but nothing is
ranked on it.
"""

from collections.abc import Iterable

REMARKS = {
    "one-shape": "The task has only one shape, so entries are tested with different values but not sizes.",
    "author-checker": "The author's own check decides which results are right.",
}
_FILTERS = {
    "small-output": "All results are within 0.01 of zero, so returning zeros is nearly correct.",
    "same-over-seeds": "The results are nearly the same for all randomly drawn inputs.",
    "flat-axis": "The results are nearly constant along one of their axes.",
    "no-effect:inputs": "The inputs do not change the results.",
    "no-effect:weights": "The weights do not change the results.",
    "cheap-answers": "The checker accepts results that involve no computation.",
    "fixed-inputs": "Some inputs come with the task and are the same in every call, so a kernel could store results.",
    "low-precision": "The checker accepts results computed in lower precision than that of the task.",
    "redundant-reference": "The reference does work that does not affect its results.",
    "inefficient-reference": "The reference is needlessly slow: torch.compile is more than ten times as fast.",
}


def is_ranked(labels: Iterable[str]) -> bool:
    """Whether entries of a task with these labels may be ranked."""
    return all(label in REMARKS for label in labels)


def text_of(label: str) -> str:
    """A sentence for readers of the task's page."""
    unnamed = f"{label.partition(':')[2]} does not change the results." if ":" in label else f"{label}."
    return REMARKS.get(label) or _FILTERS.get(label) or unnamed
