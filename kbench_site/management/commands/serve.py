"""`manage.py serve web|maint|agents`: one process of the site in the foreground, for containers and service managers.

Run as many `web` as you like, `maint` once, `agents` once per machine that may drive runs. Does NOT migrate (`prepare`
does), does NOT start workers (`worker` does) and starts nothing again: who started it does.
"""

import os
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from kbench_site.workers import agents_child, maint_child, web_child

PARTS = {"web": web_child, "maint": maint_child, "agents": agents_child}


class Command(BaseCommand):
    help = "Run one process of the site in the foreground."
    requires_system_checks = ()  # of the code; they import every page, which is not needed here

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("part", choices=sorted(PARTS))

    def handle(self, *args: Any, part: str, **options: Any) -> None:
        child = PARTS[part]()
        os.execve(child.argv[0], list(child.argv), {**os.environ, **child.environment})  # noqa: S606 - no shell
