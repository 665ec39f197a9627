"""Whether an imported task can be judged: its tolerances, what it trips, and which of its variants mean anything.

Runs in a sandbox, as the reference is somebody else's code. Tolerances are some times the worst error of honest work in
the task's precision; then every cheap answer must be refused, the next lower precision too, and the numeric filters of
the paper are applied. What fails becomes a label. Eager is held against torch.compile: a reference that is slow for no
reason makes speedups that mean little. Not covered: reading the reference for redundant work, which needs a reader.
"""

import faulthandler
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor

from benchmarks.harness.tasks.spec import Config, TaskSpec
from benchmarks.harness.tasks.spec_json import read_folder

from ..baseline import compiled_copy, without_precompiled_headers
from ..check import as_tuple, compare, load_reference
from ..shell import connect, set_threads, tried
from .admission import (
    FLOOR,
    LOWER_PRECISION,
    DrawnCase,
    Findings,
    attack,
    attack_problems,
    cases,
    lower,
    lower_ways,
    naive_results,
    tolerances_of,
)
from .filters import filtered, idle_operands

INEFFICIENT = 10.0  # eager takes this many times what torch.compile does
_NAIVE_MAX_S = 0.05  # of an eager call: naive sums take a hundred times as long
_NAIVE_ERROR_MAX = 1e-2  # more is no rounding: the naive sums do not know this operator
_VARIANT_ERROR_MAX = 100.0  # times that of the published values: what is left of the result is cancellation
_FILTER_BYTES_MAX = 256 << 20  # of results, which are stacked over seeds in float64
_PUBLISHED = ("published",)
_CALLS = 5

Errors = list[tuple[float, float]]  # of each result: the worst element and the root mean square


def main(arguments: Sequence[str]) -> None:
    link = connect(arguments)
    link.send(started=True)
    message = link.receive()
    set_threads(message["threads"])
    faulthandler.dump_traceback_later(message["traceback_s"])
    found = tried(examined, Path(message["folder"]), compare_compiled=message["compare_compiled"])
    if isinstance(found, Exception):
        found = {"problem": f"trying the checker on it failed: {type(found).__name__}: {found}"[:800]}
    link.send(**found)


def examined(folder: Path, *, compare_compiled: bool) -> dict[str, Any]:
    """The findings as plain JSON values. Raises whatever the author's code raises."""
    task = read_folder(folder)
    module = load_reference(task.folder)
    device_class = "cpu" if "cpu" in task.configs else "cuda"
    notes = [] if device_class == "cpu" else ["its sizes are for a GPU: the CPU has no configuration of it"]
    errors, dropped = _errors(task, module, device_class)
    tolerances = _tolerances(task, errors)
    task = _with(task, device_class, tolerances, dropped)
    labels, found = _admission(task, module, device_class)
    filters, filter_notes = _filters(task, module, device_class)
    if compare_compiled:
        slow, told = _efficiency(task, module, device_class)
        filters, filter_notes = [*filters, *slow], [*filter_notes, *told]
    return {
        "tolerances": tolerances,
        "labels": [*labels, *filters],
        "notes": [*notes, *found, *filter_notes, *(f"left out, as its results mean nothing: {key}" for key in dropped)],
        "dropped": dropped,
    }


def _errors(task: TaskSpec, module: ModuleType, device_class: str) -> tuple[list[Errors], list[str]]:
    """The errors of honest work on each case that stays, and the keys of variants that do not stay."""
    kept: list[Errors] = []
    dropped: list[str] = []
    for config in task.configs_for(device_class):
        published = config.values["variant"] == "published"
        only = replace(task, configs=dict.fromkeys(task.configs, (config,)))
        found = tried(lambda of: list(map(_case_errors, of)), cases(only, module, device_class, _PUBLISHED))
        if isinstance(found, Exception):
            if published:  # a variant may be outside of what the operation is for; published values may not
                raise found
            dropped.append(config.key)
            continue
        worst = _worst(kept) if kept else []
        if not published and any(
            new[0] > _VARIANT_ERROR_MAX * max(old[0], FLOOR) for new, old in zip(_worst(found), worst, strict=True)
        ):
            dropped.append(config.key)
        else:
            kept += found
    return kept, dropped


def _case_errors(case: DrawnCase) -> Errors:
    started_s = time.perf_counter()
    eager = as_tuple(case.call(*case.arguments))
    seconds = time.perf_counter() - started_s
    errors = _held(eager, case.expected)
    naive = _naive(case) if seconds < _NAIVE_MAX_S else None
    pairs = zip(errors, naive or errors, strict=True)
    return [(max(one[0], other[0]), max(one[1], other[1])) for one, other in pairs]


def _naive(case: DrawnCase) -> Errors | None:
    """None where the naive sums do not know an operator, in which case they compute something else."""
    errors = tried(lambda: _held(naive_results(case), case.expected))
    if isinstance(errors, Exception):  # an operator in a form that the naive sums do not cover
        return None
    limit = max(_NAIVE_ERROR_MAX, 2 * case.task.precision.rounding)
    return errors if all(worst < limit for worst, _ in errors) else None


def _held(results: Sequence[Tensor], expected: Sequence[Tensor]) -> Errors:
    found = [compare(out, ref, 1.0, 1.0) for out, ref in zip(results, expected, strict=True)]
    if not all(math.isfinite(item.max_rel_error) for item in found):
        raise ValueError("its results are not finite in its own precision")
    return [(item.max_rel_error, item.rms_error) for item in found]


def _worst(errors: Sequence[Errors]) -> Errors:
    return [(max(pair[0] for pair in same), max(pair[1] for pair in same)) for same in zip(*errors, strict=True)]


def _tolerances(task: TaskSpec, errors: Sequence[Errors]) -> list[tuple[float, float]]:
    results = task.configs[next(iter(task.configs))][0].results
    return [tolerances_of(item, task.precision, *worst) for item, worst in zip(results, _worst(errors), strict=True)]


def _with(
    task: TaskSpec, device_class: str, tolerances: Sequence[tuple[float, float]], dropped: Sequence[str]
) -> TaskSpec:
    def held(config: Config) -> Config:
        pairs = zip(config.results, tolerances, strict=True)
        results = tuple(replace(item, tolerance=one, rms_tolerance=both) for item, (one, both) in pairs)
        return replace(config, results=results)

    configs = task.configs_for(device_class)
    return replace(task, configs={device_class: tuple(held(item) for item in configs if item.key not in dropped)})


def _admission(task: TaskSpec, module: ModuleType, device_class: str) -> tuple[list[str], list[str]]:
    """Labels and notes for what the checker takes though it is no solution."""
    findings = Findings()
    failures: dict[str, Exception] = {}
    for case in cases(task, module, device_class, _PUBLISHED):
        attack(case, findings)
        for name in lower_ways(case):
            failed = tried(lower, case, name, findings)
            if isinstance(failed, Exception):  # not every reference runs in another dtype; all take rounded values
                failures[name] = failed
    for name in failures:
        findings.tried.pop(name, None)
    notes = [f"not tried in lower precision ({name}): {type(error).__name__}" for name, error in failures.items()]
    return _labels(attack_problems(findings), notes)


def _labels(problems: Iterator[str], notes: list[str]) -> tuple[list[str], list[str]]:
    found = list(problems)
    low = [item for item in found if item.startswith(LOWER_PRECISION)]
    labels = [*(["cheap-answers"] if len(low) < len(found) else []), *(["low-precision"] if low else [])]
    return labels, [*notes, *(f"the checker takes what is no solution: {item}" for item in found)]


def _filters(task: TaskSpec, module: ModuleType, device_class: str) -> tuple[list[str], list[str]]:
    """The paper's filters. A parameter without effect is a remark, all of them together a label; so with inputs."""
    config = task.configs_for(device_class)[0]
    if sum(item.nbytes for item in config.results) > _FILTER_BYTES_MAX:
        return [], ["its results are too large for the filters over seeds"]
    state = {item.name for item in config.tensors if "state" in item.options}
    inputs = {item.name for item in config.tensors} - state
    idle_inputs = set(idle_operands(task, config, module, inputs))
    found = filtered(task, module, device_class, sorted(idle_inputs))
    labels = [label for label in found.labels if not label.startswith("no-effect:")]
    stirred = [item for item in task.configs_for(device_class) if item.values["variant"] == "stirred"]
    idle_state = set(idle_operands(task, stirred[0], module, state)) if stirred and state else set()
    labels += _idle_labels("inputs", inputs, idle_inputs)
    labels += ["no-effect:weights"] if state and idle_state == state else []
    notes = [f"without effect on the results: {', '.join(sorted(idle_state))}"] if idle_state else []
    return labels, [*found.notes, *notes]


def _idle_labels(word: str, operands: set[str], idle: set[str]) -> list[str]:
    return [f"no-effect:{word}"] if operands and idle == operands else [f"no-effect:{name}" for name in sorted(idle)]


def _efficiency(task: TaskSpec, module: ModuleType, device_class: str) -> tuple[list[str], list[str]]:
    """How eager compares with torch.compile on the first configuration."""
    case = next(cases(task, module, device_class, _PUBLISHED))
    eager: Callable[..., Any] = case.call
    without_precompiled_headers()
    compiled_s = tried(lambda: _median_s(compiled_copy(eager), case.arguments))
    if isinstance(compiled_s, Exception):
        return [], [f"torch.compile cannot do it: {type(compiled_s).__name__}: {compiled_s}"[:200]]
    ratio = _median_s(eager, case.arguments) / compiled_s
    note = f"torch eager takes {ratio:.2g} times what torch.compile takes ({'×'.join(map(str, _sizes(case)))})"
    return (["inefficient-reference"] if ratio > INEFFICIENT else []), [note]


def _sizes(case: DrawnCase) -> Sequence[int]:
    return tuple(case.tensors[0].shape) if case.tensors else ()


def _median_s(function: Callable[..., Any], arguments: Sequence[Any]) -> float:
    for _ in range(2):
        function(*arguments)
    times = []
    for _ in range(_CALLS):
        started_s = time.perf_counter()
        function(*arguments)
        times.append(time.perf_counter() - started_s)
    return sorted(times)[_CALLS // 2]
