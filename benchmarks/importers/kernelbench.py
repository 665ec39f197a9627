"""KernelBench as its authors publish it: `levelN/NUMBER_Name.py` with `Model`, `get_inputs`, `get_init_inputs`.

Every problem is one forward task with one shape. Does NOT run a file: shapes are found in the harness's sandbox.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from ..harness import ForeignConfig, ForeignTask
from .records import Found, Unreadable, demand, docstring, files_below, parsed, read_text, slug, words

_LEVEL = re.compile(r"level_?(\d+)")
_NUMBER = re.compile(r"(\d+)_")


def read(folder: Path, suite: str) -> Iterator[Found]:
    """One `Found` per problem below `folder`, level by level in the order of their numbers."""
    paths = [path for path in files_below(folder) if path.suffix == ".py" and _is_problem(path)]
    for path in sorted(paths, key=_order):
        yield _found(path, folder, suite)


def _is_problem(path: Path) -> bool:
    return bool(_LEVEL.fullmatch(path.parent.name)) and path.name != "__init__.py" and path.is_file()


def problem(path: Path, suite: str) -> Found:
    """One file, in whatever folder it lies."""
    return _found(path, path.parent, suite)


def _order(path: Path) -> tuple[int, int, str]:
    number = _NUMBER.match(path.name)
    return _level(path), int(number[1]) if number else 0, path.name


def _level(path: Path) -> int:
    found = _LEVEL.fullmatch(path.parent.name)
    return int(found[1]) if found else 0


def _found(path: Path, folder: Path, suite: str) -> Found:
    level = f"level{_level(path)}_" if _level(path) else ""
    op, file = slug(level + path.stem), str(path.relative_to(folder))
    try:
        return Found(op, "forward", file, _task(path, folder, op, suite))
    except Unreadable as error:
        return Found(op, "forward", file, problem=str(error))


def _task(path: Path, folder: Path, op: str, suite: str) -> ForeignTask:
    source = read_text(path, folder)
    module = parsed(source, path.name)
    demand(module, path.name, "Model", "get_inputs")
    return ForeignTask(
        suite=suite,
        op=op,
        direction="forward",
        title=words(path.stem),
        summary=docstring(module, "Model"),
        family=f"level {_level(path)}",
        form="model",
        source=source,
        configs=(ForeignConfig("single"),),
    )
