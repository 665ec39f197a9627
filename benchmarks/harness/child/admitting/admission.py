"""Whether a task can be judged: the checker must refuse what is no solution and accept honest float32 work.

`python -m benchmarks.harness.child.admitting.admission SUITE_FOLDER [OP/DIRECTION...]` prints one JSON document per
line and task. For every CPU configuration and every distribution of values: eager float32 and float32 loops that add
in naive order must pass with room to spare; over the distributions of each configuration, every cheap answer (zeros,
the mean, an operand, a scalar, the result of another seed) and every answer of lower precision must be refused;
gradients must equal those of autograd. Not covered: the sizes of the `cuda` configurations.
"""

import argparse
import hashlib
import json
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from benchmarks.harness.dtypes import DTYPES, Dtype
from benchmarks.harness.tasks.spec import Config, Result, TaskSpec, find_task, load_operation, load_suite

from ..check import ResultComparison, as_double, as_tuple, compare, load_reference, pieces, reference
from ..checkers import AuthorChecker, Checker, CheckFault, PropertyChecker, checker_of
from ..inputs import DISTRIBUTIONS, call_arguments, draw_for
from ..shell import TORCH_DTYPES
from ..widening import Widened
from .filters import filtered, tensors_of
from .naive import NaiveSums

SAFETY = 6.0  # a tolerance is this many times the worst honest error
ROOM = 0.5  # an honest error may use this share of the tolerance
FLOOR = 2e-5  # no tolerance per element is tighter: libraries and compilers differ by more than one machine shows
RMS_FLOOR = 5e-6
SAFETY_LOW, RMS_SAFETY_LOW = 3.0, 2.0  # in less than float32, where the rounding of the results decides
FLOOR_FLOAT64 = 1e-10  # per element and in all
_FEW_VALUES = 256  # so few rounding errors do not average out
AUTOGRAD_TOLERANCE = 1e-9
HONEST = ("eager", "naive")
LOWER_PRECISION = ("bfloat16", "10-bit mantissa", "float32", "float8_e4m3fn", "float4_e2m1fn")

Results = tuple[Tensor, ...]


@dataclass(frozen=True)
class DrawnCase:
    """One draw of one configuration with its reference; `another` computes the reference of another seed."""

    task: TaskSpec
    module: ModuleType
    config: Config
    distribution: str
    tensors: list[Tensor]
    expected: Results
    another: Callable[[], Results]
    checker: Checker  # the same for all cases that are looked at together

    def compared(self, way: str, results: Sequence[Tensor], wanted: Sequence[Result]) -> list[ResultComparison]:
        """As the judge compares the results of one way to compute, with the tolerances of `wanted`."""
        items = [
            {
                "name": item.name,
                "dtype": item.dtype,
                "tolerance": item.tolerance,
                "rms_tolerance": item.rms_tolerance,
            }
            for item in wanted
        ]
        how = (f"{way} {self.config.key}", self.arguments, results, self.truth, items)
        found = self.checker.compare(*how)
        if isinstance(self.checker, AuthorChecker):
            again = self.checker.compare(*how)
            if [item.ok for item in found] != [item.ok for item in again]:
                raise CheckFault("check_implementation gives two answers to one result")
        return found

    def errors(self, way: str, results: Sequence[Tensor]) -> list[tuple[float, float]]:
        """Of each result the largest error of an element and the root mean square, as shares of a tolerance of 1."""
        ones = [replace(item, tolerance=1.0, rms_tolerance=1.0) for item in self.config.results]
        found = self.compared(way, results, ones)
        if self.checker.has_errors:
            return [(item.max_rel_error, item.rms_error) for item in found]
        return [(0.0, 0.0) if item.ok else (math.inf, math.inf) for item in found]

    @cached_property
    def truth(self) -> Results:
        return self.expected if self.checker.needs_reference else self.checker.truth(self.arguments)

    @cached_property
    def previous(self) -> Results:
        return self.another()

    @property
    def call(self) -> Callable[..., Tensor | Results]:
        function: Callable[..., Tensor | Results] = getattr(self.module, self.task.direction)
        return function

    @property
    def arguments(self) -> list[Any]:
        return call_arguments(self.config, self.tensors)


@dataclass
class Worst:
    """The largest errors of one way to compute one result: per element and root mean square."""

    element: float = 0.0
    rms: float = 0.0

    def add(self, element: float, rms: float) -> None:
        self.element = max(self.element, element)
        self.rms = max(self.rms, rms)


@dataclass
class Findings:
    """What is gathered over the cases of a task."""

    errors: dict[str, dict[str, Worst]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(Worst)))
    refused: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    tried: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    autograd: float = 0.0


def admission(task: TaskSpec) -> dict[str, Any]:
    """The findings for one task as plain JSON values."""
    module = load_reference(task.folder)
    findings = Findings()
    for case in cases(task, module):
        measure(case, findings)
        attack(case, findings)
        if task.direction == "backward":
            findings.autograd = max(findings.autograd, _autograd_error(case))
    numeric = filtered(task, module)
    problems = [*_honest_problems(task, findings), *attack_problems(findings), *_autograd_problems(findings)]
    if set(numeric.labels) != set(task.labels):
        problems.append(f"labels are {list(task.labels)}, but the filters say {list(numeric.labels)}")
    return {
        "task": task.name,
        "admissible": not problems,
        "problems": problems,
        "labels": list(numeric.labels),
        "notes": list(numeric.notes),
        "results": [_result_row(item, task.precision, findings) for item in task.configs_for("cpu")[0].results],
        "refused": {name: [len(findings.refused[name]), len(tried)] for name, tried in findings.tried.items()},
    }


def cases(
    task: TaskSpec,
    module: ModuleType,
    device_class: str = "cpu",
    distributions: Sequence[str] = DISTRIBUTIONS,
    device: torch.device | str = "cpu",
) -> Iterator[DrawnCase]:
    checker = checker_of(module, task.direction)
    for config in task.configs_for(device_class):
        for distribution in distributions:
            tensors = _drawn(task, module, config, distribution, number=0, device=device)
            yield DrawnCase(
                task=task,
                module=module,
                config=config,
                distribution=distribution,
                tensors=tensors,
                expected=reference(module, task.direction, call_arguments(config, tensors)),
                another=partial(_another, task, module, config, distribution, device),
                checker=checker,
            )


def _another(
    task: TaskSpec, module: ModuleType, config: Config, distribution: str, device: torch.device | str
) -> Results:
    tensors = _drawn(task, module, config, distribution, number=1, device=device)
    return reference(module, task.direction, call_arguments(config, tensors))


def _drawn(
    task: TaskSpec, module: ModuleType, config: Config, distribution: str, *, number: int, device: torch.device | str
) -> list[Tensor]:
    tensors = tensors_of(config, device)
    seed = hashlib.sha256(f"{task.name} {config.key} {distribution} {number}".encode()).digest()
    draw_for(module, config, seed, tensors, distribution)
    return tensors


def measure(case: DrawnCase, findings: Findings) -> None:
    """Errors of honest ways to compute, and of ways in lower precision."""
    for name, results in honest_ways(case):
        _note(case, name, results, findings)
    for name in lower_ways(case):
        lower(case, name, findings)


def lower(case: DrawnCase, name: str, findings: Findings) -> None:
    """Records whether one of `lower_ways` is refused. Raises what the reference raises: it may not take the dtype."""
    with torch.no_grad():
        results = as_tuple(case.call(*call_arguments(case.config, _cast(case.tensors, lower_ways(case)[name]))))
    _note(case, name, results, findings)
    _record(case, name, results, findings)


def _note(case: DrawnCase, name: str, results: Results, findings: Findings) -> None:
    for item, error in zip(case.config.results, case.errors(name, results), strict=True):
        findings.errors[name][item.name].add(*error)


def honest_ways(case: DrawnCase) -> Iterator[tuple[str, Results]]:
    """Eager, and naive sums: in float32 with one rounding at the end where the task has less."""
    with torch.no_grad():
        yield "eager", as_tuple(case.call(*case.arguments))
        yield "naive", naive_results(case)


def naive_results(case: DrawnCase, limit_s: float = math.inf) -> Results:
    """Raises TooLong where the sums would take a GPU more than `limit_s`."""
    if case.task.precision.nbytes >= 4:
        with NaiveSums(limit_s):
            return as_tuple(case.call(*case.arguments))
    arguments = call_arguments(case.config, _cast(case.tensors, lambda x: x.float()))
    with Widened(torch.float32), NaiveSums(limit_s):
        results = as_tuple(case.call(*arguments))
    return tuple(out.to(TORCH_DTYPES[item.dtype]) for item, out in zip(case.config.results, results, strict=True))


def lower_ways(case: DrawnCase) -> dict[str, Callable[[Tensor], Tensor]]:
    """What all operands become in the next lower precision: rounded to it, whatever range it has, or cast to it.

    Draws from distributions do not show it.
    """
    precision = case.task.precision
    if not case.checker.has_errors or not any(item.is_floating_point() for item in case.tensors):
        return {}
    if precision.name == "float32":
        return {LOWER_PRECISION[0]: lambda x: x.bfloat16(), LOWER_PRECISION[1]: lambda x: _rounded(x, 11)}
    if precision.lower is None:
        return {}
    name, bits = precision.lower
    return {name: lambda x: _rounded(x, bits)}


def _cast(tensors: Sequence[Tensor], cast: Callable[[Tensor], Tensor]) -> list[Tensor]:
    return [cast(item) if item.is_floating_point() else item for item in tensors]


def _rounded(x: Tensor, bits: int) -> Tensor:
    """Each value with `bits` significant bits, as tensor cores round the operands of a product: ties go to even."""
    gone = 53 - bits  # of the bits of a float64
    rounded = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    for source, target in zip(pieces(x), pieces(rounded), strict=True):
        word = source.double().view(torch.int64)
        up = (word >> gone).bitwise_and_(1).add_((1 << (gone - 1)) - 1)
        kept = up.add_(word).bitwise_and_(-(1 << gone)).view(torch.float64)
        target.copy_(kept.masked_fill_(source.isnan(), math.nan))
    return rounded


def attack(case: DrawnCase, findings: Findings) -> None:
    for name, answer in _cheap_answers(case):
        _record(case, name, tuple(answer), findings)


def _cheap_answers(case: DrawnCase) -> Iterator[tuple[str, Iterable[Tensor]]]:
    yield "zeros", (item.new_zeros(()).expand(item.shape) for item in case.expected)
    yield "another seed", case.previous
    yield "constant mean", map(_mean_of, case.expected, case.previous)
    if any(item.numel() > 1 for item in case.expected):
        yield "scalar", (item.flatten()[0].expand(item.shape) for item in case.expected)
    for operand, tensor in zip(case.config.tensors, case.tensors, strict=True):
        yield f"copy of {operand.name}", (_tiled(tensor, item.shape) for item in case.expected)
    if isinstance(case.checker, PropertyChecker | AuthorChecker):  # it may look at less than every element
        yield "first half", map(_first_half, case.expected, case.previous)
        yield "errors that cancel", map(_swaying, case.expected)


def _first_half(expected: Tensor, previous: Tensor) -> Tensor:
    """And another seed's for the rest."""
    half = expected.numel() // 2
    return torch.cat([expected.flatten()[:half], previous.flatten()[half:]]).reshape(expected.shape)


def _swaying(item: Tensor) -> Tensor:
    """Too large and too small by a tenth of what is usual, in turns, so that a mean does not show it."""
    signs = 1.0 - 2.0 * (torch.arange(item.numel(), device=item.device) % 2)
    return item + 0.1 * item.square().mean().sqrt() * signs.reshape(item.shape)


def _mean_of(expected: Tensor, previous: Tensor) -> Tensor:
    """For a scalar the mean would be the answer, so it is that of another seed."""
    source = expected if expected.numel() > 1 else previous
    return source.mean().expand(expected.shape)


def _tiled(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    size = math.prod(shape)
    flat = tensor.flatten()[:size].double()
    return (flat if len(flat) == size else flat.repeat(math.ceil(size / len(flat)))[:size]).reshape(shape)


def _record(case: DrawnCase, name: str, results: Results, findings: Findings) -> None:
    """A way is refused on a configuration if any distribution of values there refuses any of its results."""
    findings.tried[name].add(case.config.key)
    if not all(item.ok for item in case.compared(name, results, case.config.results)):
        findings.refused[name].add(case.config.key)


def _autograd_error(case: DrawnCase) -> float:
    """The largest error of the gradients against autograd of forward, both in float64."""
    forward = next(task for task in load_operation(case.task.folder) if task.direction == "forward")
    named = {item.name: _unpacked(value) for item, value in zip(case.config.arguments, case.arguments, strict=True)}
    leaves = {item.name.removeprefix("grad_"): _leaf(item, named) for item in case.config.results}
    arguments = [leaves.get(name, as_double(named.get(name))) for name in forward.argument_names]
    with torch.enable_grad():
        out = case.module.forward(*arguments)
    gradients = torch.autograd.grad(out, list(leaves.values()), named["grad_output"].double())
    return max(compare(a, b, 1.0, 1.0).max_rel_error for a, b in zip(gradients, case.expected, strict=True))


def _unpacked(value: Any) -> Any:
    return value[0] if isinstance(value, tuple) and isinstance(value[0], Tensor) else value


def _leaf(result: Result, named: Mapping[str, Any]) -> Tensor:
    """The operand of a gradient; an operand that backward does not get (a bias) does not matter to it."""
    value = named.get(result.name.removeprefix("grad_"))
    start = torch.zeros(result.shape) if value is None else value
    return start.double().requires_grad_()


def _honest_problems(task: TaskSpec, findings: Findings) -> Iterator[str]:
    for item in task.configs_for("cpu")[0].results:
        for way in HONEST:
            worst = findings.errors[way][item.name]
            if worst.element > ROOM * item.tolerance or worst.rms > ROOM * item.rms_tolerance:
                errors = f"{worst.element:.1e} per element, {worst.rms:.1e} in all"
                yield f"{item.name}: too little room for an honest float32 result ({way}: {errors})"


def attack_problems(findings: Findings) -> Iterator[str]:
    for name, tried in findings.tried.items():
        passed = sorted(tried - findings.refused[name])
        if passed:
            yield f"{name}: accepted on {len(passed)} of {len(tried)} configurations, such as {passed[0]}"


def _autograd_problems(findings: Findings) -> Iterator[str]:
    if not findings.autograd <= AUTOGRAD_TOLERANCE:
        yield f"gradients differ from those of autograd by {findings.autograd:.1e}"


def _result_row(item: Result, precision: Dtype, findings: Findings) -> dict[str, Any]:
    errors = {way: vars(found[item.name]) for way, found in findings.errors.items()}
    honest = [findings.errors[way][item.name] for way in HONEST]
    worst, rms = max(found.element for found in honest), max(found.rms for found in honest)
    full = proposed([worst], FLOOR if item.shape else 0.0), proposed([rms], RMS_FLOOR if item.shape else 0.0)
    wanted = full if precision.nbytes == 4 else tolerances_of(item, precision, worst, rms)
    return {
        "name": item.name,
        "tolerance": item.tolerance,
        "rms_tolerance": item.rms_tolerance,
        "errors": {way: {key: str(value) for key, value in error.items()} for way, error in errors.items()},
        "proposed_tolerance": wanted[0],
        "proposed_rms_tolerance": wanted[1],
    }


def tolerances_of(item: Result, precision: Dtype, error: float, rms_error: float) -> tuple[float, float]:
    """The two tolerances of a result, given the worst errors of honest ways to compute it in `precision`."""
    dtype = DTYPES[item.dtype]
    if dtype.name == "float64":  # eager is the reference itself, so its error says nothing
        return max(proposed([error], FLOOR_FLOAT64), FLOOR_FLOAT64), max(
            proposed([rms_error], FLOOR_FLOAT64), FLOOR_FLOAT64
        )
    if precision.nbytes >= 4:
        return proposed([error], FLOOR if item.shape else 1e-6), proposed(
            [rms_error], RMS_FLOOR if item.shape else 1e-6
        )
    if error == 0:
        return 0.0, 0.0
    floor, rms_floor = (FLOOR, RMS_FLOOR) if dtype.nbytes >= 4 else (2 * dtype.rounding, dtype.rounding / 2)
    if math.prod(item.shape) < _FEW_VALUES:
        rms_floor = floor
    return _two_digits(max(floor, SAFETY_LOW * error)), _two_digits(max(rms_floor, RMS_SAFETY_LOW * rms_error))


def _two_digits(value: float) -> float:
    """The next larger number of two digits."""
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / step * (1 - 1e-9)) * step:.2g}")


def proposed(errors: Sequence[float], floor: float) -> float:
    """Exactly zero where nothing is rounded; errors average out in a scalar, so it has no floor."""
    return _rounded_up(max(floor, SAFETY * max(errors))) if max(errors) > 0 else 0.0


def _rounded_up(value: float) -> float:
    """To 1, 2 or 5 times a power of ten."""
    power = math.floor(math.log10(value))
    return next(size for size in (float(f"{digit}e{power}") for digit in (1, 2, 5, 10)) if value <= 1.0001 * size)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", type=Path, help="folder of a suite")
    parser.add_argument("tasks", nargs="*", help="OP/DIRECTION, all if none is given")
    options = parser.parse_args(arguments)
    suites, name = options.suite.parent, options.suite.name
    wanted = [find_task(suites, f"{name}/{task}") for task in options.tasks] or load_suite(options.suite)
    torch.set_num_threads(1)
    for task in wanted:
        sys.stdout.write(json.dumps(admission(task)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
