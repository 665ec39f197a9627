"""The length of a queue over a day as a small picture, drawn on the server.

Not covered: the figures themselves, which come from `operations/load.py`.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()

WIDTH, HEIGHT, MARGIN = 240, 40, 3
SPAN = timedelta(days=1)


@register.simple_tag
def sparkline(history: Sequence[tuple[datetime, int]]) -> SafeString | str:
    """Nothing where there is no history yet. The scale goes from 0 to the most there was, at least to 1."""
    if not history:
        return ""
    most = max(depth for _, depth in history)
    points = " ".join(f"{_x(moment):.1f},{_y(depth, max(most, 1)):.1f}" for moment, depth in history)
    label = f"Queue over the last 24 hours: at most {most} waiting, {history[-1][1]} at last"
    return format_html(
        '<svg class="sparkline" viewBox="0 0 {} {}" role="img" aria-label="{}" preserveAspectRatio="none">'
        '<polyline fill="none" vector-effect="non-scaling-stroke" points="{}"/></svg>',
        WIDTH,
        HEIGHT,
        label,
        points,
    )


def _x(moment: datetime) -> float:
    age = min(max((timezone.now() - moment) / SPAN, 0.0), 1.0)
    return MARGIN + (1 - age) * (WIDTH - 2 * MARGIN)


def _y(depth: int, most: int) -> float:
    return HEIGHT - MARGIN - depth / most * (HEIGHT - 2 * MARGIN)
