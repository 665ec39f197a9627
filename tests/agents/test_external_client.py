"""The shipped client of external runs and its adapters, against a site in this process with a fake judge."""

import json
from pathlib import Path
from typing import Any

import pytest

from agents.models import Run
from kbench_site.cli.client import Client
from kbench_site.cli.external import ExternalRun, openevolve, shinka
from tests.web import factories
from tests.web.test_outside_agent import site  # noqa: F401 - a fixture

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("site")]
TASK = "mnist_linear_relu/forward"


def kernel(tmp_path: Path, text: str) -> str:
    path = tmp_path / "program.cpp"
    path.write_text(f"{factories.SOURCE}// {text}\n")
    return str(path)


def test_an_agent_opens_a_run_sends_kernels_and_closes_it(tmp_path: Path) -> None:
    with ExternalRun(TASK, judgings=5, agent="mine") as run:
        first = run.judge(Path(kernel(tmp_path, "speedup: 1.5")).read_text(), name="first")
        better = run.judge(Path(kernel(tmp_path, "speedup: 2.5")).read_text(), parents=[first["id"]])
    assert (first["score"], better["score"], better["parents"]) == (1.5, 2.5, ["0-0"])
    row = Run.objects.get(code=run.id)
    assert (row.state, row.reason, row.best_score, row.config["options"]) == (
        "finished",
        "closed",
        2.5,
        {"agent": "mine"},
    )


def test_openevolve_gets_metrics_and_feedback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Client().post("runs", {"task": TASK, "kind": "external", "judgings": 5})
    monkeypatch.setenv("KBENCH_RUN", opened["id"])
    with ExternalRun() as run:
        metrics = openevolve(run)(kernel(tmp_path, "speedup: 2.0"))
        told = openevolve(run, dict)(kernel(tmp_path, "verdict: INCORRECT_VALUE"))
    assert (metrics["combined_score"], metrics["correct"]) == (2.0, 1.0)
    assert told["metrics"] == {"combined_score": 0.0, "correct": 0.0}
    assert "INCORRECT_VALUE" in told["artifacts"]["feedback"]
    assert Run.objects.get().state == "running"  # who joins a run does not close it


def test_shinka_gets_its_two_files(tmp_path: Path) -> None:
    run, results = ExternalRun(TASK, judgings=5), tmp_path / "results"
    program = kernel(tmp_path, "speedup: 2.0")
    shinka(run, ["--program_path", program, "--results_dir", str(results)])
    metrics = json.loads((results / "metrics.json").read_text())
    assert (metrics["combined_score"], metrics["public"]["correct"], metrics["private"]) == (2.0, 1.0, {})
    assert json.loads((results / "correct.json").read_text()) == {"correct": True, "error": None}
    other = kernel(tmp_path, "speedup: 3.0")
    run.judge(Path(other).read_text())
    shinka(run, ["--program_path", other, "--results_dir", str(results)])
    told: dict[str, Any] = json.loads((results / "correct.json").read_text())
    assert told == {"correct": False, "error": "duplicate: the same text as 0-1"}


def test_a_program_that_is_evaluated_again_is_not_judged_again(tmp_path: Path) -> None:
    run = ExternalRun(TASK, judgings=5)
    program = kernel(tmp_path, "speedup: 2.0")
    assert openevolve(run)(program) == openevolve(run)(program)
    assert Run.objects.get(code=run.id).candidates.count() == 1
