"""No regular expression of the project takes more than time in proportion to what it reads."""

import re
import time
from collections import deque
from itertools import islice
from typing import Any

import pytest

from . import patterns

PLENTY_S = 0.015  # a linear search takes a tenth of it, a quadratic one several times as much
RUNS = 3
LOOKS = 4  # what is quadratic takes four times as long in every one of them


def least_s(pattern: re.Pattern[Any], text: Any, methods: set[str]) -> float:
    """Of several runs the fastest, in processor time: others run beside the tests."""
    return min(_once_s(pattern, text, methods) for _ in range(RUNS))


def _once_s(pattern: re.Pattern[Any], text: Any, methods: set[str]) -> float:
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

    Other work on the machine can slow all runs of the whole text and none of the half, so it is looked at again.
    """
    if _once_s(pattern, text, methods) < PLENTY_S:
        return True
    return any(_grows_as_the_text(pattern, text, methods) for _ in range(LOOKS))


def _grows_as_the_text(pattern: re.Pattern[Any], text: Any, methods: set[str]) -> bool:
    whole_s, half_s = least_s(pattern, text, methods), least_s(pattern, text[: len(text) // 2], methods)
    return whole_s < PLENTY_S or whole_s < 3 * half_s


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
