"""The differences between two rule sets, number by number, read from their texts: pure functions without a database.

The comment behind a number in the file is its meaning. Does NOT know what a number does (the harness does).
"""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass

_NAME = re.compile(r"^(?P<stem>.*?)(?P<number>\d+)$")
_LINE = re.compile(r"^(?P<name>\w+)\s*=\s*[^#]*(#\s*(?P<comment>.*))?$")
_SECTION = re.compile(r"^\[(?P<name>\w+)\]")
_TITLES = ("name", "title")


@dataclass(frozen=True)
class RuleChange:
    """One number; None where a rule set does not have it. `place` is SECTION.NAME."""

    place: str
    before: str | None
    after: str | None
    meaning: str


def rule_changes(older: str, newer: str) -> list[RuleChange]:
    """In the order of the newer text; what it has dropped comes last."""
    before, after = _values(older), _values(newer)
    meanings = _meanings(older) | _meanings(newer)
    return [
        RuleChange(place, before.get(place), after.get(place), meanings.get(place, ""))
        for place in [*after, *(place for place in before if place not in after)]
        if before.get(place) != after.get(place)
    ]


def predecessor(name: str, names: Iterable[str]) -> str | None:
    """The rule set before `name`: of the same family, with the next lower number."""
    stem, number = _split(name)
    lower = [other for other in names if _split(other)[0] == stem and _split(other)[1] < number]
    return max(lower, key=lambda other: _split(other)[1], default=None)


def _split(name: str) -> tuple[str, int]:
    found = _NAME.match(name)
    return (found["stem"], int(found["number"])) if found else (name, -1)


def _values(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for section, values in tomllib.loads(text).items():
        if section not in _TITLES:
            found |= {f"{section}.{name}": _written(value) for name, value in values.items()}
    return found


def _written(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return f"{value:,}".replace(",", " ") if isinstance(value, int | float) else str(value)


def _meanings(text: str) -> dict[str, str]:
    section, found = "", dict[str, str]()
    for line in text.splitlines():
        if header := _SECTION.match(line):
            section = header["name"]
        elif (rule := _LINE.match(line)) and rule["comment"]:
            found[f"{section}.{rule['name']}"] = rule["comment"].strip()
    return found
