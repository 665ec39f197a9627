"""robust-kbench as its authors publish it: one folder per operation, `func_*.py` and `config_*.json` per direction.

A configuration is an element of the product init × input × shared, shared overriding both. Where there is no JSON the
defaults of the functions count. Does NOT run a file, and looks at no kernel that lies beside them.
"""

import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..harness import ForeignConfig, ForeignTask
from .records import (
    Found,
    Unreadable,
    demand,
    docstring,
    files_below,
    is_name,
    is_plain,
    parsed,
    read_text,
    slug,
    words,
)

_FORMS = {"forward": "function", "backward": "gradients"}
FILES = {f"func_{direction}.py": direction for direction in _FORMS}
_NEEDED = {
    "forward": ("forward_fn", "Model", "get_inputs"),
    "backward": ("forward_fn", "AutogradFunction", "Model", "get_inputs"),
}
_FILE = re.compile(r"func_.*\.py|config_.*\.json")
_PARTS = ("init", "input", "shared")
_CONFIGS_MAX = 40
_VALUES_MAX = 64  # of one object in a list
_PRODUCT_MAX = 5_000  # combinations that are looked at


def read(folder: Path, suite: str) -> Iterator[Found]:
    """One `Found` per direction that has a file or a configuration."""
    folders = {path.parent for path in files_below(folder) if _FILE.fullmatch(path.name)}
    for place in sorted(folders):
        for direction in _FORMS:
            if any((place / name).is_file() for name in (f"func_{direction}.py", f"config_{direction}.json")):
                yield _found(place, direction, folder, suite)


def files_in(place: Path) -> list[Path]:
    """The files of one operation, forward first."""
    return [place / name for name in FILES if (place / name).is_file()]


def problem(path: Path, suite: str) -> Found:
    """One of the FILES, in whatever folder it lies."""
    return _found(path.parent, FILES[path.name], path.parent, suite)


def _found(place: Path, direction: str, folder: Path, suite: str) -> Found:
    parts = [part for part in place.relative_to(folder).parts if part != "tasks"]
    op, file = slug("_".join(parts) or folder.name), str((place / f"func_{direction}.py").relative_to(folder))
    try:
        return Found(op, direction, file, _task(place, direction, folder, op, suite))
    except Unreadable as error:
        return Found(op, direction, file, problem=str(error))


def _task(place: Path, direction: str, folder: Path, op: str, suite: str) -> ForeignTask:
    file = f"func_{direction}.py"
    if not (place / file).is_file():
        raise Unreadable(f"there is no {file}")
    source = read_text(place / file, folder)
    module = parsed(source, file)
    demand(module, file, *_NEEDED[direction])
    return ForeignTask(
        suite=suite,
        op=op,
        direction=direction,
        title=words(place.name) + (" (backward)" if direction == "backward" else ""),
        summary=docstring(module, "forward_fn"),
        family=place.name.partition("_")[0],
        form=_FORMS[direction],
        source=source,
        configs=tuple(_configs(place / f"config_{direction}.json", folder)),
    )


def _configs(path: Path, folder: Path) -> Iterator[ForeignConfig]:
    """The published ones without repetition; the first of the group multi stands in where there is no single one."""
    data = _json(path, folder) if path.is_file() else {}
    # twice as many: of those of multi, all that are taken of single may be left out
    groups = {
        group: list(itertools.islice(_product(data, group, path.name), 2 * _CONFIGS_MAX))
        for group in ("single", "multi")
    }
    singles = groups["single"][:_CONFIGS_MAX] or groups["multi"][:1] or [{}]
    rest = [values for values in groups["multi"] if values not in singles]
    for group, chosen in (("single", singles), ("multi", rest)):
        yield from (ForeignConfig(group, values) for values in chosen[:_CONFIGS_MAX])


def _json(path: Path, folder: Path) -> Mapping[str, Any]:
    try:
        data = json.loads(read_text(path, folder))
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{path.name} is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise Unreadable(f"{path.name} is not a JSON object")
    return data


def _product(data: Mapping[str, Any], group: str, file: str) -> Iterator[dict[str, Any]]:
    names = [f"{group}_{part}_configs" for part in _PARTS]
    if not any(name in data for name in names):
        return
    lists = [_list(data, name, file) for name in names]
    if math.prod(map(len, lists)) > _PRODUCT_MAX:
        raise Unreadable(f"{file}: the {group} configurations are more than {_PRODUCT_MAX:,} combinations")
    seen = []
    for chosen in itertools.product(*lists):
        values = {key: value for part in chosen for key, value in part.items()}
        if values not in seen:
            seen.append(values)
            yield values


def _list(data: Mapping[str, Any], name: str, file: str) -> list[dict[str, Any]]:
    items = data.get(name) or [{}]
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise Unreadable(f"{name} in {file} is not a list of objects")
    if any(len(item) > _VALUES_MAX for item in items):
        raise Unreadable(f"{name} in {file} has an object with more than {_VALUES_MAX} values")
    if not all(map(is_plain, (value for item in items for value in item.values()))):
        raise Unreadable(f"{name} in {file} has a value that is not a number, a short text or a list of these")
    if bad := next((key for item in items for key in item if not is_name(key)), None):
        raise Unreadable(f"{name} in {file}: {bad[:80]!r} cannot be a name")
    return items
