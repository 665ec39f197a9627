"""Fills a site, backs it up, loses it and restores it, by the commands of an operator. Prints one JSON document.

`python -m tests.operations.losing_a_site FILE OTHER` with the settings of a site that has no tables yet; FILE takes the
backup, and OTHER is a file that is none. One process for all commands: each would take seconds to start.
"""

import json
import sys

import django

if __name__ == "__main__":
    django.setup()

from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from benchmarks.catalogue.folders import tasks_sync
from benchmarks.models import Evaluation, Event, TaskVersion
from benchmarks.services import submission_create
from tests.rows import cpu_kind

PASSWORD = "a long password"


def fill() -> None:
    call_command("migrate", verbosity=0)
    tasks_sync()
    cpu_kind()
    version = TaskVersion.objects.get(task__op="mnist_linear_relu", task__direction="forward", status="active")
    owner = User.objects.create_user("olga", password=PASSWORD)
    for number in range(3):
        submission_create(version=version, text=f"// {number}", language="cpp", owner=owner)


def content() -> list[object]:
    columns = ("code", "state", "submission__blob__text", "submission__owner__username")
    rows = [tuple(map(str, row)) for row in Evaluation.objects.order_by("pk").values_list(*columns)]
    return [rows, Event.objects.count(), bool(authenticate(username="olga", password=PASSWORD))]


def refusal(*words: str) -> str:
    try:
        call_command("restore", *words)
    except CommandError as error:
        return str(error)
    return ""


def main(file: str, other: str) -> None:
    fill()
    before = content()
    call_command("backup", file)
    call_command("flush", "--no-input", verbosity=0)
    lost = content()
    refusals = [refusal(file), refusal(other, "--replace")]
    call_command("restore", file, "--replace")
    done = {"before": before, "lost": lost, "after": content(), "refusals": refusals}
    sys.stdout.write(json.dumps(done) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
