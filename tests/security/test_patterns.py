"""No regular expression of the project takes more than time in proportion to what it reads."""

import math
import re
import time
from collections import deque
from itertools import islice
from typing import Any

import pytest

from . import patterns

PLENTY_S = 0.015  # a linear search takes a tenth of it, a quadratic one several times as much
RUNS_MIN, RUNS_MAX = 4, 10


def _once_s(pattern: re.Pattern[Any], text: Any, methods: set[str]) -> float:
    """In processor time: others run beside the tests."""
    started = time.process_time()
    if "search" in methods:
        deque(pattern.finditer(text), maxlen=0)
    if "match" in methods:
        pattern.match(text)
    if "fullmatch" in methods:
        pattern.fullmatch(text)
    return time.process_time() - started


def is_linear(pattern: re.Pattern[Any], text: Any, methods: set[str]) -> bool:
    """Twice the text, twice the time; looked at closely only where a text took long at all.

    Whole and half are searched in turn and the fastest of each counts, since other work can only make them longer.
    """
    if _once_s(pattern, text, methods) < PLENTY_S:
        return True
    half = text[: len(text) // 2]
    whole_s = half_s = math.inf
    for run in range(1, RUNS_MAX + 1):
        whole_s = min(whole_s, _once_s(pattern, text, methods))
        half_s = min(half_s, _once_s(pattern, half, methods))
        if run >= RUNS_MIN and (whole_s < PLENTY_S or whole_s < 3 * half_s):
            return True
    return False


def slow_texts(pattern: re.Pattern[Any], methods: set[str], size: int = patterns.SIZE) -> list[Any]:
    """The first is enough: each may take long."""
    texts = (text for text in patterns.hostile(pattern, size) if not is_linear(pattern, text, methods))
    return [text[:30] for text in islice(texts, 1)]


def test_every_use_of_a_pattern_is_found() -> None:
    assert [place for place, found in patterns.collected().items() if not found] == []
    assert len(patterns.collected()) > 100


NOT_LINEAR = [
    r'"(?:\\.|[^"\\\n])*"',
    r"^\s*import",
    r"\b\w*[A-Z]\w*\(",
    r"(\d+) bytes",
    "x[^y]*y",
    r"\b(?:at|torch)::\w*(?:linear|mm)\w*\s*\(",  # only behind two literal parts
    r"->\s*[\w:<>, ]+\{",
]


@pytest.mark.parametrize("text", NOT_LINEAR)
def test_a_pattern_that_is_not_linear_is_noticed(text: str) -> None:
    assert slow_texts(re.compile(text, re.MULTILINE | re.DOTALL), {"search"})


def test_all_patterns_are_linear() -> None:
    found, seen = {}, set()
    for place, known in patterns.collected().items():
        for pattern in known:
            methods, size = patterns.methods().get(place, {"search"}), patterns.size_at(place)
            one = (pattern, frozenset(methods), size)
            if one not in seen and (slow := slow_texts(pattern, methods, size)):
                found[f"{place}: {pattern.pattern[:80]!r}"] = slow
            seen.add(one)
    assert found == {}
