"""What readers of foreign suites have in common: what they yield, names, and looking at Python without running it."""

import ast
import hashlib
import json
import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..harness import ForeignTask, NotTaken, SyntaxProblem, TaskError, TooMuch, clean_text, python_tree, read_file

FILE_BYTES_MAX = 256 << 10
UNNAMED = "unnamed"
RESERVED = ("init", "variant", "entry", "data")  # what kbench itself writes into the values of a configuration
_NAME_MAX = 90
_ENTRIES_MAX = 200_000  # of a folder and all folders below it
_PATH_BYTES_MAX = 3_800  # the system takes 4,095, and names are put behind
_NESTING_MAX = 150  # of Python; walking a deeper syntax tree ends in RecursionError
_NUMBER_BITS_MAX = 4_096  # Python refuses to write out a number of more than 4,300 digits
_TELL_MAX = 1_000
_NUMBER_MAX = 1 << 62
_TEXT_MAX, _ITEMS_MAX = 200, 64  # of a value of a configuration
_WAY = 1  # of reading and examining; another number examines unchanged files anew


@dataclass(frozen=True)
class Found:
    """One task of a folder. Where `task` is None, `problem` says what is wrong with its files."""

    op: str
    direction: str
    file: str  # below the folder
    task: ForeignTask | None = None
    problem: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "problem", clean_text(self.problem))  # it quotes the files

    @property
    def name(self) -> str:
        return f"{self.op}/{self.direction}"

    @property
    def sha256(self) -> str:
        """Of everything that was read; empty where nothing could be."""
        if self.task is None:
            return ""
        configs = [[item.group, dict(item.values)] for item in self.task.configs]
        parts = [_WAY, self.task.form, self.task.source, configs]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class Unreadable(Exception):
    """A file of a task cannot be used; the text says why, in at most _TELL_MAX characters: it may quote the file."""

    def __init__(self, text: str) -> None:
        super().__init__(text[:_TELL_MAX])


def files_below(folder: Path) -> list[Path]:
    """Everything below `folder` but folders, sorted. No link is followed, and whether a path is a file is not asked.

    What the system refuses to list, and paths too long for it, are left out. Raises TaskError for too many entries.
    """
    found, waiting, entries = [], [str(folder)], 0
    while waiting:
        try:
            with os.scandir(waiting.pop()) as listed:
                for entry in listed:
                    entries += 1
                    if entries > _ENTRIES_MAX:
                        raise TaskError(f"{folder} has more than {_ENTRIES_MAX:,} entries: name a folder inside it")
                    if len(os.fsencode(entry.path)) > _PATH_BYTES_MAX:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        found.append(Path(entry.path))
        except OSError:
            continue
    return sorted(found)


def slug(text: str) -> str:
    """A name for addresses: small letters, digits, underscores. UNNAMED where nothing of it can stay."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:_NAME_MAX] or UNNAMED


def words(text: str) -> str:
    """`1_Square_matrix_multiplication_` as people would write it."""
    return re.sub(r"[_\s]+", " ", re.sub(r"^\d+_", "", text)).strip() or text


def is_number(value: Any) -> bool:
    """A number of a size that JSON, every database and a shape can hold."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and abs(value) <= _NUMBER_MAX


def is_plain(value: Any) -> bool:
    """What a configuration may give to the author's functions: nothing, a number, a short text, or a list of these."""
    if isinstance(value, list):
        return len(value) <= _ITEMS_MAX and all(not isinstance(item, list) and is_plain(item) for item in value)
    if isinstance(value, str):
        return len(value) <= _TEXT_MAX and value.isprintable()
    return value is None or is_number(value)


def is_name(key: Any) -> bool:
    """What a value of a configuration may be called."""
    is_short = isinstance(key, str) and len(key) <= _NAME_MAX
    return is_short and key.isidentifier() and key.isascii() and key not in RESERVED


def read_text(path: Path, folder: Path, bytes_max: int = FILE_BYTES_MAX) -> str:
    """A file below `folder`, which others have filled. Raises Unreadable for what is no text of a sensible size."""
    try:
        return read_file(folder, str(path.relative_to(folder)), bytes_max).decode("utf-8-sig")
    except TooMuch as error:
        raise Unreadable(f"{path.name} has more than {bytes_max >> 10} KiB") from error
    except (NotTaken, UnicodeDecodeError) as error:
        why = str(error) if isinstance(error, NotTaken) else "it is not text"
        raise Unreadable(f"{path.name} cannot be read: {why}") from error


def parsed(source: str, file: str) -> ast.Module:
    """Raises Unreadable with the line where Python does not understand it, or where it is nested too deeply."""
    module = python_tree(source)
    if isinstance(module, SyntaxProblem):
        raise Unreadable(f"{file}:{module.line}: {module.message}")
    level: list[ast.AST] = [module]
    for _ in range(_NESTING_MAX):
        if any(isinstance(node, ast.Constant) and _is_endless(node.value) for node in level):
            raise Unreadable(f"{file}: it has a whole number of more than {_NUMBER_BITS_MAX:,} bits")
        level = [part for node in level for part in ast.iter_child_nodes(node)]
        if not level:
            return module
    line = next((node.lineno for node in level if isinstance(node, ast.expr | ast.stmt)), 1)
    raise Unreadable(f"{file}:{line}: it is nested more than {_NESTING_MAX} deep")


def _is_endless(value: object) -> bool:
    return isinstance(value, int) and value.bit_length() > _NUMBER_BITS_MAX


def demand(module: ast.Module, file: str, *names: str) -> None:
    """Raises Unreadable unless all of `names` are defined or assigned at the top level."""
    known = {name for item in module.body for name in _names_of(item)}
    missing = [name for name in names if name not in known]
    if missing:
        raise Unreadable(f"{file} lacks {', '.join(missing)}")


def docstring(module: ast.Module, name: str) -> str:
    """The first paragraph of what `name` says of itself."""
    for item in module.body:
        if isinstance(item, ast.ClassDef | ast.FunctionDef) and item.name == name:
            text = ast.get_docstring(item) or ""
            return " ".join(text.split("\n\n")[0].split())[:500]
    return ""


def _names_of(item: ast.stmt) -> list[str]:
    if isinstance(item, ast.ClassDef | ast.FunctionDef):
        return [item.name]
    if isinstance(item, ast.If | ast.Try | ast.With):
        parts = [*item.body, *getattr(item, "orelse", ()), *getattr(item, "finalbody", ())]
        parts += [part for handler in getattr(item, "handlers", ()) for part in handler.body]
        return [name for part in parts for name in _names_of(part)]
    if isinstance(item, ast.AnnAssign):
        return [item.target.id] if isinstance(item.target, ast.Name) and item.value else []
    if isinstance(item, ast.Assign):
        return [target.id for target in item.targets if isinstance(target, ast.Name)]
    return [alias.asname or alias.name for alias in item.names] if isinstance(item, ast.ImportFrom) else []
