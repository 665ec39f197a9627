"""`manage.py check_tasks`: whether every task can be judged, as a table; exit code 1 if one cannot.

Each task is put to the admission of the harness in a process of its own, so that this one never imports torch.
Does NOT change a task: tolerances and labels are edited in `task.toml` by hand, after reading `--derive`.
"""

import json
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

import benchmarks
from benchmarks.harness import UsageError, default_suites, find_task

Admission = dict[str, Any]


class Command(BaseCommand):
    help = "Tests that the checker of each task rejects wrong results and accepts correct float32 results."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "tasks", nargs="*", metavar="TASK", help="[SUITE/]OP/DIRECTION; robust-kbench if none is given"
        )
        parser.add_argument("--derive", action="store_true", help="show the measured errors and suggest tolerances")
        parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")

    def handle(self, *args: Any, **options: Any) -> None:
        found = []
        for item in _admissions(options["tasks"]):
            found.append(item)
            if not options["json"]:
                self.stdout.writelines(_lines(item, derive=options["derive"]))
        if options["json"]:
            self.stdout.write(json.dumps(found))
        refused = [item["task"] for item in found if not item["admissible"]]
        if refused:
            raise CommandError(f"{len(refused)} of {len(found)} tasks are not admissible: {', '.join(refused)}")


def _admissions(names: list[str]) -> Iterator[Admission]:
    """The findings for each task, as they come."""
    for suite, tasks in _by_suite(names).items():
        command = [sys.executable, "-m", "benchmarks.harness.child.admitting.admission", str(suite), *tasks]
        root = Path(benchmarks.__path__[0]).parent
        with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None  # noqa: S101 - asked for above
            yield from map(json.loads, process.stdout)
        if process.returncode:
            raise CommandError(f"the admission of {suite.name} died with exit code {process.returncode}")


def _by_suite(names: list[str]) -> dict[Path, list[str]]:
    suites: dict[Path, list[str]] = {}
    for name in names:
        try:
            task = find_task(default_suites(), name)
        except UsageError as error:
            raise CommandError(str(error)) from error
        suites.setdefault(task.folder.parent, []).append(task.name)
    return suites or {default_suites() / "robust_kbench": []}


def _lines(item: Admission, *, derive: bool) -> Iterator[str]:
    verdict = "admissible" if item["admissible"] else "REFUSED"
    attacks = sum(tried for _, tried in item["refused"].values())
    refused = sum(count for count, _ in item["refused"].values())
    labels = ", ".join(item["labels"])
    yield f"{item['task']:32} {verdict:10}  {refused} of {attacks} wrong answers refused  {labels}".rstrip() + "\n"
    yield from (f"    problem: {text}\n" for text in item["problems"])
    yield from (f"    note: {text}\n" for text in item["notes"])
    if derive:
        yield from (f"    {_derived(result)}\n" for result in item["results"])


def _derived(result: dict[str, Any]) -> str:
    errors = (f"{way} {_pair(error['element'], error['rms'])}" for way, error in result["errors"].items())
    now = _pair(result["tolerance"], result["rms_tolerance"])
    proposed = _pair(result["proposed_tolerance"], result["proposed_rms_tolerance"])
    return f"{result['name']}: tolerance {now}, suggested {proposed}; errors: {', '.join(errors)}"


def _pair(element: float | str, rms: float | str) -> str:
    return f"{float(element):.1e}/{float(rms):.1e}"
