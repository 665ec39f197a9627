"""FlashInfer Trace and SOL-ExecBench as their authors publish them: JSON definitions and workloads, one line each.

Two dialects of one format. FlashInfer Trace: `definitions/**/NAME.json` and `workloads/**/NAME.jsonl` below one root,
each line a trace whose workload is read. SOL-ExecBench: a folder with `definition.json` and `workload.jsonl`, each line
a workload. Every workload is a configuration; a hidden one has other sizes. The author's tolerance decides nothing.
Small inputs from files become part of the task; what needs more is left out and named. Does NOT run a line of the
reference.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..harness import DTYPES, ForeignConfig, ForeignTask, TaskError, arithmetic
from .records import (
    UNNAMED,
    Found,
    Unreadable,
    demand,
    files_below,
    is_name,
    is_number,
    parsed,
    read_text,
    slug,
    words,
)
from .tensors import TensorFiles, TensorForm

_WORKLOADS_MAX = 40
_LINES_MAX = 10_000
_CONSTRAINTS_MAX = 64
_NAMES_MAX = 64  # of axes, of inputs and of outputs, and of the axes of a tensor
_COMPUTED_MAX = 10_000  # expressions of one definition, in all of its workloads together
_WORKLOAD_FILE_BYTES_MAX = 16 << 20
_SIZE_MAX = 1 << 40
_LFS = "version https://git-lfs"
_DEFINITION, _WORKLOAD = "definition.json", "workload.jsonl"
_KINDS = ("random", "custom", "scalar", "safetensors")
Json = dict[str, Any]


def read_flashinfer(folder: Path, suite: str) -> Iterator[Found]:
    """One `Found` per definition below a folder called `definitions`."""
    by_root: dict[Path, dict[str, Path]] = {}
    for path in files_below(folder):
        root = _root_of(path.relative_to(folder)) if path.suffix == ".json" else None
        if root is not None:
            if root not in by_root:
                by_root[root] = _workload_files(folder / root)
            yield _found(path, _workloads_of(path, folder / root, by_root[root]), folder, suite)


def read_sol(folder: Path, suite: str) -> Iterator[Found]:
    """One `Found` per `definition.json`."""
    for path in files_below(folder):
        if path.name == _DEFINITION and _root_of(path.relative_to(folder)) is None:
            yield _found(path, path.parent / _WORKLOAD, folder, suite)


def problem(path: Path, suites: Mapping[str, str]) -> Found | None:
    """The definition at a path: a JSON file of either dialect, or a folder with `definition.json`."""
    if path.is_dir():
        path /= _DEFINITION
    if path.suffix != ".json" or not path.is_file():
        return None
    root = _root_of(path)
    if root is not None:
        return _found(path, _workloads_of(path, root, _workload_files(root)), root, suites["flashinfer-trace"])
    if path.name != _DEFINITION:
        return None
    return _found(path, path.parent / _WORKLOAD, path.parent, suites["sol-execbench"])


def _root_of(path: Path) -> Path | None:
    """The folder that holds `definitions/`, if the path lies below one."""
    return next((parent.parent for parent in path.parents if parent.name == "definitions"), None)


def _workload_files(root: Path) -> dict[str, Path]:
    """All below `root/workloads`, the first of each name."""
    places, found = root / "workloads", dict[str, Path]()
    for path in [] if places.is_symlink() else files_below(places):
        if path.suffix == ".jsonl":
            found.setdefault(path.stem, path)
    return found


def _workloads_of(path: Path, root: Path, known: Mapping[str, Path]) -> Path:
    """Of a definition below `root/definitions`; sub-folders are called alike, but need not be."""
    alike = (root / "workloads" / path.relative_to(root / "definitions")).with_suffix(".jsonl")
    return alike if alike.is_file() else known.get(path.stem, alike)


def _found(path: Path, workloads: Path, folder: Path, suite: str) -> Found:
    named = path.parent if path.name == _DEFINITION else path
    op, direction, file = slug(named.stem), "forward", str(path.relative_to(folder))
    try:
        text = read_text(path, folder)
        data = _json(text, path.name)
        named_so = slug(str(data.get("name", "")))
        op = op if named_so == UNNAMED else named_so
        direction = "backward" if data.get("op_type") == "backward" else direction
        root = path.parent if path.name == _DEFINITION else folder / (_root_of(path.relative_to(folder)) or "")
        definition = _Definition(data, text, path.name, TensorFiles(root))
        configs, left_out = definition.configs(_workload_lines(workloads, folder), workloads.name)
        return Found(op, direction, file, definition.task(suite, op, direction, configs, left_out))
    except Unreadable as error:
        return Found(op, direction, file, problem=str(error))


class _LeftOut(Exception):
    """A workload cannot be judged here, which is no fault of the definition; the text says why."""


class _Definition:
    """One definition whose fields have been checked. Raises Unreadable naming the field."""

    def __init__(self, data: Json, text: str, file: str, files: TensorFiles) -> None:
        self.data, self.text, self.file, self.files = data, text, file, files
        self.kinds: Json = {}
        self.axes = self._mapping("axes")
        for axis, item in self.axes.items():
            self._check_axis(axis, item)
        self.inputs, self.outputs = self._tensors("inputs"), self._tensors("outputs")
        if twice := set(self.inputs) & set(self.outputs):
            raise Unreadable(f"{file}: {sorted(twice)[0]} is both an input and an output")
        if idle := sorted(set(self.var_axes) - {axis for item in self.inputs.values() for axis in item["shape"] or ()}):
            raise Unreadable(f"{self._at('axes', idle[0])}: no input has the axis {idle[0]}")
        self.reference = data.get("reference")
        if not isinstance(self.reference, str):
            raise Unreadable(f"{file} lacks reference, a text with a function run")
        entry = data.get("custom_inputs_entrypoint")
        if entry and not isinstance(entry, str):
            raise Unreadable(f"{file}: custom_inputs_entrypoint is not a name")
        self.constraints = data.get("constraints") or []
        if not isinstance(self.constraints, list):
            raise Unreadable(f"{file}: constraints is not a list")
        if len(self.constraints) > _CONSTRAINTS_MAX:
            raise Unreadable(f"{file}: it has {len(self.constraints)} constraints; at most {_CONSTRAINTS_MAX} are read")
        self.constraints = [text for text in self.constraints if not self._is_about_values(text)]
        self.computed = 0
        module = parsed(self.reference, f"{file}: reference")
        demand(module, f"{file}: reference", "run", *([entry] if entry else []))

    @property
    def var_axes(self) -> list[str]:
        return [axis for axis, item in self.axes.items() if item["type"] == "var"]

    def configs(self, lines: Sequence[tuple[int, str]], file: str) -> tuple[list[ForeignConfig], list[str]]:
        """One configuration per workload, each once, and one that is hidden; why workloads were left out."""
        found: list[Json] = []
        left_out: list[str] = []
        for number, line in lines:
            place = f"{file}:{number}"
            if len(found) == _WORKLOADS_MAX:
                left_out.append(f"{place}: {_WORKLOADS_MAX} workloads are taken")
                continue
            try:
                values = self._values(_workload_of(line, place), place)
            except Unreadable as error:
                left_out.append(str(error))
                continue
            except _LeftOut as error:
                left_out.append(f"{place}: {error}")
                continue
            if values not in found:
                found.append(values)
        if not found:
            why = f"all {len(left_out)} workloads are left out; {left_out[0]}" if left_out else "no workload"
            raise Unreadable(why if left_out else f"{file}: {why}")
        configs = [ForeignConfig("multi" if number else "single", item) for number, item in enumerate(found)]
        hidden = self._hidden(found)
        return [*configs, *([ForeignConfig("hidden", hidden)] if hidden else [])], left_out

    def task(
        self, suite: str, op: str, direction: str, configs: Sequence[ForeignConfig], left_out: Sequence[str]
    ) -> ForeignTask:
        constants = {axis: item["value"] for axis, item in self.axes.items() if item["type"] == "const"}
        expressions = {axis: item["expression"] for axis, item in self.axes.items() if item["type"] == "expr"}
        stored = [name for name, kind in self.kinds.items() if kind == "safetensors"]
        used = {str(config.values[name]) for config in configs for name in stored}
        data = {name: self.files.packed[name] for name in sorted(used)}
        described = {
            "op_type": str(self.data.get("op_type", "")),
            "custom": self.data.get("custom_inputs_entrypoint") if self._drawn("custom") else None,
            "axes": constants,
            **({"expressions": expressions} if expressions else {}),
            "inputs": {name: {**item, "kind": self.kinds[name]} for name, item in self.inputs.items()},
            "outputs": self.outputs,
            **({"data": data} if data else {}),
        }
        text = " ".join(str(self.data.get("description") or "").split())[:400]
        note = f" {len(left_out)} workloads are left out; the first: {left_out[0][:300]}." if left_out else ""
        return ForeignTask(
            suite=suite,
            op=op,
            direction=direction,
            title=words(str(self.data.get("name", op)))[:200],
            summary=(text + note).strip(),
            family=str(self.data.get("op_type") or "definition")[:40],
            form="definition",
            source=f"{self.reference}\n\nKBENCH_DEFINITION = {described!r}\n",
            configs=tuple(configs),
            labels=("fixed-inputs",) if data else (),
        )

    def _drawn(self, kind: str) -> list[str]:
        return [name for name, found in self.kinds.items() if found == kind]

    def _values(self, workload: Json, place: str) -> Json:
        """Axes, scalars and names of tensors. Raises _LeftOut, and Unreadable for what is wrong."""
        described = workload.get("inputs")
        if not isinstance(described, dict):
            raise Unreadable(f"{place}: it has no inputs")
        kinds = {name: self._kind(name, described.get(name), place) for name in self.inputs}
        if "custom" in kinds.values() and not self.data.get("custom_inputs_entrypoint"):
            raise Unreadable(f"{place}: it has custom inputs, and {self.file} names no custom_inputs_entrypoint")
        if {"random", "custom"}.isdisjoint(kinds.values()):
            raise _LeftOut("all of its inputs are fixed, so every call would be the same")
        if self.kinds and kinds != self.kinds:
            raise _LeftOut("its inputs are generated differently from those of the first workload")
        values = self._sizes(workload["axes"], place)
        for name, kind in kinds.items():
            if kind == "scalar":
                values[name] = self._scalar(described[name], f"{place}: input {name}")
            elif kind == "safetensors":
                values[name] = self._from_file(name, described[name], values)
        self.kinds = kinds
        return values

    def _kind(self, name: str, entry: Any, place: str) -> str:
        kind = entry.get("type") if isinstance(entry, dict) else None
        if kind not in _KINDS or (kind == "scalar") is not (self.inputs[name]["shape"] is None):
            raise Unreadable(f"{place}: input {name} cannot be {repr(kind)[:40]}")
        return str(kind)

    def _from_file(self, name: str, entry: Json, sizes: Json) -> str:
        item = self.inputs[name]
        known = {axis: found["value"] for axis, found in self.axes.items() if found["type"] == "const"} | sizes
        try:
            return self.files.take(entry, TensorForm(item["dtype"], tuple(known[axis] for axis in item["shape"])))
        except Unreadable as error:
            raise _LeftOut(f"input {name}: {error}") from error

    @staticmethod
    def _scalar(entry: Any, place: str) -> int | float | bool:
        value = entry.get("value")
        if not is_number(value):
            raise Unreadable(f"{place} has no number as its value")
        found: int | float | bool = value
        return found

    def _sizes(self, given: Json, place: str) -> Json:
        """The values of all axes that are not constant. Raises Unreadable for missing ones and broken constraints."""
        sizes: Json = {}
        for axis in self.var_axes:
            if not _is_size(given.get(axis)):
                raise Unreadable(f"{place}: the axis {axis} has no size")
            sizes[axis] = given[axis]
        known = {axis: item["value"] for axis, item in self.axes.items() if item["type"] == "const"} | sizes
        for axis, item in self.axes.items():
            if item["type"] == "expr":
                known[axis] = sizes[axis] = self._computed(item["expression"], known, f"{place}: the axis {axis}")
        for text in self.constraints:
            if not self._value(text, known, f"{place}: the constraint"):
                raise Unreadable(f"{place}: it breaks the constraint {text}")
        return sizes

    def _is_about_values(self, text: Any) -> bool:
        """A constraint such as `pages == indptr[-1].item()` names an input: no size tells whether it is kept."""
        found = re.findall(r"[A-Za-z_]\w*", text) if isinstance(text, str) else []
        return not set(self.inputs).isdisjoint(found)

    def _computed(self, text: Any, known: Json, place: str) -> int:
        value = self._value(text, known, place)
        if not _is_size(value):
            raise Unreadable(f"{place} is {value!r}, which is not a size")
        return int(value)

    def _value(self, text: Any, known: Json, place: str) -> Any:
        self.computed += 1
        if self.computed > _COMPUTED_MAX:
            raise Unreadable(f"{place}: at most {_COMPUTED_MAX:,} expressions of axes and constraints are computed")
        try:
            return arithmetic(text, known)
        except TaskError as error:
            raise Unreadable(f"{place}: {error}") from error

    def _hidden(self, found: Sequence[Json]) -> Json | None:
        """Other sizes of every variable axis: multiples of what the published ones have in common.

        None where inputs are from files, which have the sizes that they have.
        """
        if "safetensors" in self.kinds.values():
            return None
        smallest = min(found, key=lambda item: math.prod(item[axis] for axis in self.var_axes))
        sizes = {axis: _between([item[axis] for item in found]) for axis in self.var_axes}
        try:
            return {**smallest, **self._sizes(sizes, "hidden")} if sizes else None
        except Unreadable:
            return None

    def _at(self, *words: str) -> str:
        """The file and the line of the last of `words`, which stand in it in this order."""
        place = 0
        for word in words:
            place = max(place, self.text.find(json.dumps(word), place))
        return f"{self.file}:{self.text.count(chr(10), 0, place) + 1}"

    def _mapping(self, field: str) -> Json:
        found = self.data.get(field)
        if not isinstance(found, dict) or not found:
            raise Unreadable(f"{self.file} lacks {field}")
        if len(found) > _NAMES_MAX:
            raise Unreadable(f"{self.file}: {field}: it has {len(found)}; at most {_NAMES_MAX} are read")
        if bad := [name for name in found if not is_name(name)]:
            raise Unreadable(f"{self._at(field, bad[0])}: {field}: {bad[0][:80]!r} cannot be a name here")
        return found

    def _check_axis(self, axis: str, item: Any) -> None:
        kind = item.get("type") if isinstance(item, dict) else None
        is_const = kind == "const" and _is_size(item.get("value"))
        if not is_const and kind != "var" and not (kind == "expr" and "expression" in item):
            raise Unreadable(
                f"{self._at('axes', axis)}: the axis {axis} is neither const with a size, nor var, nor expr"
            )

    def _tensors(self, field: str) -> Json:
        items = self._mapping(field).items()
        return {name: self._tensor(f"{self._at(field, name)}: {field}: {name}", item) for name, item in items}

    def _tensor(self, place: str, item: Any) -> Json:
        dtype = item.get("dtype") if isinstance(item, dict) else None
        if not isinstance(dtype, str) or dtype not in DTYPES:
            reason = "two of its values share one byte" if "float4" in str(dtype) else f"use one of {', '.join(DTYPES)}"
            raise Unreadable(f"{place}: the dtype {str(dtype)[:40]} is not judged here: {reason}")
        shape = item.get("shape", ())
        if shape is None:
            if ": inputs: " not in place:
                raise Unreadable(f"{place}: an output has to be a tensor")
            return {"shape": None, "dtype": dtype}
        if not isinstance(shape, list):
            raise Unreadable(f"{place}: its shape is not a list")
        if len(shape) > _NAMES_MAX:
            raise Unreadable(f"{place}: its shape has more than {_NAMES_MAX} axes")
        for axis in shape:
            if not isinstance(axis, str) or axis not in self.axes:
                raise Unreadable(f"{place}: the axis {str(axis)[:80]} is not defined")
        return {"shape": shape, "dtype": dtype}


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < _SIZE_MAX


def _between(sizes: Sequence[int]) -> int:
    """A size beside the published ones, as divisible as they are."""
    step, known = math.gcd(*sizes), sorted(set(sizes))
    middle = known[len(known) // 2]
    below = next((size for size in range(middle - step, 0, -step)[:64] if size not in known), None)
    return below or next(
        size for size in range(middle + step, middle + step * (len(known) + 2), step) if size not in known
    )


def _workload_of(line: str, place: str) -> Json:
    data = _json(line, place)
    found = data.get("workload", data)
    if not isinstance(found, dict) or not isinstance(found.get("axes"), dict):
        raise Unreadable(f"{place}: it has no axes")
    return found


def _workload_lines(path: Path, folder: Path) -> list[tuple[int, str]]:
    if not path.is_file():
        raise Unreadable(f"there is no {path.name}")
    lines = read_text(path, folder, _WORKLOAD_FILE_BYTES_MAX).split("\n")
    if len(lines) > _LINES_MAX:
        raise Unreadable(f"{path.name} has more than {_LINES_MAX:,} lines")
    return [(number, line) for number, line in enumerate(lines, 1) if line.strip()]


def _json(text: str, place: str) -> Json:
    if text.startswith(_LFS):
        raise Unreadable(f"{place} is a pointer of Git LFS, not the file: fetch it with git lfs pull")
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        line = f"{place}:{error.lineno}" if ":" not in place else place
        raise Unreadable(f"{line}: it is not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{place}: it is not JSON that can be read here") from error
    if not isinstance(data, dict):
        raise Unreadable(f"{place}: it is not a JSON object")
    return data
