"""A language model reads the reference of a task for work that does not matter to its results, and for needless work.

What it says becomes a label only if it is sure and names lines that exist; every other answer, and every failure, is a
note. It can keep a task from being ranked and can do nothing else. Not covered: which tasks are read (`import_tasks`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..budget import Cost
from ..events import Quiet
from .citations import REASONS_SCHEMA, SURE_PERCENT, cited, numbered
from .client import LlmClient
from .fences import fenced, one_line
from .outcomes import Failure
from .prompts import prompt
from .purse import Purse
from .stream import StreamRequest

LABELS = {"redundant": "redundant-reference", "inefficient": "inefficient-reference"}
MODEL = "claude-haiku-5-5"
EFFORT = "medium"
MAX_TOKENS = 8_000
SOURCE_BYTES_MAX = 64 << 10
_FINDING: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "found": {"type": "boolean"},
        "confidence": {"type": "integer"},
        "reasons": REASONS_SCHEMA,
    },
    "required": ["found", "confidence", "reasons"],
    "additionalProperties": False,
}
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": dict.fromkeys(LABELS, _FINDING),
    "required": [*LABELS],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class ReferenceReading:
    """Labels that the task gets, and whole sentences for people."""

    labels: tuple[str, ...]
    notes: tuple[str, ...]
    cost: Cost


class ReferenceReader:
    """Reads one reference after the other for at most `usd_max` together."""

    def __init__(self, client: LlmClient, usd_max: float, model: str = MODEL) -> None:
        self._client, self._model, self._usd_max = client, model, usd_max
        self.spent = Cost()

    async def read(self, source: str) -> ReferenceReading:
        if len(source.encode(errors="replace")) > SOURCE_BYTES_MAX:
            return _silent(f"it has more than {SOURCE_BYTES_MAX >> 10} KiB", Cost())
        text = fenced(numbered(source), "reference of the task")
        request = StreamRequest("verify", self._model, (prompt("reference"),), text, MAX_TOKENS, EFFORT, SCHEMA)
        bound = self._client.bound(request)
        if self.spent.usd + bound.usd > self._usd_max:
            left_usd = max(self._usd_max - self.spent.usd, 0.0)
            return _silent(f"reading it may cost {bound.usd:.4f} USD, and {left_usd:.4f} USD are left", Cost())
        purse = Purse(bound)
        try:
            completion = await self._client.call(request, purse, Quiet())
        except Failure as failure:
            return _silent(failure.text, self._paid(purse))
        return reading_of(completion.text, source.count("\n") + 1, self._model, self._paid(purse))

    def _paid(self, purse: Purse) -> Cost:
        self.spent += purse.total
        return purse.total


def reading_of(text: str, lines: int, model: str, cost: Cost) -> ReferenceReading:
    """What does not have the form that was asked for says nothing. Reasons on lines that are not there are dropped."""
    try:
        data = json.loads(text)
        found = {name: (data[name]["found"] is True, int(data[name]["confidence"])) for name in LABELS}
        reasons = {name: cited(data[name]["reasons"], lines, most=3) for name in LABELS}
    except (ValueError, KeyError, TypeError, RecursionError):
        return ReferenceReading((), ("not read: the answer does not have the requested form",), cost)
    labels, notes = [], []
    for name, (is_found, confidence) in found.items():
        if is_found and reasons[name] and confidence >= SURE_PERCENT:
            labels.append(LABELS[name])
        if is_found:
            sure = f"{model} calls it {name}, {confidence} % sure"
            notes += [f"{sure}, line {line}: {one_line(text)}" for line, text in reasons[name]]
    return ReferenceReading(tuple(labels), tuple(notes), cost)


def _silent(why: str, cost: Cost) -> ReferenceReading:
    return ReferenceReading((), (f"not read by a language model: {one_line(why)}",), cost)
