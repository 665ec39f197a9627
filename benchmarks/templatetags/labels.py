"""Labels of tasks for templates. What they mean is in `benchmarks.boards.labels`."""

from collections.abc import Iterable, Mapping
from typing import Any

from django import template

from benchmarks.boards import labels
from benchmarks.catalogue.difficulty import HARD_FROM, MEDIUM_FROM

register = template.Library()


@register.filter
def label_text(label: str) -> str:
    return labels.text_of(label)


@register.filter
def unranked(found: Iterable[str]) -> bool:
    return not labels.is_ranked(found)


@register.filter
def difficulty_text(facts: Mapping[str, Any]) -> str:
    """What a grade was derived from, as sentences."""
    if not facts:
        return ""
    counted = [
        (facts["products"], "matrix product or convolution", "matrix products and convolutions"),
        (facts["reductions"], "reduction", "reductions"),
        (facts["operations"], "further operation", "further operations"),
        (facts["loops"], "loop", "loops"),
        (facts["results"], "result", "results"),
    ]
    said = ", ".join(f"{number} {one if number == 1 else several}" for number, one, several in counted if number)
    direction = "; the task is a backward one" if facts["backward"] else ""
    arithmetic = f"up to {facts['flops_per_byte']} floating-point operations for each byte of memory traffic"
    scale = f"medium from {MEDIUM_FROM}, hard from {HARD_FROM}"
    return f"The reference has {said}{direction}; it does {arithmetic}. That makes {facts['points']} points ({scale})."
