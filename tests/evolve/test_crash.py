"""A run that is killed after any of its commits goes on as if nothing had been."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
MEMORY = Path("/dev/shm")  # noqa: S108 - the flushes of 400 runs would take minutes on a disk


def test_kill_9_after_every_commit_of_a_run_of_100_candidates() -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        halves = [start(Path(folder), first) for first in (1, 2)]
        odd, even = (json.loads(half.communicate()[0].splitlines()[-1]) for half in halves)
    assert (odd["problems"], even["problems"]) == ({}, {})
    assert odd["candidates"] == even["candidates"] >= 100
    assert 0 <= odd["kills"] - even["kills"] <= 1
    assert even["kills"] > 1.5 * even["candidates"]


def start(folder: Path, first: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.evolve.killing", str(folder / str(first)), "58", str(first), "2"]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
