"""Reads what baselines say: the reference runs in their process, and in tasks of other suites it is a stranger's.

What has not the form that our own code gives it is a RefereeError: it says something about the task and nothing about a
submission. Not covered: whether it is true.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import SupervisorError
from ..sandbox.isolation import Child
from .last_words import failed

_NUMBER_MAX = 1e12
_PROBLEM_CHARS_MAX = 500


def number_of(answer: Mapping[str, Any], name: str, child: Child) -> float:
    """A finite number of sensible size."""
    return _number(answer.get(name), name, child)


def numbers_of(answer: Mapping[str, Any], name: str, count: int, child: Child) -> list[float]:
    found = answer.get(name)
    if not isinstance(found, list | tuple) or len(found) != count:
        raise senseless(f"{name} is no list of {count} numbers", child)
    return [_number(value, name, child) for value in found]


def rows_of(answer: Mapping[str, Any], name: str, child: Child) -> Sequence[Mapping[str, Any]]:
    found = answer.get(name)
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise senseless(f"{name} is no list of objects", child)
    return found


def problem_of(answer: Mapping[str, Any], child: Child) -> str | None:
    """Why torch.compile failed; None if it did not."""
    problem = answer.get("problem", 0)
    if problem is not None and (not isinstance(problem, str) or not problem):
        raise senseless("problem is no text", child)
    return problem and problem[:_PROBLEM_CHARS_MAX]


def senseless(what: str, child: Child) -> SupervisorError:
    return failed(f"a baseline of the task gave no sensible answer: {what}", child)


def _number(value: Any, name: str, child: Child) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not abs(value) <= _NUMBER_MAX or not math.isfinite(value):
        raise senseless(f"{name} is no number of sensible size", child)
    return float(value)
