"""What a task is: arguments, results, tolerances and configurations, read from `task.toml`.

A task folder holds `task.toml` (data) and `reference.py` (torch functions `forward` and `backward` with the
positional arguments of a submission). Everything the supervisor needs to lay out memory is in `task.toml`, so it
never imports torch. Not covered here: drawing values (`child/inputs.py`) and comparing them (`child/check.py`).
"""

import hashlib
import itertools
import json
import math
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..dtypes import DTYPES, Dtype, arithmetic_factor, precision_of
from ..errors import TaskError
from .expressions import Value, evaluate

DIRECTIONS = ("forward", "backward")
GROUPS = ("single", "multi", "hidden")
_CALLS, _CALLS_MAX = "calls", 1e9
_NUMBER = re.compile(r"[0-9]{1,10}(?:\.[0-9]{1,10})?")
VALUES = "values.safetensors"  # beside the reference: values as real work has them (`child/recorded.py`)


@dataclass(frozen=True)
class TensorArgument:
    """One tensor of a call: its shape, dtype and how its values are drawn (`child/inputs.py`)."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    draw: str
    options: Mapping[str, Value] = field(default_factory=dict)
    packed: bool = False  # handed over as a tuple of one tensor

    @property
    def nbytes(self) -> int:
        return DTYPES[self.dtype].nbytes * math.prod(self.shape)


@dataclass(frozen=True)
class ValueArgument:
    """One argument that is no tensor: a number, a tuple of numbers or None."""

    name: str
    value: Value


Argument = TensorArgument | ValueArgument


@dataclass(frozen=True)
class Result:
    """One result of a call and how far it may lie from the float64 reference.

    An element passes if `|out - ref| <= tolerance * (|ref| + rms(ref))`; the whole result passes if every element
    does and `rms(out - ref) <= rms_tolerance * rms(ref)`.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    tolerance: float
    rms_tolerance: float

    @property
    def nbytes(self) -> int:
        return DTYPES[self.dtype].nbytes * math.prod(self.shape)


@dataclass(frozen=True)
class Config:
    """One concrete choice of values of a task."""

    key: str
    group: str
    values: Mapping[str, Value]
    arguments: tuple[Argument, ...]
    results: tuple[Result, ...]
    bytes_moved: int
    flops: int

    @property
    def tensors(self) -> tuple[TensorArgument, ...]:
        return tuple(item for item in self.arguments if isinstance(item, TensorArgument))

    @property
    def hidden(self) -> bool:
        return self.group == "hidden"

    @property
    def weight(self) -> float:
        """How much it counts in the score: its `calls` where a task says how often each is called."""
        return weight_of(self.values.get(_CALLS))


def weight_of(calls: object) -> float:
    """Whatever is no positive number in reason counts once: a task of somebody else may call anything `calls`."""
    return float(calls) if isinstance(calls, int | float) and 0 < calls <= _CALLS_MAX else 1.0


def weight_of_key(key: str) -> float:
    """The weight of a configuration of which only the key is known."""
    named = dict(part.partition("=")[::2] for part in key.split(","))
    text = named.get(_CALLS, "")
    return weight_of(float(text)) if _NUMBER.fullmatch(text) else 1.0


@dataclass(frozen=True)
class TaskSpec:
    """One operation in one direction, with its configurations per device class (`cpu`, `cuda`)."""

    suite: str
    op: str
    direction: str
    version: int
    title: str
    formula: str
    summary: str
    family: str
    labels: tuple[str, ...]
    argument_names: tuple[str, ...]
    result_names: tuple[str, ...]
    exact: bool  # the operation rounds nothing (a pooling), so an error of exactly zero is expected
    configs: Mapping[str, tuple[Config, ...]]
    reference_source: str
    folder: Path
    values_sha256: str = ""  # of the values beside the reference, if there are any

    @property
    def name(self) -> str:
        return f"{self.op}/{self.direction}"

    @property
    def content_sha256(self) -> str:
        """Changes whenever anything changes that a result depends on."""
        payload = asdict(self)
        payload.pop("folder")
        if not self.values_sha256:
            payload.pop("values_sha256")
        for words in ("title", "summary", "formula", "labels", "family"):
            payload.pop(words)
        return hashlib.sha256(json.dumps(payload, sort_keys=True, default=str).encode()).hexdigest()

    def least_flops(self, config: Config, device_class: str) -> int:
        """What the roofline counts, as operations at the measured rate, which is that of float32.

        After Winograd, F(4×4, 3×3), a convolution needs a quarter of `flops`. Matrix units compute
        faster with small dtypes.
        """
        flops = config.flops // 4 if self.family == "convolution" else config.flops
        operands = ((item.dtype, math.prod(item.shape)) for item in config.tensors)
        return flops // arithmetic_factor(operands, device_class)

    @property
    def precision(self) -> Dtype:
        """Of its coarsest floating-point tensor. All configurations have the same dtypes."""
        first = next(iter(self.configs.values()))[0]
        return precision_of([*(item.dtype for item in first.tensors), *(item.dtype for item in first.results)])

    @property
    def is_module(self) -> bool:
        """The reference is a torch module, so that a submission may be one."""
        return all("init" in config.values for configs in self.configs.values() for config in configs)

    @property
    def entry(self) -> str | None:
        """The function that a submission in Python defines where no module is replaced; None where there is none."""
        first = next(iter(self.configs.values()), ())
        return str(first[0].values["entry"]) if first and "entry" in first[0].values else None

    @property
    def takes_python(self) -> bool:
        return self.is_module or self.entry is not None

    def configs_for(self, device_class: str) -> tuple[Config, ...]:
        if device_class not in self.configs:
            raise TaskError(f"{self.name} has no configurations for {device_class}")
        return self.configs[device_class]


def load_suite(folder: Path) -> tuple[TaskSpec, ...]:
    """Every task below `folder`, sorted by name. The suite is named after the folder, dashes for underscores."""
    return tuple(task for path in sorted(folder.glob("*/task.toml")) for task in load_operation(path.parent))


def load_operation(folder: Path) -> tuple[TaskSpec, ...]:
    """The one or two tasks of an operation. Raises TaskError naming the file and what is wrong in it."""
    folder = folder.resolve()
    path = folder / "task.toml"
    try:
        data = tomllib.loads(path.read_text())
        source = (folder / "reference.py").read_text()
        values = folder / VALUES
        values_sha256 = hashlib.sha256(values.read_bytes()).hexdigest() if values.is_file() else ""
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise TaskError(f"cannot read the task in {folder.name}: {error}") from error
    try:
        tasks = [_task(data, direction, source, folder) for direction in DIRECTIONS if direction in data]
        return tuple(replace(task, values_sha256=values_sha256) for task in tasks)
    except KeyError as error:
        raise TaskError(f"{path.parent.name}/task.toml lacks {error}") from error


def find_task(suites: Path, name: str) -> TaskSpec:
    """The task called `[SUITE/]OP/DIRECTION`, robust-kbench if no suite is given. Raises TaskError."""
    parts = name.split("/")
    if len(parts) == 2:
        parts = ["robust-kbench", *parts]
    if len(parts) != 3:
        raise TaskError(f"{name!r} is not a task: write OP/DIRECTION, for example mnist_linear_relu/forward")
    folder = suites / parts[0].replace("-", "_") / parts[1]
    if not os.path.isfile(folder / "task.toml"):
        raise TaskError(f"there is no task {name!r}")
    for task in load_operation(folder):
        if task.direction == parts[2]:
            return task
    raise TaskError(f"{parts[1]} has no {parts[2]} task")


def resized(task: TaskSpec, config: Config, values: Mapping[str, Value]) -> Config:
    """`config` with other `values`. Raises TaskError where they make no sense, and for a task without a `task.toml`."""
    try:
        section = tomllib.loads((task.folder / "task.toml").read_text())[task.direction]
    except (OSError, tomllib.TOMLDecodeError, KeyError) as error:
        raise TaskError(f"the sizes of {task.name} are fixed") from error
    key = ",".join(f"{name}={_text(value)}" for name, value in values.items())
    return _config(key, config.group, {**config.values, **values}, section)


def _task(data: Mapping[str, Any], direction: str, source: str, folder: Path) -> TaskSpec:
    section = data[direction]
    return TaskSpec(
        suite=folder.parent.name.replace("_", "-"),
        op=data["op"],
        direction=direction,
        version=section["version"],
        title=data["title"] + (" (backward)" if direction == "backward" else ""),
        formula=section.get("formula", data["formula"]),
        summary=section.get("summary", data["summary"]),
        family=data["family"],
        labels=tuple(section.get("labels", ())),
        argument_names=tuple(item["name"] for item in section["arguments"]),
        result_names=tuple(item["name"] for item in section["results"]),
        exact=section.get("exact", False),
        configs={device: tuple(_configs(data, section, device)) for device in ("cpu", "cuda") if device in section},
        reference_source=source,
        folder=folder,
    )


def _configs(data: Mapping[str, Any], section: Mapping[str, Any], device: str) -> Iterator[Config]:
    """The product input × init × shared of each group, later parts overriding earlier ones, duplicates dropped."""
    seen: set[str] = set()
    for group in (name for name in GROUPS if name in section[device]):
        lists = section[device][group]
        parts = (lists.get(part, [{}]) for part in ("input", "init", "shared"))
        for chosen in itertools.product(*parts):
            values = {key: value for part in chosen for key, value in part.items()}
            key = ",".join(f"{name}={_text(value)}" for name, value in values.items())
            if key not in seen or group == "single":
                seen.add(key)
                yield _config(key, group, {**data.get("constants", {}), **values}, section)


def _config(key: str, group: str, values: Mapping[str, Value], section: Mapping[str, Any]) -> Config:
    """`bytes` may be left out: then every argument is read once and every result written once."""
    arguments = tuple(_argument(item, values) for item in section["arguments"])
    results = tuple(
        Result(
            name=item["name"],
            shape=_shape(item["shape"], values),
            dtype=item.get("dtype", "float32"),
            tolerance=item["tolerance"],
            rms_tolerance=item["rms_tolerance"],
        )
        for item in section["results"]
    )
    everything = sum(item.nbytes for item in (*arguments, *results) if not isinstance(item, ValueArgument))
    return Config(
        key=key,
        group=group,
        values=values,
        arguments=arguments,
        results=results,
        bytes_moved=int(evaluate(section["bytes"], values)) if "bytes" in section else everything,
        flops=int(evaluate(section["flops"], values)),
    )


def _argument(item: Mapping[str, Any], values: Mapping[str, Value]) -> Argument:
    if "when" in item and not evaluate(item["when"], values):
        return ValueArgument(item["name"], None)
    if "value" in item:
        return ValueArgument(item["name"], evaluate(str(item["value"]), values))
    return TensorArgument(
        name=item["name"],
        shape=_shape(item["shape"], values),
        dtype=item.get("dtype", "float32"),
        draw=item["draw"],
        options={name: evaluate(str(text), values) for name, text in item.get("options", {}).items()},
        packed=item.get("packed", False),
    )


def _shape(items: list[Any], values: Mapping[str, Value]) -> tuple[int, ...]:
    return tuple(int(evaluate(str(item), values)) for item in items)


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
