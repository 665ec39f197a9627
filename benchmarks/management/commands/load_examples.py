"""`manage.py load_examples`: the shipped kernels as submissions of the method *Reference kernels*, once each.

`manage.py up` does the same at every start. Does NOT judge: they wait behind people for a worker of their device kind.
"""

from typing import Any

from django.core.management.base import BaseCommand

from benchmarks.catalogue.folders import examples_load, tasks_sync


class Command(BaseCommand):
    help = "Submit the kernels that come with kbench, on every device kind that is known."

    def handle(self, *args: Any, **options: Any) -> None:
        tasks_sync()
        made = examples_load()
        for submission in made:
            kinds = ", ".join(item.device_kind.slug for item in submission.evaluations.select_related("device_kind"))
            self.stdout.write(f"{submission.task_version.task.path} {submission.language} on {kinds}")
        self.stdout.write(
            f"{len(made)} submitted" if made else "nothing to submit: all examples exist, or submissions are closed"
        )
