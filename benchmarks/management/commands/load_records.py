"""`manage.py load_records FILE`: recorded results as boards of their own, beside those of this site.

The same file again changes nothing, a newer one of the same name replaces it. Does NOT touch this site's own results.
"""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from benchmarks.recorded.bundles import BundleError
from benchmarks.recorded.loading import bundle_remove, load_file


class Command(BaseCommand):
    help = "Load a bundle of recorded results, or remove one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, nargs="*")
        parser.add_argument("--remove", metavar="NAME", help="remove the bundle of that name")

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["file"] and not options["remove"]:
            raise CommandError("name a file to load, or --remove NAME")
        if options["remove"]:
            self._remove(options["remove"])
        for path in options["file"]:
            try:
                done = load_file(path)
            except (BundleError, OSError) as error:
                raise CommandError(f"{path}: {error}") from error
            counts = f"{done.created} new, {done.replaced} replaced, {done.unchanged} unchanged, {done.removed} removed"
            self.stdout.write(f"{done.name}: {counts}")

    def _remove(self, name: str) -> None:
        if not bundle_remove(name):
            raise CommandError(f"there is no bundle {name}")
        self.stdout.write(f"{name}: removed")
