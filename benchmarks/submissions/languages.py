"""Languages as the site offers them: for a device, for a task, for an uploaded file, with starter code.

Does NOT say what a language may do: the static check and the rules do.
"""

from pathlib import Path

from ..harness import LANGUAGES, TaskSpec, UsageError, defines, language_of_file, starter_code


def languages_of(device_class: str, *, modules: bool = False) -> list[str]:
    """What such a device runs: functions, and for a task that takes Python that as well."""
    known = [item for item in LANGUAGES.values() if device_class in item.device_classes]
    return [item.name for item in known if modules or not item.is_module]


def titles_for(task: TaskSpec) -> dict[str, str]:
    """The languages that `task` takes, with their titles."""
    return {item.name: item.title for item in LANGUAGES.values() if task.takes_python or not item.is_module}


def language_of_upload(name: str, text: str, chosen: str, task: TaskSpec) -> str:
    """The chosen one where the suffix fits it, for languages share one; else what the suffix says.

    A module is one whatever was chosen: no other language takes it.
    """
    if is_module(name, text, task):
        return "python"
    if chosen in LANGUAGES and Path(name).suffix.lower() == LANGUAGES[chosen].suffix:
        return chosen
    return language_of_file(name) or chosen


def is_module(name: str, text: str, task: TaskSpec) -> bool:
    """Whether a file has what the task takes of one in Python, and not what it takes of a kernel."""
    is_python = Path(name).suffix.lower() == LANGUAGES["python"].suffix
    return is_python and task.takes_python and defines(text, task.entry) and not defines(text, task.direction)


def module_start(task: TaskSpec) -> str:
    """How the line begins by which the editor knows a module; empty for a task that takes none."""
    if not task.takes_python:
        return ""
    return f"def {task.entry}" if task.entry else "class ModelNew"


def starter_of(task: TaskSpec, language: str) -> str | None:
    """None for a language that has no starter code for the task."""
    try:
        return starter_code(task, language)
    except UsageError:
        return None


def suffix_of(language: str) -> str:
    """Of a file to download, without the dot."""
    return LANGUAGES[language].suffix[1:] if language in LANGUAGES else "txt"
