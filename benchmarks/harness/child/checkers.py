"""How the results of a call are compared with the truth, where several answers may be right.

A reference names its checker: `CHECKER = "ties"`. Without a name every element is compared (`check.py`). Runs in the
referee. Not covered: shapes and dtypes, which are checked before any value is looked at.

- `ties`: the results are values and places, as of `topk` and `sort`, along the last axis of the first argument. Any
  places are right that differ and hold these values. `set`: the order does not count either.
- `sampling`: the result is one class for each row. `probabilities(*arguments)` of the reference gives the distribution
  of each row; a class of probability zero is wrong, and the classes of all calls together must follow it: likely ones
  against unlikely ones, and each class against all others.
- `property`: `residuals(arguments, results)` of the reference gives a number for each result, 0 for a perfect one, to
  be at most the result's tolerance. Both are private copies in float64, on the processor where a result is integers.
  Results that it fails on are wrong, unless it fails on the reference's own.
- `author-property`: `kbench_check(arguments, results)` of the reference is the check that the author of an imported
  task wrote. It says yes or no to private copies of finite results, in their own dtypes. Places and errors are treated
  as those of `property`.
"""

import io
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..protocol import clean_text
from . import check
from .check import ResultComparison
from .foreign import Seeded
from .shell import TORCH_DTYPES

Results = Sequence[Mapping[str, Any]]  # of a task: each with `tolerance` and `rms_tolerance`
_ALPHA = 1e-9  # of a false alarm in one comparison, of which a judging has hundreds
_POOLED_MAX = 100_000
_CAUTION = 2.0  # of a bet: so often each class counts as drawn and as expected beforehand
_MESSAGE_MAX = 300  # characters of what an author's check says


class Checker:
    """Compares every element."""

    has_errors = True  # that grow with those of a kernel; else an answer is accepted or not
    needs_reference = True  # its truth is what the reference gives

    def __init__(self, module: ModuleType, direction: str) -> None:
        self._module, self._direction = module, direction

    def truth(self, arguments: Sequence[Any]) -> tuple[Tensor, ...]:
        """What the results of one input set are compared with; it may be kept for other calls on the same set."""
        return check.reference(self._module, self._direction, arguments)

    def compare(
        self, who: str, arguments: Sequence[Any], outputs: Sequence[Tensor], truth: Sequence[Tensor], results: Results
    ) -> list[ResultComparison]:
        """One for each result. `who` is told apart where calls are looked at together."""
        rows = zip(outputs, truth, results, strict=True)
        return [check.compare(out, ref, item["tolerance"], item["rms_tolerance"]) for out, ref, item in rows]


class TiesChecker(Checker):
    """Values and places."""

    ordered = True

    def compare(
        self, who: str, arguments: Sequence[Any], outputs: Sequence[Tensor], truth: Sequence[Tensor], results: Results
    ) -> list[ResultComparison]:
        searched, (values, places), wanted = arguments[0].double(), outputs, truth[0]
        tolerances = results[0]["tolerance"], results[0]["rms_tolerance"]
        if not self.ordered:
            order = values.double().argsort(dim=-1, descending=True)
            values, places = values.gather(-1, order), places.gather(-1, order)
            wanted = wanted.sort(dim=-1, descending=True).values
        return [check.compare(values, wanted, *tolerances), _placed(searched, places, wanted, *tolerances)]


class SetChecker(TiesChecker):
    """Values and places in any order."""

    ordered = False


@dataclass
class _Draws:
    """What one process has drawn in one configuration."""

    ranks: Tensor  # between 0 and 1, uniform for whoever draws by the distributions
    drawn: Tensor  # how often each class was drawn
    expected: Tensor  # how often it should have been
    log_gain: float = 0.0  # of bets that what was drawn too often before is drawn again

    def bet(self, chances: Tensor, drawn: Tensor) -> None:
        """Takes in one call. A fair draw multiplies what was bet by 1 in the mean, so it rarely ever gains much."""
        odds = (self.drawn + _CAUTION) / (self.expected + _CAUTION)
        self.log_gain += float((odds[drawn] / (chances @ odds)).log().sum())
        self.drawn += drawn.bincount(minlength=len(self.drawn))
        self.expected += chances.sum(0)


class SamplingChecker(Checker):
    """Classes drawn at random."""

    has_errors = False
    needs_reference = False

    def __init__(self, module: ModuleType, direction: str) -> None:
        super().__init__(module, direction)
        self._generator = torch.Generator()
        self._generator.seed()
        self._draws: dict[str, _Draws] = {}

    def truth(self, arguments: Sequence[Any]) -> tuple[Tensor, ...]:
        probabilities: Callable[..., Tensor] = self._module.probabilities
        with torch.no_grad():
            found = probabilities(*(check.as_double(item) for item in arguments)).double()
        chances = found / found.sum(-1, keepdim=True)
        if not bool((chances >= 0).all()):
            raise ValueError("a row of the reference's probabilities is not a distribution")
        return (chances,)

    def compare(
        self, who: str, arguments: Sequence[Any], outputs: Sequence[Tensor], truth: Sequence[Tensor], results: Results
    ) -> list[ResultComparison]:
        chances = truth[0].reshape(-1, truth[0].shape[-1])
        drawn = outputs[0].reshape(-1).long()
        if len(drawn) != len(chances):
            raise ValueError(f"{len(drawn)} classes for {len(chances)} rows")
        inside = (drawn >= 0) & (drawn < chances.shape[1])
        mine = chances.gather(1, drawn.clamp(0, chances.shape[1] - 1).unsqueeze(1)).squeeze(1)
        wrong = int((~inside | (mine <= 0)).sum())
        if wrong:
            return [_judgement(False, math.inf, f"{wrong} of {len(drawn)} rows have a class that cannot be drawn")]
        seen = self._draws.setdefault(who, _Draws(mine[:0], *torch.zeros(2, chances.shape[1]).to(chances)))
        seen.bet(chances, drawn)
        if seen.log_gain > -math.log(_ALPHA):
            once_in = f"10^{seen.log_gain / math.log(10):.0f}"
            said = f"some classes are drawn too often, others too seldom; chance does this once in {once_in} times"
            return [_judgement(False, math.inf, said)]
        # classes in the order of their chances: a distribution that is too flat or too steep shows
        order = chances.argsort(1, descending=True)
        rank = (order == drawn.unsqueeze(1)).int().argmax(1, keepdim=True)
        below = (chances.gather(1, order).cumsum(1).gather(1, rank).squeeze(1) - mine).clamp(0, 1)
        # uniform between the sums of chances before the class and with it, whatever the distributions of the rows
        ranks = below + mine * torch.rand(len(drawn), generator=self._generator, dtype=torch.float64).to(mine.device)
        seen.ranks = pooled = torch.cat([seen.ranks, ranks])[-_POOLED_MAX:]
        distance, limit = _distance_from_uniform(pooled), math.sqrt(math.log(2 / _ALPHA) / (2 * len(pooled)))
        said = (
            f"{len(pooled)} drawn classes are {distance:.2g} away from their distributions; chance explains {limit:.2g}"
        )
        return [_judgement(distance <= limit, distance, said)]


class PropertyChecker(Checker):
    """What the author demands of an answer."""

    needs_reference = False

    def truth(self, arguments: Sequence[Any]) -> tuple[Tensor, ...]:
        return ()

    def compare(
        self, who: str, arguments: Sequence[Any], outputs: Sequence[Tensor], truth: Sequence[Tensor], results: Results
    ) -> list[ResultComparison]:
        device = looked_at_on(outputs)
        answers = [_copied(output.detach(), device) for output in outputs]
        if not all(bool(torch.isfinite(item).all()) for item in answers):
            return [_judgement(False, math.inf, "a result is not finite")]
        try:
            found = self._residuals(arguments, answers, device)
        except Exception:  # noqa: BLE001 - an author's code on a stranger's results: what it raises may be either's fault
            right = check.reference(self._module, self._direction, arguments)
            pairs = zip(right, answers, strict=True)
            self._residuals(arguments, [mine.to(device, its.dtype) for mine, its in pairs], device)
            return [_judgement(False, math.inf, "the property of a result cannot be checked")]
        return [_within(residual, item) for residual, item in zip(found, results, strict=True)]

    def _residuals(self, arguments: Sequence[Any], answers: Sequence[Tensor], device: torch.device) -> list[float]:
        given = [_copied(item, device) for item in arguments]
        with torch.no_grad():
            found = [float(item) for item in self._module.residuals(given, list(answers))]
        if len(found) != len(answers):
            raise ValueError(f"{len(found)} residuals for {len(answers)} results")
        return found


def looked_at_on(outputs: Sequence[Tensor]) -> torch.device:
    """Integers may be places, and one that is out of range ends a GPU's context, which the referee needs."""
    is_real = all(output.is_floating_point() for output in outputs)
    return outputs[0].device if is_real else torch.device("cpu")


class CheckFault(Exception):
    """An author's check cannot judge: that is the task's fault, whatever was submitted."""


class AuthorChecker(Checker):
    """What the author's own check says. It measures nothing: the error of an accepted answer is 0."""

    needs_reference = False

    def truth(self, arguments: Sequence[Any]) -> tuple[Tensor, ...]:
        return ()

    def compare(
        self, who: str, arguments: Sequence[Any], outputs: Sequence[Tensor], truth: Sequence[Tensor], results: Results
    ) -> list[ResultComparison]:
        parts = (part for output in outputs for part in check.pieces(output))
        if not all(bool(torch.isfinite(part.double()).all()) for part in parts):
            return [_judgement(False, math.inf, "a result is not finite")] * len(results)
        device = looked_at_on(outputs)
        dtypes = [TORCH_DTYPES[item["dtype"]] for item in results]
        answers = [output.to(device, dtype) for output, dtype in zip(outputs, dtypes, strict=True)]
        given = [item.to(device) if isinstance(item, Tensor) else item for item in arguments]
        ok, said = self._said(given, answers)
        found = _judgement(ok, 0.0 if ok else math.inf, f"the author's check refuses the result: {said}")
        return [found] * len(results)

    def _said(self, arguments: Sequence[Any], answers: Sequence[Tensor]) -> tuple[bool, str]:
        try:
            return self._asked(arguments, answers)
        except (CheckFault, torch.OutOfMemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - as above: either's fault
            said = _told(f"{type(error).__name__}: {error}")
        function: Callable[..., Any] = getattr(self._module, self._direction)
        try:
            with torch.no_grad():
                right = check.as_tuple(function(*_own(arguments)))
            ok, why = self._asked(arguments, right)
        except Exception as error:
            why = _told(f"{type(error).__name__}: {error}")
            raise CheckFault(f"check_implementation fails on the reference's own result: {why}") from error
        if not ok:
            raise CheckFault(f"check_implementation refuses the reference's own result: {why}")
        return False, said

    def _asked(self, arguments: Sequence[Any], answers: Sequence[Tensor]) -> tuple[bool, str]:
        """What it draws nobody foresees, and what it prints nobody reads."""
        nowhere = _Nowhere()
        with redirect_stdout(nowhere), redirect_stderr(nowhere), Seeded(os.urandom(32), "cpu"), torch.no_grad():
            return _answer(self._module.kbench_check(_own(arguments), _own(answers)))


_CHECKERS: Mapping[str, type[Checker]] = {
    "elementwise": Checker,
    "ties": TiesChecker,
    "set": SetChecker,
    "sampling": SamplingChecker,
    "property": PropertyChecker,
    "author-property": AuthorChecker,
}


def checker_of(module: ModuleType, direction: str) -> Checker:
    """The checker that a reference names. Raises ValueError for an unknown one."""
    name = getattr(module, "CHECKER", "elementwise")
    if name not in _CHECKERS:
        raise ValueError(f"there is no checker {name!r}; known: {', '.join(_CHECKERS)}")
    return _CHECKERS[name](module, direction)


def _placed(
    searched: Tensor, places: Tensor, wanted: Tensor, tolerance: float, rms_tolerance: float
) -> ResultComparison:
    """Whether different places hold the wanted values."""
    places, size = places.long(), searched.shape[-1]
    outside = int(((places < 0) | (places >= size)).sum())
    if outside:
        return _judgement(False, math.inf, f"{outside} of {places.numel()} places are outside the row")
    ordered = places.sort(dim=-1).values
    twice = int((ordered[..., 1:] == ordered[..., :-1]).sum())
    if twice:
        return _judgement(False, math.inf, f"{twice} places occur more than once in the same row")
    return check.compare(searched.gather(-1, places), wanted, tolerance, rms_tolerance)


def _distance_from_uniform(values: Tensor) -> float:
    """The statistic of Kolmogorov and Smirnov."""
    ordered, count = values.sort().values, len(values)
    steps = torch.arange(count + 1, dtype=torch.float64, device=values.device) / count
    return float(torch.maximum((steps[1:] - ordered).max(), (ordered - steps[:-1]).max()))


def _within(residual: float, item: Mapping[str, Any]) -> ResultComparison:
    tolerance = float(item["tolerance"])
    said = f"{item.get('name', 'a result')} misses its property by {residual:.2g}; at most {tolerance:g} is allowed"
    return _judgement(residual <= tolerance, residual, said)


def _judgement(ok: bool, error: float, reason: str) -> ResultComparison:
    error = error if math.isfinite(error) else math.inf
    return ResultComparison(ok, error, error, error, 0 if ok else 1, "" if ok else reason)


def _copied(item: Any, device: torch.device) -> Any:
    if isinstance(item, tuple):
        return tuple(_copied(part, device) for part in item)
    return check.as_double(item.to(device)).clone() if isinstance(item, Tensor) else item


class _Nowhere(io.TextIOBase):
    """Takes what is printed and keeps nothing."""

    def write(self, text: str) -> int:
        return len(text)


def _own(items: Sequence[Any]) -> list[Any]:
    """Copies of tensors, in their own dtypes."""
    return [
        item.detach().clone(memory_format=torch.contiguous_format) if isinstance(item, Tensor) else item
        for item in items
    ]


def _answer(said: Any) -> tuple[bool, str]:
    """What an author's check has returned: whether the answer is right and why, or only what is wrong with it."""
    if said is None or isinstance(said, str):
        return not said, _told(said)
    if isinstance(said, tuple) and len(said) == 2:
        ok, message = said
        if isinstance(ok, Tensor) and ok.numel() == 1:
            ok = ok.item()
        if isinstance(ok, bool | np.bool_):
            return bool(ok), _told(message)
    raise CheckFault(
        f"check_implementation returns neither (bool, message) nor a text, but a {_told(type(said).__name__)}"
    )


def _told(message: Any) -> str:
    """An author's words on one line of limited length."""
    return " ".join(clean_text(str(message)[: 2 * _MESSAGE_MAX]).split())[:_MESSAGE_MAX] or "it does not say why"
