"""Whether an imported task can be judged: its tolerances, what it trips, and which of its variants mean anything.

Runs in a sandbox, as the reference is somebody else's code. Tolerances are some times the worst error of honest work in
the task's precision; then every cheap answer must be refused, the next lower precision too, and the numeric filters of
the paper are applied. What fails becomes a label. Eager is held against torch.compile: a reference that is slow for no
reason makes speedups that mean little. Not covered: reading the reference for redundant work, which needs a reader.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor

from benchmarks.harness.tasks.spec import Config, TaskSpec
from benchmarks.harness.tasks.spec_json import read_folder

from ..baseline import compiled_copy, without_precompiled_headers
from ..check import as_tuple, load_reference
from ..checkers import CheckFault
from ..shell import tried
from .admission import (
    FLOOR,
    LOWER_PRECISION,
    RMS_FLOOR,
    SAFETY,
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
from .place import ExaminationPlace

INEFFICIENT = 10.0  # eager takes this many times what torch.compile does
_NAIVE_MAX_S = 0.05  # of an eager call: naive sums take a hundred times as long
_NAIVE_ERROR_MAX = 1e-2  # more is no rounding: the naive sums do not know this operator
_VARIANT_ERROR_MAX = 100.0  # times that of the published values: what is left of the result is cancellation
_SPREAD_ERROR_MAX = 3.0  # the same for values that are spread out, which must not make the tolerances much wider
_NAIVE_LIMIT_S = 1.0  # of the naive sums of a call on a GPU
_SINGLY_S = 2.0  # on a GPU, of exchanging operands one by one
_FILTER_CALLS = 10  # of the reference at least: over seeds, and with operands exchanged
_PUBLISHED = ("published",)
_CALLS = 5

_FOR_GPUS = "its sizes are for a GPU: the CPU has no configuration of it"
_ON_A_GPU = "examined on a GPU: the CPU has no configuration of it"

Errors = list[tuple[float, float]]  # of each result: the worst element and the root mean square


def examined(folder: Path, place: ExaminationPlace, *, compare_compiled: bool) -> dict[str, Any]:
    """The findings as plain JSON values. Raises whatever the author's code raises."""
    task = read_folder(folder)
    module = load_reference(task.folder)
    device_class = "cpu" if "cpu" in task.configs else "cuda"
    notes = [] if device_class == "cpu" else [_FOR_GPUS if place.device_class == "cpu" else _ON_A_GPU]
    errors, dropped, spare = _errors(task, module, device_class, place)
    tolerances = _tolerances(task, errors)
    task = _with(task, device_class, tolerances, [*dropped, *spare])
    labels, found = _admission(task, module, device_class, place)
    filters, filter_notes = _filters_that_fit(task, module, device_class, place)
    place.free()
    if compare_compiled:
        slow, told = _efficiency(task, module, device_class, place)
        filters, filter_notes = [*filters, *slow], [*filter_notes, *told]
    left_out = [f"left out, because its results are not finite or cancel out: {key}" for key in dropped]
    return {
        "tolerances": tolerances,
        "labels": [*labels, *filters],
        "notes": [*notes, *found, *filter_notes, *left_out],
        "dropped": [*dropped, *spare],
    }


def _errors(
    task: TaskSpec, module: ModuleType, device_class: str, place: ExaminationPlace
) -> tuple[list[Errors], list[str], list[str]]:
    """The errors of honest work on each case that stays, and the keys of variants that mean nothing or are spare."""
    kept: list[Errors] = []
    dropped: list[str] = []
    spare: list[str] = []
    for config in task.configs_for(device_class):
        variant = str(config.values["variant"])
        if variant == "shifted" and config.key.removesuffix(variant) + "spread" not in dropped:
            spare.append(config.key)
            continue
        drawn = cases(_only(task, config), module, device_class, _PUBLISHED, place.device)
        found = tried(lambda of: [_case_errors(case, place) for case in of], drawn)
        place.free()
        if isinstance(found, Exception):
            # a variant may be outside of what the operation is for; published values may not
            if variant == "published" or isinstance(found, CheckFault) or place.no_memory(found):
                raise found
            found.__traceback__ = None  # its frames hold tensors
            dropped.append(config.key)
        elif variant == "published" or _means_something(variant, _worst(found), _worst(kept)):
            kept += found
        else:
            dropped.append(config.key)
    return kept, dropped, spare


def _means_something(variant: str, errors: Errors, published: Errors) -> bool:
    """Whether honest work is not much less exact on the values of a variant."""
    if variant == "spread":
        least, least_rms = FLOOR / SAFETY, RMS_FLOOR / SAFETY
        pairs = zip(errors, published, strict=True)
        return all(
            new[0] <= _SPREAD_ERROR_MAX * max(old[0], least) and new[1] <= _SPREAD_ERROR_MAX * max(old[1], least_rms)
            for new, old in pairs
        )
    return all(new[0] <= _VARIANT_ERROR_MAX * max(old[0], FLOOR) for new, old in zip(errors, published, strict=True))


def _only(task: TaskSpec, config: Config) -> TaskSpec:
    return replace(task, configs=dict.fromkeys(task.configs, (config,)))


def _case_errors(case: DrawnCase, place: ExaminationPlace) -> Errors:
    started_s = place.now_s()
    eager = as_tuple(case.call(*case.arguments))
    seconds = place.now_s() - started_s
    errors = _held(case, "eager", eager)
    del eager
    naive = _naive(case, place) if seconds < _NAIVE_MAX_S and place.has_time_for(_NAIVE_LIMIT_S) else None
    pairs = zip(errors, naive or errors, strict=True)
    return [(max(one[0], other[0]), max(one[1], other[1])) for one, other in pairs]


def _naive(case: DrawnCase, place: ExaminationPlace) -> Errors | None:
    """None where the naive sums do not know an operator, in which case they compute something else."""
    limit_s = _NAIVE_LIMIT_S if place.is_bounded else math.inf
    errors = tried(lambda: _held(case, "naive", naive_results(case, limit_s)))
    if isinstance(errors, CheckFault):
        raise errors
    if isinstance(errors, Exception):  # an operator in a form that the naive sums do not cover
        return None
    limit = max(_NAIVE_ERROR_MAX, 2 * case.task.precision.rounding)
    return errors if all(worst < limit for worst, _ in errors) else None


def _held(case: DrawnCase, way: str, results: Sequence[Tensor]) -> Errors:
    errors = case.errors(way, results)
    if not all(math.isfinite(element) for element, _ in errors):
        why = next((item.reason for item in case.compared(way, results, case.config.results) if not item.ok), "")
        told = "its results are not finite in its own precision, or its own checker refuses them"
        raise ValueError(f"{told}: {why}")
    return errors


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


def _admission(
    task: TaskSpec, module: ModuleType, device_class: str, place: ExaminationPlace
) -> tuple[list[str], list[str]]:
    """Labels and notes for what the checker takes though it is no solution.

    Not on values that are spread: clamps hide there what other values show, and a solution must be right on all.
    """
    findings = Findings()
    failures: dict[str, str] = {}
    configs = [item for item in task.configs_for(device_class) if item.values["variant"] != "spread"]
    done, longest_s = 0, 0.0
    for config in configs:
        if done and not place.has_time_for(longest_s):
            break
        started_s = place.now_s()
        failures |= _tried_on(cases(_only(task, config), module, device_class, _PUBLISHED, place.device), findings)
        place.free()
        longest_s, done = max(longest_s, place.now_s() - started_s), done + 1
    for name in failures:
        findings.tried.pop(name, None)
    notes = [f"not tried in lower precision ({name}): {error}" for name, error in failures.items()]
    if done < len(configs):
        notes.append(f"the checker was tried on {done} of {len(configs)} configurations, because they take long")
    return _labels(attack_problems(findings), notes)


def _tried_on(drawn: Iterator[DrawnCase], findings: Findings) -> dict[str, str]:
    """The names of lower precisions in which the reference does not run, with the kind of the error."""
    failures: dict[str, str] = {}
    for case in drawn:
        attack(case, findings)
        for name in lower_ways(case):
            failed = tried(lower, case, name, findings)
            if isinstance(failed, CheckFault):
                raise failed
            if isinstance(failed, Exception):  # not every reference runs in another dtype; all take rounded values
                failures[name] = type(failed).__name__
    return failures


def _labels(problems: Iterator[str], notes: list[str]) -> tuple[list[str], list[str]]:
    found = list(problems)
    low = [item for item in found if item.startswith(LOWER_PRECISION)]
    labels = [*(["cheap-answers"] if len(low) < len(found) else []), *(["low-precision"] if low else [])]
    return labels, [*notes, *(f"the checker accepts a wrong result: {item}" for item in found)]


def _filters_that_fit(
    task: TaskSpec, module: ModuleType, device_class: str, place: ExaminationPlace
) -> tuple[list[str], list[str]]:
    found = tried(_filters, task, module, device_class, place)
    if not isinstance(found, Exception):
        return found
    if place.no_memory(found):
        return [], ["the filters over seeds need more memory than the GPU has"]
    raise found


def _filters(
    task: TaskSpec, module: ModuleType, device_class: str, place: ExaminationPlace
) -> tuple[list[str], list[str]]:
    """The paper's filters. A parameter without effect is a remark, all of them together a label; so with inputs."""
    config = task.configs_for(device_class)[0]
    if sum(item.nbytes for item in config.results) > place.stacked_bytes_max:
        return [], ["its results are too large for the filters over seeds"]
    if place.is_bounded and not place.has_time_for(_FILTER_CALLS * _reference_s(task, module, config, place)):
        return [], ["its reference is too slow in float64 for the filters over seeds"]
    how: dict[str, Any] = {"device": place.device, "singly_s": _SINGLY_S if place.is_bounded else None}
    state = {item.name for item in config.tensors if "state" in item.options}
    inputs = {item.name for item in config.tensors} - state
    idle_inputs = set(idle_operands(task, config, module, inputs, **how))
    place.free()
    found = filtered(task, module, device_class, sorted(idle_inputs), place.device)
    place.free()
    labels = [label for label in found.labels if not label.startswith("no-effect:")]
    stirred = [item for item in task.configs_for(device_class) if item.values["variant"] == "stirred"]
    idle_state: set[str] = set()
    if stirred and state:
        idle_state = set(idle_operands(task, stirred[0], module, state, **how))
    labels += _idle_labels("inputs", inputs, idle_inputs)
    labels += ["no-effect:weights"] if state and idle_state == state else []
    notes = [f"no effect on the results: {', '.join(sorted(idle_state))}"] if idle_state else []
    return labels, [*found.notes, *notes]


def _reference_s(task: TaskSpec, module: ModuleType, config: Config, place: ExaminationPlace) -> float:
    """How long a draw and its reference in float64 take."""
    started_s = place.now_s()
    for _ in cases(_only(task, config), module, place.device_class, _PUBLISHED, place.device):
        pass
    return place.now_s() - started_s


def _idle_labels(word: str, operands: set[str], idle: set[str]) -> list[str]:
    return [f"no-effect:{word}"] if operands and idle == operands else [f"no-effect:{name}" for name in sorted(idle)]


def _efficiency(
    task: TaskSpec, module: ModuleType, device_class: str, place: ExaminationPlace
) -> tuple[list[str], list[str]]:
    """How eager compares with torch.compile on the first configuration."""
    case = next(cases(task, module, device_class, _PUBLISHED, place.device))
    eager: Callable[..., Any] = case.call
    without_precompiled_headers()
    compiled_s = tried(lambda: _median_s(compiled_copy(eager), case.arguments, place))
    if isinstance(compiled_s, Exception):
        return [], [f"torch.compile cannot do it: {type(compiled_s).__name__}: {compiled_s}"[:200]]
    ratio = _median_s(eager, case.arguments, place) / compiled_s
    note = f"torch eager takes {ratio:.2g} times what torch.compile takes ({'×'.join(map(str, _sizes(case)))})"
    return (["inefficient-reference"] if ratio > INEFFICIENT else []), [note]


def _sizes(case: DrawnCase) -> Sequence[int]:
    return tuple(case.tensors[0].shape) if case.tensors else ()


def _median_s(function: Callable[..., Any], arguments: Sequence[Any], place: ExaminationPlace) -> float:
    for _ in range(2):
        function(*arguments)
    times = []
    for _ in range(_CALLS):
        started_s = place.now_s()
        function(*arguments)
        times.append(place.now_s() - started_s)
    return sorted(times)[_CALLS // 2]
