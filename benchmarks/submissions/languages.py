"""Languages as the site shows them: names, file suffixes, starter code.

Does NOT say what a language may do: the static check and the rules do.
"""

from pathlib import Path

from .. import harness
from ..harness import TaskSpec, UsageError

TITLES = {"cpp": "C++", "cuda": "CUDA C++", "triton": "Triton", "python": "PyTorch module"}
SUFFIXES = {"cpp": "cpp", "cuda": "cu", "triton": "py", "python": "py"}
_OF_SUFFIX = {".cpp": "cpp", ".cc": "cpp", ".cxx": "cpp", ".cu": "cuda", ".py": "triton"}


def language_of_file(name: str) -> str | None:
    """By its suffix; None where that says nothing."""
    return _OF_SUFFIX.get(Path(name).suffix.lower())


def languages_of(device_class: str, *, modules: bool = False) -> list[str]:
    """What such a device runs: functions, and for a task that is a module PyTorch modules as well."""
    known = [name for name in harness.LANGUAGES if device_class in harness.device_classes(name)]
    return [name for name in known if name != harness.PYTHON or modules]


def titles_for(task: TaskSpec) -> dict[str, str]:
    """The languages that `task` takes, with their titles."""
    return {name: title for name, title in TITLES.items() if name != harness.PYTHON or task.is_module}


def language_of_upload(name: str, chosen: str) -> str:
    """The chosen one where the suffix fits it, for two languages share one; else what the suffix says."""
    if Path(name).suffix.lower() == f".{SUFFIXES.get(chosen)}":
        return chosen
    return language_of_file(name) or chosen


def starter_of(task: TaskSpec, language: str) -> str | None:
    """None for a language that has no starter code for the task."""
    try:
        return harness.starter_code(task, language)
    except UsageError:
        return None
