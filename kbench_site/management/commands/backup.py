"""`manage.py backup FILE`: the database and the generated secret key in one file, taken while the site runs.

Does NOT copy caches or shared builds (they are made again) and does NOT encrypt: keep the file where only you read it.
"""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from kbench_site.backups import BackupError, backup


class Command(BaseCommand):
    help = "Back up the database and the generated secret key into one file."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)

    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        try:
            backup(settings.DATABASES["default"], settings.DATA_DIR, file)
        except (BackupError, OSError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{file}: {file.stat().st_size / 1e6:.1f} MB")
