"""Readers of foreign suites: a folder as its authors publish it becomes tasks that the harness can examine.

Each reader takes a folder and a suite's name and yields one `Found` per task, broken ones included. They read text and
JSON and parse Python without running a line of it. Does NOT examine tasks (`harness.examine`) and writes no row.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from . import kernelbench, robust_kbench
from .records import Found

SuiteReader = Callable[[Path, str], Iterator[Found]]
READERS: dict[str, SuiteReader] = {"kernelbench": kernelbench.read, "robust-kbench": robust_kbench.read}
SUITES = {"kernelbench": "kernelbench", "robust-kbench": "robust-kbench-published"}  # where nobody names one

__all__ = ["READERS", "SUITES", "Found", "SuiteReader"]
