"""`manage.py record FILE --device KIND`: what this site has verified, as a bundle that another site can load.

The format is described in the operator guide. Does NOT record what is private or under
review.
"""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from benchmarks.models import DeviceKind, RuleSet
from benchmarks.recorded.bundles import bundle_lines
from benchmarks.recorded.making import bundle_of


class Command(BaseCommand):
    help = "Write the ranked public entries of one device kind under one rule set into a file."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--device", required=True, help="a device kind, such as nvidia-h200")
        parser.add_argument("--rules", default=settings.KBENCH_RULESET, help="a rule set; default: the active one")
        parser.add_argument("--name", help="name of the bundle; default: site-DEVICE-RULES")
        parser.add_argument("--site", default="a kbench site", help="where it comes from, in a few words")

    def handle(self, *args: Any, **options: Any) -> None:
        device = DeviceKind.objects.filter(slug=options["device"]).first()
        ruleset = RuleSet.objects.filter(name=options["rules"]).first()
        if device is None or ruleset is None:
            missing = f"device kind {options['device']}" if device is None else f"rule set {options['rules']}"
            raise CommandError(f"this site has no {missing}")
        name = options["name"] or f"site-{device.slug}-{ruleset.name}"  # shipped bundles are called DEVICE-RULES
        try:
            header, entries = bundle_of(device, ruleset, name=name, site=options["site"])
            options["file"].write_text("".join(bundle_lines(header, entries)))
        except (ValueError, OSError) as error:
            raise CommandError(str(error)) from error
        count = f"{len(entries)} entr{'y' if len(entries) == 1 else 'ies'}"
        self.stdout.write(f"bundle {name}: {count} of {header.title} written to {options['file']}")
