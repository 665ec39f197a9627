"""Assigns the files of a folder to problems by their names; a solution in JSON names its definition itself.

Two conventions are read: KernelBench's runs (`level_1_problem_19_sample_0_kernel.py`), and the problem's own name,
as one file or as the last folders of a path (`level1/19_ReLU.py`, `mnist_pool/backward.cpp`, `RUN/level1/19_ReLU.py`).
Does NOT read any file but JSON, and not the code there.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ..harness import LANGUAGE_OF_SUFFIX, NotTaken, TaskError, read_file
from ..importers import Found, definition_named, files_below, slug

_RUN = re.compile(r"level_?(\d{1,9})_problem_?(\d{1,9})(?:_sample_?\d{1,9})?(?:_kernel)?", re.ASCII)
_SAMPLE = re.compile(r"_sample_?\d{1,9}$", re.ASCII)
_FILE_BYTES_MAX = 4 << 20  # the rules allow less, and the judge says so
_JSON = ".json"


@dataclass(frozen=True)
class Solution:
    """One file of the folder of solutions and the problem that it is for."""

    file: str  # below the folder
    problem: Found


@dataclass(frozen=True)
class Pairing:
    """`unmatched` are files in a language that is judged whose names say no problem."""

    solutions: tuple[Solution, ...]
    unmatched: tuple[str, ...]


def paired(folder: Path, problems: Iterable[Found]) -> Pairing:
    """Every solution below `folder`, sorted by problem and file. Raises TaskError for a folder that is too large."""
    names = _names(problems)
    solutions: list[Solution] = []
    unmatched: list[str] = []
    for file in _files(folder, _JSON):
        named = definition_named(text_of_solution(folder, file, default=""))
        if named is not None and named in names:
            solutions.append(Solution(file, names[named]))
    for file in _files(folder, *LANGUAGE_OF_SUFFIX):
        found = next((names[name] for name in names_said(file) if name in names), None)
        if found is None:
            unmatched.append(file)
        else:
            solutions.append(Solution(file, found))
    order = {item.name: number for number, item in enumerate(names.values())}
    solutions.sort(key=lambda item: (order[item.problem.name], item.file))
    return Pairing(tuple(solutions), tuple(sorted(unmatched)))


def names_said(file: str) -> Iterator[str]:
    """The names of problems that a path may mean, the longest first."""
    path = PurePosixPath(file)
    run = _RUN.fullmatch(path.stem.lower())
    if run:
        yield f"level{int(run[1])}_{int(run[2])}"
    parts = [*path.parts[:-1], _SAMPLE.sub("", path.stem)]
    for first in range(len(parts)):
        yield slug("_".join(parts[first:]))


def text_of_solution(folder: Path, file: str, default: str | None = None) -> str:
    """The text; bytes that are no UTF-8 become marks, which the static check names. Raises TaskError."""
    try:
        return read_file(folder, file, _FILE_BYTES_MAX).decode(errors="replace")
    except NotTaken as error:
        if default is not None:
            return default
        raise TaskError(f"the file cannot be read: {error}") from error


def _names(problems: Iterable[Found]) -> dict[str, Found]:
    """Each problem by its name, with its direction, and by level and number where it has them."""
    names: dict[str, Found] = {}
    for item in problems:
        names.setdefault(slug(item.name), item)
        names.setdefault(item.op, item)
        numbered = re.match(r"level\d+_\d+(?=_|$)", item.op, re.ASCII)
        if numbered:
            names.setdefault(numbered[0], item)
    return names


def _files(folder: Path, *suffixes: str) -> list[str]:
    known = [path for path in files_below(folder) if path.suffix.lower() in suffixes and path.is_file()]
    names = (path.relative_to(folder).as_posix() for path in known)
    return [name for name in names if name.isprintable()]
