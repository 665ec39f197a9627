"""`manage.py score_verifiers`: the labelled corpus put to V0 and V1 again, and how often they were right.

V1 is read from the labels; `--compile` runs the compiler on each kernel instead, which takes half an hour and longer.
Does NOT judge: labels come from `lab/sweeps/label_corpus.py`.
"""

import asyncio
import json
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from agents.evolve.verifiers.compile import CompileVerifier
from agents.evolve.verifiers.corpus import read_labels
from agents.evolve.verifiers.replay import CASCADE, FAMILIES, Compile, figures, replay, stale
from benchmarks.harness import Paths


class Command(BaseCommand):
    help = "Measures the verifiers on the labelled corpus."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--compile", action="store_true", help="compile each kernel instead of reading its label")
        parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")

    def handle(self, *args: Any, **options: Any) -> None:
        labels = read_labels()
        old = stale(labels)
        if old:
            named = ", ".join(f"{item.seed} {item.operator}" for item in old[:3])
            raise CommandError(f"{len(old)} labels are of texts that have changed since: {named}")
        rows = replay(labels, _compiler() if options["compile"] else None)
        found = figures(labels, rows)
        if options["json"]:
            self.stdout.write(json.dumps(found, indent=1))
        else:
            self.stdout.write("\n".join(lines(found)))


def lines(found: dict[str, Any]) -> Iterator[str]:
    """The figures as two tables in Markdown."""
    yield (
        f"{found['kernels']} kernels from {found['seeds']} seeds by {found['operators']} operators: "
        f"{found['correct']} correct, {found['incorrect']} incorrect by the judge."
    )
    yield ""
    yield (
        "| verifier | correct: accepted / abstained / rejected | incorrect: rejected / abstained / accepted "
        "| false rejects | caught | balanced accuracy | mean time |"
    )
    yield "|---|---|---|---|---|---|---|"
    for name, item in found["verifiers"].items():
        yield _verifier_line(name, item)
    yield ""
    yield "| faults | kernels | static catches | compile | both | accuracy | balanced accuracy | robust-kbench |"
    yield "|---|---|---|---|---|---|---|---|"
    for family in FAMILIES:
        yield _family_line(family, {name: families[family] for name, families in found["families"].items()})


def _verifier_line(name: str, item: dict[str, Any]) -> str:
    correct = " / ".join(str(item[f"{what}_correct"]) for what in ("accepted", "abstained", "rejected"))
    incorrect = " / ".join(str(item[f"{what}_incorrect"]) for what in ("rejected", "abstained", "accepted"))
    cost = f"{1000 * item['seconds'] / item['rows']:.0f} ms"
    accuracy = _number(item["balanced_accuracy"])
    harm, caught = _share(item["false_reject_rate"]), _share(item["catch_rate"])
    return f"| {name} | {correct} | {incorrect} | {harm} | {caught} | {accuracy} | {cost} |"


def _family_line(family: str, items: dict[str, dict[str, Any]]) -> str:
    both = items[CASCADE]
    caught = " | ".join(_share(items[name]["catch_rate"]) for name in ("static", "compile", CASCADE))
    numbers = " | ".join(_number(both[what]) for what in ("accuracy", "balanced_accuracy", "reported"))
    return f"| {family} | {both['kernels']} | {caught} | {numbers} |"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _share(item: dict[str, Any] | None) -> str:
    if item is None:
        return ""
    low, high = item["ci95"]
    return f"{item['value']:.1%} ({low:.1%} to {high:.1%})"


def _compiler() -> Compile:
    verifier = CompileVerifier(Paths(Path(settings.DATA_DIR)))
    return lambda specimen: asyncio.run(verifier.judge(specimen.text, "cpp", specimen.spec))
