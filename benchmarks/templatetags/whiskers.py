"""The interval of a speedup as a small picture, drawn on the server on a scale that the rows of a table share.

The scale is logarithmic, so that 2× and 0.5× lie equally far from the baseline, which is the dashed line at 1×.
Not covered: any statistics; the interval comes with the score.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()

WIDTH = 144
MARGIN = 5
MIDDLE = 10


@dataclass(frozen=True)
class Axis:
    """From `low` to `high`, both positive, 1× always inside."""

    low: float
    high: float

    @classmethod
    def over(cls, values: Iterable[float | None]) -> "Axis":
        known = [1.0, *(value for value in values if value)]
        return cls(min(known) / 1.05, max(known) * 1.05)

    def place(self, value: float) -> float:
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return round(MARGIN + min(max(share, 0.0), 1.0) * (WIDTH - 2 * MARGIN), 1)


@register.simple_tag
def whisker(axis: Axis, value: float, low: float, high: float) -> SafeString:
    start, end, one = axis.place(low), axis.place(high), axis.place(1.0)
    return format_html(
        '<svg class="whisker" viewBox="0 0 {width} 20" role="img" aria-label="{value}×, interval {low}× to {high}×">'
        '<line class="one" x1="{one}" x2="{one}" y1="1" y2="19"/>'
        '<path class="span" fill="none" d="M{start} 10H{end}M{start} 6v8M{end} 6v8"/>'
        '<circle class="dot" cx="{dot}" cy="{middle}" r="3.5"/></svg>',
        width=WIDTH,
        middle=MIDDLE,
        value=f"{value:.2f}",
        low=f"{low:.2f}",
        high=f"{high:.2f}",
        start=start,
        end=end,
        one=one,
        dot=axis.place(value),
    )
