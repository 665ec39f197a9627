"""Formats numbers and times for pages, always with their unit.

An absent number is "not measured", never 0 or a dash. Not covered: the choice of numbers, which the selectors make.
"""

import math
from datetime import datetime

from django import template
from django.template.defaultfilters import floatformat
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince

register = template.Library()

ABSENT = "not measured"


@register.filter
def us(value: float | str | None) -> str:
    """Microseconds with three digits, in the unit that keeps them readable."""
    number = _number(value)
    if number is None:
        return ABSENT
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if number >= size:
            return f"{_digits(number / size)} {unit}"
    if 0 < number < 0.1:
        return f"{_digits(number * 1e3)} ns"
    return f"{_digits(number)} µs"


@register.filter
def mj(value: float | str | None) -> str:
    """Millijoules with three digits, in the unit that keeps them readable."""
    number = _number(value)
    if number is None:
        return ABSENT
    for unit, size in (("J", 1e3), ("mJ", 1.0), ("µJ", 1e-3)):
        if abs(number) >= size:
            return f"{_digits(number / size)} {unit}"
    return f"{number * 1e3:.2g} µJ"


@register.filter
def times(value: float | str | None) -> str:
    number = _number(value)
    return ABSENT if number is None else f"{number:.2f}×"


@register.filter
def error(value: float | str | None) -> str:
    """A deviation from the reference; reports write infinite ones as text."""
    if value is None:
        return ABSENT
    number = float(value)
    if math.isnan(number):
        return "not a number"
    if math.isinf(number):
        return "infinite"
    return f"{number:.3g}" if number == 0 or 0.001 <= abs(number) < 1000 else f"{number:.1e}"


@register.filter
def percent(value: float | str | None) -> str:
    number = _number(value)
    return ABSENT if number is None else f"{100 * number:.0f} %"


@register.filter
def fine_percent(value: float | str | None) -> str:
    """For shares that are usually small."""
    number = _number(value)
    return ABSENT if number is None else f"{100 * number:.1f} %"


@register.filter
def seconds(value: float | str | None) -> str:
    number = _number(value)
    if number is None:
        return ABSENT
    if number > 90:
        return f"{floatformat(number / 60)} min"
    return f"{floatformat(number)} s" if number >= 0.1 or number == 0 else f"{1000 * number:.0f} ms"


@register.filter
def size(value: float | str | None) -> str:
    return _scaled(value, 1024, ("bytes", "KiB", "MiB", "GiB"))


@register.filter
def flops(value: float | str | None) -> str:
    return _scaled(value, 1000, ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"))


@register.filter
def ago(moment: datetime | None) -> SafeString | str:
    """How long ago, with the exact moment in the title."""
    if moment is None:
        return "not yet"
    age = timezone.now() - moment
    text = "just now" if age.total_seconds() < 60 else f"{timesince(moment).split(', ')[0]} ago"
    iso = moment.isoformat(timespec="seconds")
    return format_html('<time datetime="{}" title="{}">{}</time>', iso, iso, text)


def _number(value: float | str | None) -> float | None:
    """Reports write what is not finite as text; no such thing is ever a measured time."""
    if value is None or value == "":
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _digits(number: float) -> str:
    return floatformat(number, 0 if number >= 100 else 1 if number >= 10 else 2)


def _scaled(value: float | str | None, step: int, units: tuple[str, ...]) -> str:
    number = _number(value)
    if number is None:
        return ABSENT
    place = 0
    while number >= step and place < len(units) - 1:
        number, place = number / step, place + 1
    return f"{floatformat(number, 0 if number >= 100 else -1)} {units[place]}"
