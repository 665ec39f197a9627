"""`manage.py prepare`: migrates, collects static files, and brings in the tasks and recorded results that ship.

To be run once before a site of several processes starts, and after every upgrade; running it again does nothing.
Does NOT start anything.
"""

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand

from benchmarks.catalogue.folders import tasks_sync
from benchmarks.judgings.recording import boards_complete
from benchmarks.recorded.loading import load_shipped


class Command(BaseCommand):
    help = "Migrate, collect static files and load the shipped tasks and recorded results."

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", interactive=False, verbosity=0)
        call_command("collectstatic", interactive=False, verbosity=0)
        tasks_sync()
        boards_complete()
        load_shipped()
