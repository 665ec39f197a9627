"""GPU MODE problem folders as their authors publish them: `task.yml` and the Python files that it names.

`benchmarks` become timed configurations and `tests` hidden ones, each with a secret seed in place of its own. Problems
for several GPUs are refused. A check that only compares is replaced by ours: its tolerance is told and decides nothing.
One that does more decides itself (`author_checks.py`). Does NOT run a line of the files.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from ..harness import ForeignConfig, ForeignTask
from .author_checks import author_tolerance
from .records import Found, Unreadable, demand, files_below, is_name, is_plain, parsed, read_text, slug, words

TASK = "task.yml"
AUTHOR_CHECKER = "author-checker"
_SUBMISSION, _REFERENCE = "submission.py", "reference.py"
_LEFT_OUT = ("eval.py", _SUBMISSION)
_FILES_MAX, _CASES_MAX = 12, 20
_NUMBER_CHARS_MAX = 300  # Python refuses to write out a number of more than 4,300 digits
_NUMBER_TAGS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_ASKED = 'CHECKER = "author-property"\n'  # at the end of a task's file: the judge asks the author's check


def read(folder: Path, suite: str) -> Iterator[Found]:
    """One `Found` per `task.yml`."""
    for path in files_below(folder):
        if path.name == TASK:
            yield _found(path.parent, folder, suite)


def problem(place: Path, suite: str) -> Found | None:
    """The problem of one folder, which may use files beside it; None where it is none."""
    return _found(place, place.parent, suite) if (place / TASK).is_file() else None


def _found(place: Path, folder: Path, suite: str) -> Found:
    parts = [part for part in place.relative_to(folder).parts if part != "problems"]
    op, file = slug("_".join(parts) or folder.name), str((place / TASK).relative_to(folder))
    try:
        return Found(op, "forward", file, _task(place, folder, op, suite))
    except Unreadable as error:
        return Found(op, "forward", file, problem=str(error))


def _task(place: Path, folder: Path, op: str, suite: str) -> ForeignTask:
    data = _yaml(read_text(place / TASK, folder))
    if data.get("multi_gpu"):
        raise Unreadable("it is for several GPUs, which are not supported here")
    if data.get("lang", "py") != "py":
        raise Unreadable(f"its language is {str(data['lang'])[:40]!r}, py is read here")
    files = _files(data, place, folder)
    module = parsed(files[_REFERENCE], _REFERENCE)
    demand(module, _REFERENCE, "generate_input", "ref_kernel", "check_implementation")
    tolerance = author_tolerance(module)
    checked = (
        "The author's check_implementation decides what is right."
        if tolerance is None
        else f"The author's tolerance is {tolerance}; the score does not depend on it."
    )
    timed, tests = _cases(data, "benchmarks"), _cases(data, "tests")
    hidden = [values for values in tests if values not in timed]
    groups = ["single", *["multi"] * (len(timed) - 1), *["hidden"] * len(hidden)]
    text = " ".join(str(data.get("description") or "").split("\n\n")[0].split())[:400]
    return ForeignTask(
        suite=suite,
        op=op,
        direction="forward",
        title=words(place.name),
        summary=f"{text} {checked}".strip(),
        family=place.parent.name[:40],
        form="case",
        source=_source(files) + (_ASKED if tolerance is None else ""),
        configs=tuple(ForeignConfig(*pair) for pair in zip(groups, [*timed, *hidden], strict=True)),
        labels=(AUTHOR_CHECKER,) if tolerance is None else (),
    )


class _PlainLoader(yaml.SafeLoader):
    """YAML in which everything is written out: a few lines that repeat each other by name would unfold without end.

    Numbers have few characters: YAML's hexadecimal ones and those to the base 60 have any size.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            told = f"it repeats parts by name (*{str(event.anchor)[:40]}), which is not supported"
            raise yaml.composer.ComposerError(None, None, told, event.start_mark)
        node = super().compose_node(parent, index)
        if isinstance(node, yaml.ScalarNode) and node.tag in _NUMBER_TAGS and len(node.value) > _NUMBER_CHARS_MAX:
            told = f"it has a number of more than {_NUMBER_CHARS_MAX} characters"
            raise yaml.composer.ComposerError(None, None, told, node.start_mark)
        return node


def _yaml(text: str) -> Mapping[str, Any]:
    try:
        data = yaml.load(text, _PlainLoader)  # noqa: S506 - it is a SafeLoader
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        is_ours = isinstance(error, yaml.composer.ComposerError)
        told = error.problem if is_ours else f"it is not YAML: {error.problem}"
        raise Unreadable(f"{TASK}:{line}: {told}") from error
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:  # by tags
        raise Unreadable(f"{TASK} is not YAML that can be read here") from error
    if not isinstance(data, dict):
        raise Unreadable(f"{TASK} is not a mapping")
    return data


def _files(data: Mapping[str, Any], place: Path, folder: Path) -> dict[str, str]:
    """The author's Python files by the names under which they import each other, and the submission to start from."""
    listed = data.get("files")
    if not isinstance(listed, list) or len(listed) > _FILES_MAX:
        raise Unreadable(f"{TASK} lacks files, a list of at most {_FILES_MAX}")
    files = {}
    for item in listed:
        name, source = (item.get(key) for key in ("name", "source")) if isinstance(item, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(source, str) or not name.removesuffix(".py").isidentifier():
            raise Unreadable(f"{TASK}: files: each has a name and a source")
        if name not in _LEFT_OUT and name.endswith(".py"):
            files[name] = _text(place, source, folder)
    if _REFERENCE not in files:
        raise Unreadable(f"{TASK}: files: there is no {_REFERENCE}")
    if (place / _SUBMISSION).is_file():
        files[_SUBMISSION] = _text(place, _SUBMISSION, folder)
    return files


def _text(place: Path, source: str, folder: Path) -> str:
    path = Path(os.path.normpath(place / source))
    if not path.is_relative_to(folder):
        raise Unreadable(f"{TASK}: files: {source[:80]} lies outside of the folder")
    return read_text(path, folder)


def _cases(data: Mapping[str, Any], field: str) -> list[dict[str, Any]]:
    """The keyword arguments of `generate_input`, without their seeds, each once."""
    listed = data.get(field)
    if not isinstance(listed, list) or not listed:
        raise Unreadable(f"{TASK} lacks {field}")
    found: list[dict[str, Any]] = []
    for number, item in enumerate(listed[:_CASES_MAX], 1):
        if not isinstance(item, dict) or not all(is_name(key) and is_plain(value) for key, value in item.items()):
            raise Unreadable(f"{TASK}: {field}: number {number} is not a mapping of names to numbers, texts and lists")
        values = {key: value for key, value in item.items() if key != "seed"}
        if values not in found:
            found.append(values)
    return found


def _source(files: Mapping[str, str]) -> str:
    """One file with all of them, line by line, for readers."""
    lines = ["KBENCH_FILES = {"]
    for name, text in files.items():
        lines += [
            f"    {name!r}: (",
            *(f"        {line!r}" for line in text.splitlines(keepends=True) or [""]),
            "    ),",
        ]
    lines += [
        "}",
        "",
        "from benchmarks.harness.child import cases as _kbench_cases",
        "",
        "globals().update(_kbench_cases.loaded(KBENCH_FILES))",
    ]
    return "\n".join(lines) + "\n"
