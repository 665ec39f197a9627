"""The files of a posted definition: which names and sizes are taken, and how they lie in a folder for the importers.

Does NOT look at what the files say: that is for the importers, in a worker.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from ..importers import FILE_BYTES_MAX, Found, problem_at
from ..services import Refused

FILES_MAX = 16
ALL_BYTES_MAX = 512 << 10
NAME_MAX_CHARS = 80
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.(?:py|json|jsonl|yml)")
_PLACE = "definition"
NO_DEFINITION = (
    "no format is recognised in these files: post one Python file of KernelBench, func_forward.py with its "
    "config_forward.json, a definition with its workloads (.json and .jsonl), or task.yml with its Python files"
)


def checked_files(files: Mapping[str, str]) -> dict[str, str]:
    """Texts by name, whose names and sizes can be kept. Raises Refused."""
    if not files:
        raise Refused("Post the definition: one file or several.")
    if len(files) > FILES_MAX:
        raise Refused(f"A definition has at most {FILES_MAX} files.")
    for name, text in files.items():
        if len(name) > NAME_MAX_CHARS or not _NAME.fullmatch(name):
            raise Refused("Names of files have letters, digits, _, - and ., and end with .py, .json, .jsonl or .yml.")
        if "\0" in text:
            raise Refused(f"{name} is not text.")
        if _bytes_of(text) > FILE_BYTES_MAX:
            raise Refused(f"{name} has more than {FILE_BYTES_MAX >> 10} KiB.")
    if sum(map(_bytes_of, files.values())) > ALL_BYTES_MAX:
        raise Refused(f"The files have more than {ALL_BYTES_MAX >> 10} KiB together.")
    return dict(files)


def name_of_text(text: str) -> str:
    """What a definition that was typed is called: by what it is, JSON or Python."""
    try:
        return "definition.json" if isinstance(json.loads(text), dict) else "definition.py"
    except (ValueError, RecursionError):
        return "definition.py"


def found_in(files: Mapping[str, str], folder: Path) -> Found:
    """What the importers read in the files, which are put below the empty `folder` first."""
    place = folder / _PLACE
    place.mkdir()
    for name, text in _named(files).items():
        (place / name).write_text(text)
        if name.endswith(".py"):
            (folder / name).write_text(text)  # GPU MODE's problems use files of the folder above
    modules = [name for name in files if name.endswith(".py")]
    found = problem_at(place)
    if found is None and len(modules) == len(files) == 1:
        found = problem_at(place / modules[0])
    return found or Found(_PLACE, "forward", "", problem=NO_DEFINITION)


def _named(files: Mapping[str, str]) -> dict[str, str]:
    """A single definition and its workloads under the names that SOL-ExecBench gives them."""
    names = {name: name for name in files}
    if not any(name.endswith((".py", ".yml")) for name in files):
        for suffix, wanted in ((".json", "definition.json"), (".jsonl", "workload.jsonl")):
            alike = [name for name in files if name.endswith(suffix)]
            if len(alike) == 1:
                names[alike[0]] = wanted
    return {names[name]: text for name, text in files.items()}


def _bytes_of(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
