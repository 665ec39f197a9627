"""Readers of foreign suites: a folder as its authors publish it becomes tasks that the harness can examine.

Each reader takes a folder and a suite's name and yields one `Found` per task, broken ones included. They read text and
JSON and parse Python without running a line of it. Does NOT examine tasks (`harness.examine`) and writes no row.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from . import definitions, gpu_mode, kernelbench, robust_kbench
from .licences import SuiteOrigin
from .records import FILE_BYTES_MAX, Found, files_below, slug
from .solution_json import definition_named, joined_solution

SuiteReader = Callable[[Path, str], Iterator[Found]]
READERS: dict[str, SuiteReader] = {
    "kernelbench": kernelbench.read,
    "robust-kbench": robust_kbench.read,
    "flashinfer-trace": definitions.read_flashinfer,
    "sol-execbench": definitions.read_sol,
    "gpu-mode": gpu_mode.read,
}
SUITES = {name: name for name in READERS} | {"robust-kbench": "robust-kbench-published"}  # where nobody names one

__all__ = [
    "FILE_BYTES_MAX",
    "READERS",
    "SUITES",
    "Found",
    "SuiteOrigin",
    "SuiteReader",
    "definition_named",
    "files_below",
    "joined_solution",
    "problem_at",
    "problems_in",
    "slug",
]


def problem_at(path: Path) -> Found | None:
    """The problem of one path, in any of the formats.

    A file as KernelBench has them, a folder of robust-kbench or one of its `func_*.py`, a definition of FlashInfer
    Trace or SOL-ExecBench or the folder of one, a folder of GPU MODE.

    A folder with both directions means the forward one. None for any other path.
    """
    path = path.resolve()
    suite = SUITES["robust-kbench"]
    found = definitions.problem(path, SUITES) or gpu_mode.problem(path, SUITES["gpu-mode"])
    if found is not None:
        return found
    if path.is_dir():
        return next((robust_kbench.problem(file, suite) for file in robust_kbench.files_in(path)), None)
    if path.suffix != ".py" or not path.is_file():
        return None
    if path.name in robust_kbench.FILES:
        return robust_kbench.problem(path, suite)
    return kernelbench.problem(path, SUITES["kernelbench"])


def problems_in(folder: Path) -> list[Found]:
    """Every problem below `folder`, whatever its format; the first of each name."""
    found: dict[str, Found] = {}
    for name, read in READERS.items():
        for item in read(folder, SUITES[name]):
            found.setdefault(item.name, item)
    return list(found.values())
