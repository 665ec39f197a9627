"""A task as plain JSON and back: how imported tasks are kept, whose shapes follow no formula.

A folder of such a task holds `task.json` beside `reference.py`. Everything is spelled out: each configuration has its
arguments and results with their shapes. Not covered: tasks written by hand (`spec.py` reads their `task.toml`).
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..errors import TaskError
from .spec import Argument, Config, Result, TaskSpec, TensorArgument, ValueArgument

Json = dict[str, Any]
_WORDS = ("suite", "op", "direction", "version", "title", "formula", "summary", "family", "exact")
_LISTS = ("labels", "argument_names", "result_names")


def spec_to_json(task: TaskSpec) -> Json:
    """A task as JSON, without the reference and the folder."""
    words = {name: getattr(task, name) for name in _WORDS}
    lists = {name: list(getattr(task, name)) for name in _LISTS}
    configs = {device: [asdict(config) for config in items] for device, items in task.configs.items()}
    made: Json = json.loads(json.dumps({**words, **lists, "configs": configs}))
    return made


def spec_from_json(data: Mapping[str, Any], reference_source: str, folder: Path) -> TaskSpec:
    """The stored task. Raises TaskError for malformed data."""
    try:
        words: Json = {name: data[name] for name in _WORDS}
        lists: Json = {name: tuple(data[name]) for name in _LISTS}
        return TaskSpec(
            **words,
            **lists,
            configs={device: tuple(map(_config, items)) for device, items in data["configs"].items()},
            reference_source=reference_source,
            folder=folder,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise TaskError(f"a stored task has an unknown form: {error}") from error


def write_folder(task: TaskSpec, folder: Path) -> None:
    """`task.json` and `reference.py`, for a process that reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "reference.py").write_text(task.reference_source)
    (folder / "task.json").write_text(json.dumps(spec_to_json(task)))


def read_folder(folder: Path) -> TaskSpec:
    """The task written by `write_folder`."""
    return spec_from_json(json.loads((folder / "task.json").read_text()), (folder / "reference.py").read_text(), folder)


def _config(data: Mapping[str, Any]) -> Config:
    plain = {name: data[name] for name in ("key", "group", "values", "bytes_moved", "flops")}
    return Config(
        **plain,
        arguments=tuple(map(_argument, data["arguments"])),
        results=tuple(Result(**{**item, "shape": tuple(item["shape"])}) for item in data["results"]),
    )


def _argument(data: Mapping[str, Any]) -> Argument:
    if "draw" not in data:
        value = data["value"]
        return ValueArgument(data["name"], tuple(value) if isinstance(value, list) else value)
    return TensorArgument(**{**data, "shape": tuple(data["shape"])})
