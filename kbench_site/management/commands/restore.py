"""`manage.py restore FILE`: puts back what `backup` wrote, and migrates it to this version of kbench.

Refused while the site of this data folder is up. Replaces the whole database: `--replace` says that this is meant.
Does NOT overwrite a secret key that is there.
"""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection, connections

from kbench_site.backups import BackupError, restore
from kbench_site.workers import only_one


class Command(BaseCommand):
    help = "Restore a backup."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--replace", action="store_true", help="discard the current contents of the database")

    def handle(self, *args: Any, file: Path, replace: bool, **options: Any) -> None:
        with only_one(settings.DATA_DIR / "up.lock", f"kbench is up on {settings.DATA_DIR}: stop it first"):
            if connection.introspection.table_names() and not replace:
                raise CommandError("the database is not empty: use --replace to discard its contents")
            connections.close_all()
            try:
                restore(settings.DATABASES["default"], settings.DATA_DIR, file)
            except (BackupError, OSError) as error:
                raise CommandError(str(error)) from error
            call_command("migrate", interactive=False, verbosity=0)
        self.stdout.write(f"restored from {file}; start the site again")
