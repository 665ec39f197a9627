"""`manage.py import_tasks FORMAT DIR`: brings in a foreign suite, says of every task what became of it.

May run again at any time: what has not changed stays as it is. Exit code 1 if nothing at all could be brought in.
Does NOT run an author's file in this process: the harness does, in sandboxes.
"""

import json
from argparse import ArgumentParser
from collections import Counter
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.core.validators import validate_slug

from benchmarks.catalogue.folders import base_rows_sync
from benchmarks.catalogue.importing import NotImportable, Settings, import_suite
from benchmarks.extensions import ReadsReference, ReferenceUnread, reference_reader
from benchmarks.harness import UsageError, ended_in_order
from benchmarks.importers import READERS, SUITES, SuiteOrigin
from benchmarks.models import ImportReport
from benchmarks.states import ImportOutcome


class Command(BaseCommand):
    help = "Import tasks of another suite: examine them in sandboxes, version them and report the results."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("format", choices=sorted(READERS))
        parser.add_argument("folder", type=Path, metavar="DIR", help="as its authors publish it")
        parser.add_argument("--suite", help="the name of the suite here; by default that of the format")
        parser.add_argument("--source", default="", help="where it is published; by default the address of the clone")
        parser.add_argument("--licence", default="", help="in one line; by default what its licence files say")
        parser.add_argument("--timeout", type=float, default=300.0, metavar="S", help="for each step of one task")
        parser.add_argument("--device", default="cpu", help="cuda:0: examine on that GPU and make tasks for GPUs only")
        parser.add_argument("--no-compile", action="store_true", help="do not compare eager with torch.compile")
        parser.add_argument(
            "--read-references",
            type=float,
            metavar="USD",
            help="let a language model read each new reference for needless work, for at most this many dollars",
        )
        parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")

    def handle(self, *args: Any, **options: Any) -> None:
        folder: Path = options["folder"].resolve()
        if not folder.is_dir():
            raise CommandError(f"{options['folder']} is not a folder")
        suite = options["suite"] or SUITES[options["format"]]
        validate_slug(suite)
        base_rows_sync()
        reports: list[ImportReport] = []
        reads = _reader(options["read_references"])
        how = Settings(options["timeout"], not options["no_compile"], options["device"], reads)

        def tell(report: ImportReport) -> None:
            reports.append(report)
            if not options["json"]:
                self.stdout.write(line_of(report))
                self.stdout.flush()

        try:
            with ended_in_order():
                import_suite(
                    READERS[options["format"]](folder, suite),
                    suite=suite,
                    format_name=options["format"],
                    origin=SuiteOrigin(folder, options["source"][:200], options["licence"][:200]),
                    how=how,
                    tell=tell,
                )
        except (NotImportable, UsageError) as error:
            raise CommandError(str(error)) from error
        counts = Counter(report.outcome for report in reports)
        if options["json"]:
            self.stdout.write(json.dumps({"suite": suite, "counts": counts, "tasks": [as_json(r) for r in reports]}))
        else:
            self.stdout.write(", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
        if set(counts) <= {ImportOutcome.REFUSED, ImportOutcome.RETIRED}:
            raise CommandError("no task could be imported")


def _reader(usd_max: float | None) -> ReadsReference | None:
    try:
        return reference_reader(usd_max) if usd_max is not None else None
    except ReferenceUnread as error:
        raise CommandError(f"references cannot be read: {error}") from error


def line_of(report: ImportReport) -> str:
    said = report.problem or ", ".join(report.labels)
    return f"{report.op + '/' + report.direction:60} {report.outcome:10} {said}".rstrip()


def as_json(report: ImportReport) -> dict[str, Any]:
    shown = ("op", "direction", "file", "outcome", "problem", "labels", "notes")
    return {**{name: getattr(report, name) for name in shown}, "seconds": round(report.seconds, 1)}
