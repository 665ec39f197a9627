"""V0: checks of the text alone, in milliseconds.

It rejects only certain errors, so that it loses no correct kernel. It accepts a source that it understands and has no
doubt about; with a single doubt it abstains. Not covered: what the compiler finds (`compile.py`) and what a program
does when it runs.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

from benchmarks.harness import Rules, Source, TaskSpec, check_source, default_rules, is_python

from ..config import RunConfig
from ..model import Decision, Reason, VerifierOpinion
from . import cuda_checks, formula_checks, habit_checks, interface_checks, memory_checks
from .doubts import Doubt
from .python_checks import python_doubts
from .reading import Reading

_READ_MAX_CHARS = 48_000  # more is not read: some of the checks take time with the square of it

StaticRule = Callable[[Reading, TaskSpec], Iterable[Doubt]]
_CHECKS: tuple[StaticRule, ...] = (
    interface_checks.exports,
    interface_checks.parameters,
    interface_checks.results,
    memory_checks.outputs,
    memory_checks.accumulation,
    memory_checks.inputs,
    habit_checks.habits,
    habit_checks.races,
    habit_checks.fixed_sizes,
    formula_checks.operations,
    formula_checks.values,
)
_CUDA_CHECKS: tuple[StaticRule, ...] = (cuda_checks.static_shared, cuda_checks.launches, cuda_checks.barriers)


class StaticVerifier:
    """V0. It needs no machine and no key."""

    id = "static"
    version = "1"

    def __init__(self, rules: Rules | None = None) -> None:
        self._rules = rules or default_rules()

    @classmethod
    def from_config(cls, _config: RunConfig, _settings: Mapping[str, Any]) -> Self:
        return cls()

    async def judge(self, source: str, language: str, task: TaskSpec) -> VerifierOpinion:
        return await asyncio.to_thread(self.look, source, language, task)

    def look(self, source: str, language: str, task: TaskSpec) -> VerifierOpinion:
        """The same at once."""
        started = time.perf_counter()
        opinion = decided(list(self._doubts(source, language, task)))
        return VerifierOpinion(**{**vars(opinion), "seconds": time.perf_counter() - started})

    def _doubts(self, source: str, language: str, task: TaskSpec) -> Iterator[Doubt]:
        found = check_source(Source(source, language), task, self._rules)
        if found.problem:
            yield Doubt("interface", found.problem, certain=True)
        elif is_python(language):
            yield from python_doubts(source, task)
        else:
            yield from _text_doubts(Reading(source, task.direction), language, task)


def decided(doubts: list[Doubt]) -> VerifierOpinion:
    """Certain doubts reject, others abstain, none accepts."""
    certain = [item for item in doubts if item.certain]
    shown = certain or doubts
    decision: Decision = "reject" if certain else "abstain" if doubts else "accept"
    reasons = tuple(Reason(item.text, item.line) for item in shown)
    return VerifierOpinion(decision, reasons, fault=shown[0].fault if shown else None)


def _text_doubts(reading: Reading, language: str, task: TaskSpec) -> Iterator[Doubt]:
    if len(reading.text) > _READ_MAX_CHARS:
        yield Doubt("interface", f"the source has more than {_READ_MAX_CHARS} characters; it was not read")
        return
    open_bracket = reading.unbalanced()
    if open_bracket is not None:
        bracket, place = open_bracket
        text = f"the bracket {bracket!r} is not matched"
        yield Doubt("compile", text, reading.line(place), certain=not reading.has_macros)
        return
    for check in (*_CHECKS, *(_CUDA_CHECKS if language == "cuda" else ())):
        yield from check(reading, task)
