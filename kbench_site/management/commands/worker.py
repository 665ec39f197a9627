"""`manage.py worker`: compiles and judges on this machine's devices for a site that runs elsewhere, until Ctrl-C.

Needs the DATABASE_URL and REDIS_URL of the site (or its data folder). Each worker tests itself first and registers its
device kind. Does NOT migrate, serve pages or do housekeeping: `manage.py up` does.
"""

import signal
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import connections

from kbench_site.processes import Family
from kbench_site.workers import add_arguments, chosen_devices, sole_worker_of, worker_children

TEND_EVERY_S = 0.25


class Command(BaseCommand):
    help = "Compile and judge on the devices of this machine."
    requires_system_checks = ()  # of the code; they import every page, which is not needed here
    stopping = False

    def add_arguments(self, parser: CommandParser) -> None:
        add_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        devices = chosen_devices(options["device"])
        with sole_worker_of(devices):
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, self.stop)
            connections.close_all()  # the children open their own
            self.stdout.write(f"devices: {', '.join(f'{device.name} ({device.title})' for device in devices)}")
            self.run(Family(worker_children(devices, options["compile"])))

    def run(self, family: Family) -> None:
        family.start()
        try:
            while not self.stopping:
                for sentence in family.tend():
                    self.stdout.write(sentence)
                time.sleep(TEND_EVERY_S)
        finally:
            family.stop()

    def stop(self, *_: Any) -> None:
        self.stopping = True
