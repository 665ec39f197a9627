"""Labels of tasks for templates. What they mean is in `benchmarks.boards.labels`."""

from collections.abc import Iterable

from django import template

from benchmarks.boards import labels

register = template.Library()


@register.filter
def label_text(label: str) -> str:
    return labels.text_of(label)


@register.filter
def unranked(found: Iterable[str]) -> bool:
    return not labels.is_ranked(found)
