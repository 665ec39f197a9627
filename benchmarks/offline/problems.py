"""Problems of other suites as tasks with a folder, examined once and kept among the caches.

The key of a cached task is a hash of everything that the examination read, so a changed file is examined again. Does
NOT examine anything itself (`harness.examine`) and reads no folder of a suite (`importers`).
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from ..harness import (
    CPU,
    GPU_TASK,
    Examined,
    NotTaken,
    Paths,
    Source,
    TaskError,
    TaskSpec,
    UsageError,
    defines,
    digest,
    examine,
    is_python,
    language_of_file,
    language_of_text,
    read_file,
    spec_from_json,
    spec_to_json,
)
from ..importers import Found, joined_solution, problem_at
from .records import read_record, write_record, write_text

_REFERENCE_BYTES_MAX = 16 << 20
_FORM = "2"  # of an examination; another word examines everything anew
TIMEOUT_S = 300.0  # of each of the two steps of an examination


def task_at(path: Path, paths: Paths, *, device: str = CPU, timeout_s: float = TIMEOUT_S) -> Examined:
    """The problem of one path, see `importers.problem_at`. Raises TaskError for a path that is no problem."""
    found = problem_at(path)
    if found is None:
        forms = (
            "a file with Model and get_inputs, a folder with func_forward.py or func_backward.py, a definition in JSON"
            ", or a folder with task.yml"
        )
        raise TaskError(f"{path} is not a problem that can be read here: {forms}")
    return examined(found, paths, device=device, timeout_s=timeout_s)


def examined(
    found: Found, paths: Paths, *, device: str = CPU, timeout_s: float = TIMEOUT_S, again: bool = False
) -> Examined:
    """The outcome for one problem, from the cache unless `again`. A refusal for time counts for that time at most.

    What was examined on a GPU is another outcome than that of the processor: a task for GPUs alone.
    """
    if found.task is None:
        return Examined(None, found.problem)
    device_class = () if device == CPU else (device.partition(":")[0],)
    key = digest(_FORM, found.task.suite, found.name, found.sha256, *device_class)[:32]
    folder = paths.data.resolve() / "cache" / "problems" / key
    kept = None if again else _kept(folder, timeout_s)
    if kept is not None:
        return kept
    outcome = examine(found.task, paths, device=device, timeout_s=timeout_s, compare_compiled=False)
    return _keep(outcome, folder, timeout_s)


def paths_outside(data: Path, *given: Path) -> Paths:
    """Where records are kept. Raises UsageError where that lies in a folder that is judged: they are believed."""
    for folder in given:
        if data.resolve().is_relative_to(folder.resolve()):
            told = f"the data folder {data} is inside {folder}, whose author could have put results there"
            raise UsageError(f"{told}: set KBENCH_DATA_DIR to another folder")
    return Paths(data)


def demand_device(task: TaskSpec, device_class: str) -> None:
    """Raises TaskError, with the reason, where `task` is not judged on devices of this class."""
    if device_class not in task.configs:
        large = f"{GPU_TASK}. A call takes too long there, or more memory than a judging has"
        raise TaskError(large if device_class == CPU else "too large for the GPUs that tasks are judged on")


def language_for(file: str, text: str, task: TaskSpec) -> str:
    """The language of a solution. A Python file is a module where it defines what the task takes of one."""
    language = language_of_file(file) or "cpp"
    if is_python(language):
        language = language_of_text(text) or language
    is_module = file.lower().endswith(".py") and task.takes_python and defines(text, task.entry)
    return "python" if is_module else language


def source_for(file: str, text: str, task: TaskSpec) -> Source:
    """What is judged of a solution. Raises UsageError for one in JSON that cannot be used."""
    if file.lower().endswith(".json"):
        return joined_solution(text, task)
    return Source(text, language_for(file, text, task))


def _keep(outcome: Examined, folder: Path, timeout_s: float) -> Examined:
    spec = outcome.task and spec_to_json(outcome.task)
    words = {name: getattr(outcome, name) for name in ("problem", "labels", "notes", "seconds")}
    source = outcome.task.reference_source if outcome.task is not None else ""
    write_text(folder / "reference.py", source)
    kept = {**words, "timeout_s": timeout_s, "task": spec, "reference": digest(source)}
    write_record(folder / "outcome.json", kept)  # last: it makes the rest count
    return replace(outcome, task=outcome.task and replace(outcome.task, folder=folder))


def _kept(folder: Path, timeout_s: float) -> Examined | None:
    data = read_record(folder / "outcome.json")
    if data is None:
        return None
    words: dict[str, Any] = {"problem": data["problem"], "seconds": data["seconds"]}
    words |= {name: tuple(data[name]) for name in ("labels", "notes")}
    if data["task"] is None:
        return Examined(None, **words) if data["timeout_s"] >= timeout_s else None
    try:
        source = read_file(folder, "reference.py", _REFERENCE_BYTES_MAX).decode()
    except (NotTaken, UnicodeDecodeError):
        return None
    if digest(source) != data["reference"]:
        return None
    return Examined(spec_from_json(data["task"], source, folder), **words)
