"""`manage.py export_records`: writes the public data set now, instead of in the coming night.

Readers get the new files at once. What became private or was hidden since the last export is gone with it.
"""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from benchmarks.dataset import files


class Command(BaseCommand):
    help = "Write everything that is public as Parquet files, as the site offers them at /data/."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            manifest = files.export()
        except (files.AlreadyExporting, OSError) as error:
            raise CommandError(str(error)) from error
        for table in manifest["tables"]:
            self.stdout.write(f"{table['name']}: {table['rows']} rows, {table['size_bytes']} bytes")
