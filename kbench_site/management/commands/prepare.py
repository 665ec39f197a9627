"""`manage.py prepare`: migrates, collects static files, and brings in the tasks and recorded results that ship.

To be run once before a site of several processes starts, and after every upgrade; running it again does nothing.
With `--builds` it also compiles what judging on this machine's processor needs. Does NOT start anything.
"""

import hashlib
import json
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from benchmarks.catalogue.folders import tasks_sync
from benchmarks.judgings.recording import boards_complete
from benchmarks.operations.statistics import statistics_gather
from benchmarks.recorded.loading import load_shipped
from kbench_site.builds_ahead import start_builds


class Command(BaseCommand):
    help = "Migrate, collect static files and load the shipped tasks and recorded results."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--builds", action="store_true", help="also compile, once, the headers that every C++ submission needs"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        builds = start_builds() if options["builds"] else []
        migrate()
        collect_static()
        tasks_sync()
        boards_complete()
        load_shipped()
        statistics_gather()
        for build in builds:
            problem = build.exception()
            if problem is not None:  # the judge tries again, and says it where people look
                self.stderr.write(f"not compiled ahead: {problem}")


def migrate() -> None:
    """Only where a migration is missing: Django makes all models of all migrations before it finds nothing to do."""
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        call_command("migrate", interactive=False, verbosity=0)


def collect_static() -> None:
    """Only where a file has changed since: hashing and compressing them all takes seconds."""
    stamp, manifest = settings.DATA_DIR / "static.sha256", settings.STATIC_ROOT / "staticfiles.json"
    found = hashlib.sha256(json.dumps(list(_all_that_counts())).encode()).hexdigest()
    if manifest.exists() and stamp.exists() and stamp.read_text() == found:
        return
    call_command("collectstatic", interactive=False, verbosity=0)
    stamp.write_text(found)


def _all_that_counts() -> Iterator[tuple[Any, ...]]:
    yield settings.STORAGES["staticfiles"]["BACKEND"], *map(version, ("django", "whitenoise"))
    for finder in get_finders():
        for name, storage in sorted(finder.list(None), key=lambda item: item[0]):
            content = Path(storage.path(name)).read_bytes()
            yield name, getattr(storage, "prefix", None), hashlib.sha256(content).hexdigest()
