"""The door of the harness lists what it gives, sorted, and opens without Django and torch."""

import subprocess
import sys

from benchmarks import harness


def test_everything_listed_exists_and_is_sorted_as_ruff_sorts() -> None:
    assert all(hasattr(harness, name) for name in harness.__all__)
    assert len(set(harness.__all__)) == len(harness.__all__)


def test_the_door_opens_without_django_and_torch() -> None:
    code = "import sys, benchmarks.harness; print(sorted({'django', 'torch', 'celery'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
