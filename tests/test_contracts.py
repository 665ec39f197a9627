"""Each import contract bites: a planted violation breaks it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
VIOLATIONS = {
    "The harness is pure": ("benchmarks/harness/scores/stats.py", "import django"),
    "torch is for child processes": ("benchmarks/services.py", "import torch"),
    "Nobody imports what runs in child": ("benchmarks/harness/measuring/calls.py", "from ..child import check"),
    "Nobody imports the site": ("benchmarks/judgings/queue.py", "import kbench_site.settings"),
    "Benchmarks know nothing of agents": ("benchmarks/services.py", "import agents"),
    "Outside the harness only its door": ("benchmarks/services.py", "from .harness.scores.scoring import score"),
    "One way through the harness": ("benchmarks/harness/sandbox/outbox.py", "from ..measuring import faults"),
    "The emulator is pure": ("benchmarks/emulator/sizes.py", "from .. import selectors"),
    "Judging without a site is pure": ("benchmarks/offline/outcomes.py", "from ..models import Task"),
    "No score knows the naive harness": ("benchmarks/boards/ranking.py", "from ..naive import opinion"),
    "Of the emulator only its door": ("benchmarks/services.py", "from .emulator.build import prepare"),
    "One way through the site": ("benchmarks/models/tasks.py", "from .. import services"),
    "One way inside the rooms": ("benchmarks/boards/ranking.py", "from . import overview"),
    "What only computes": ("benchmarks/boards/ranking.py", "from .. import models"),
    "One way through runs": ("agents/models.py", "from . import services"),
    "One way inside the rooms of runs": ("agents/record/log.py", "from . import snapshots"),
    "The search is pure": ("agents/evolve/budget.py", "import django"),
    "of the benchmark harness and emulator alone": ("agents/evolve/stops.py", "from benchmarks.boards import ranking"),
    "record → models → the engine": ("agents/evolve/loop.py", "from agents import states"),
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    for name in ("benchmarks", "agents", "kbench_site"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "suites"))
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


def broken(tree: Path) -> str:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, env={"PYTHONPATH": "."}, check=False)
    return " ".join(done.stdout.partition("Broken contracts")[2].split()) if done.returncode else ""


def test_the_tree_keeps_all_contracts(tree: Path) -> None:
    assert broken(tree) == ""


@pytest.mark.parametrize("contract", VIOLATIONS)
def test_a_planted_violation_is_found(tree: Path, contract: str) -> None:
    file, line = VIOLATIONS[contract]
    path = tree / file
    original = path.read_text()
    path.write_text(f"{original}\n{line}\n")
    try:
        assert contract in broken(tree)
    finally:
        path.write_text(original)
