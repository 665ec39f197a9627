"""A run that is killed after any of its commits goes on as if nothing had been.

Two runs are killed: a small one after each of its commits, and one of 100 candidates after each twentieth. What a kill
costs grows with the run, so the small one, which has every kind of event that the other has, carries the proof.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MEMORY = Path("/dev/shm")  # noqa: S108 - the flushes of 200 runs would take minutes on a disk


def test_kill_9_after_every_commit_of_a_run_and_on_the_way_of_a_longer_one() -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        processes = [killed(folder, judgings=24, every=1), killed(folder, judgings=58, every=20)]
        small, large = map(outcome, processes)
    assert (small["problems"], large["problems"]) == ({}, {})
    assert small["kills"] > 1.5 * small["candidates"]
    assert large["candidates"] >= 100
    assert large["kills"] >= 5
    assert set(large["types"]) <= set(small["types"])


def killed(folder: str, *, judgings: int, every: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.evolve.killing", f"{folder}/{judgings}", str(judgings), str(every)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def outcome(process: "subprocess.Popen[str]") -> dict[str, Any]:
    return json.loads(process.communicate()[0].splitlines()[-1])
