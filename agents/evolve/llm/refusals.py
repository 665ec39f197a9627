"""Tells a model why its last answers were refused, and after some refusals shows an example of the form.

Not covered: answers that never came (the provider failed), and kernels that were judged wrong (`feedback.py`).
"""

from ..model import ArchiveView, CandidateView
from .fences import one_line

REASONS_MAX = 8
MISFORMED_BEFORE_EXAMPLE = 2
_TEXT_CHARS = 300
_MISFORMED = ("unparsable", "empty")


def refused_answers(view: ArchiveView) -> str:
    """The reasons of the last generation, each once; empty if all of its answers were used."""
    newest = max((item.generation for item in view.candidates.values()), default=0)
    texts = {
        one_line(f"{item.refusal.reason}: {item.refusal.text}", _TEXT_CHARS): None
        for item in view.candidates.values()
        if item.generation == newest and item.refusal is not None and _answered(item)
    }
    if not texts:
        return ""
    lines = [f"- {text}" for text in list(texts)[:REASONS_MAX]]
    return "\n".join(["## Answers that were refused", "These answers to the last requests were not used:", *lines])


def needs_example(view: ArchiveView) -> bool:
    """The two newest answers of the run could not be read."""
    answered = [item for item in view.candidates.values() if _answered(item)]
    misformed = [item.refusal is not None and item.refusal.reason in _MISFORMED for item in answered]
    return len(misformed) >= MISFORMED_BEFORE_EXAMPLE and all(misformed[-MISFORMED_BEFORE_EXAMPLE:])


def _answered(item: CandidateView) -> bool:
    """A model answered: the tokens were counted, and the provider did not fail."""
    return item.cost.output_tokens > 0 and (item.refusal is None or item.refusal.reason != "provider_error")
