"""`python -m agents.evolve`: arguments, exit codes, and one run that is really judged."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agents.evolve.__main__ import FOUND, NOT_FOUND, WRONG_USAGE, main
from agents.evolve.budget import Caps
from agents.evolve.config import RunConfig
from agents.evolve.logs import JsonlLog
from agents.evolve.loop import create
from agents.evolve.state import RunState
from benchmarks.harness import Paths

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)


def last_line(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["no_such/forward"], "there is no task"),
        (["mnist_pool/forward", "--device", "cuda:99"], "there is no device"),
        (["mnist_pool/forward", "--verifiers", "static,oracle"], "there is no verifier oracle"),
        (["mnist_pool/forward", "--proposer", "anthropic"], "key"),
        (["mnist_pool/forward", "--generation-size", "0"], "generation_size must be at least 1"),
        (["mnist_pool/forward", "--resume"], "holds no run to resume"),
    ],
)
def test_wrong_usage_is_told_and_begins_nothing(
    arguments: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--log", str(tmp_path / "run")]) == WRONG_USAGE
    assert text in capsys.readouterr().err
    events = tmp_path / "run" / "events.jsonl"
    assert not events.exists() or events.read_bytes() == b""


@pytest.mark.parametrize("arguments", [["--judgings", "-1"], ["--usd", "inf"], ["--proposer", "magic"]])
def test_arguments_that_cannot_be_read(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["mnist_pool/forward", *arguments])
    assert raised.value.code == WRONG_USAGE


def test_a_folder_with_a_run_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with JsonlLog(tmp_path / "run") as log:
        create(log, RunConfig("mnist_linear/forward", caps=Caps(judgings=1)))
    assert main(["mnist_pool/forward", "--log", str(tmp_path / "run")]) == WRONG_USAGE
    assert "holds a run already" in capsys.readouterr().err
    assert main(["mnist_pool/forward", "--log", str(tmp_path / "run"), "--resume"]) == WRONG_USAGE
    assert "is for the task mnist_linear/forward" in capsys.readouterr().err


def test_a_run_without_anything_to_spend_finds_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["mnist_pool/forward", "--judgings", "0", "--verifiers", "", "--json", "--log", str(tmp_path / "run")]
    assert main(arguments) == NOT_FOUND
    document = last_line(capsys)
    assert (document["judgings"], document["best"], document["reason"]) == (0, None, "budget")


@pytest.mark.sandbox
def test_a_run_that_is_judged_and_resumed(
    tmp_path: Path, paths: Paths, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBENCH_DATA_DIR", str(paths.data))
    folder = tmp_path / "run"
    arguments = ["mnist_pool/forward", "--judgings", "1", "--quick", "--verifiers", "", "--log", str(folder)]
    assert main([*arguments, "--json"]) == FOUND
    document = last_line(capsys)
    with JsonlLog(folder) as log:
        state = RunState.fold(log.read(), log.get_source)
        assert state.best is not None
        assert document["best"] == {"score": state.best.score, "source_sha256": state.best.source_sha256}
        assert "PYBIND11_MODULE" in log.get_source(state.best.source_sha256 or "")
    assert document["judgings"] == 1
    assert [path.name for path in (folder / "judged").iterdir()] == ["0-0.json"]
    before = (folder / "events.jsonl").read_bytes()
    assert main([*arguments, "--json", "--resume"]) == FOUND
    assert last_line(capsys) == document
    assert (folder / "events.jsonl").read_bytes() == before


def test_a_key_is_judged_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was judged before a crash is read again, whatever the source says now."""
    folder = tmp_path / "run"
    (folder / "judged").mkdir(parents=True)
    kept = {"verdict": "PASS", "reason": "kept", "score": 1.5, "ci95": [1.4, 1.6], "configs": [], "seconds": 2.0}
    (folder / "judged" / "0-0.json").write_text(json.dumps(kept))
    arguments = ["mnist_pool/forward", "--judgings", "1", "--verifiers", "", "--json", "--log", str(folder)]
    assert main(arguments) == FOUND
    best = last_line(capsys)["best"]
    assert isinstance(best, dict)
    assert best["score"] == 1.5


def test_ctrl_c_stops_a_run_in_order(tmp_path: Path) -> None:
    """While its first judging waits for the machine, which the test holds."""
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "agents.evolve", "mnist_pool/forward", "--verifiers", "", "--log", str(folder)]
    with (tmp_path / "kbench-cpu.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        environment = {**os.environ, "TMPDIR": str(tmp_path)}
        run = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        while "evaluation.submitted" not in read(folder / "events.jsonl"):
            assert run.poll() is None
            time.sleep(0.05)
        run.send_signal(signal.SIGINT)
        output, _ = run.communicate()
    document = json.loads(output.splitlines()[-1])
    assert (run.returncode, document["reason"], document["best"]) == (NOT_FOUND, "stopped", None)
    with JsonlLog(folder) as log:
        assert RunState.fold(log.read(), log.get_source).budget.leases == {}
    assert [*(folder / "judged").iterdir()] == []


def read(file: Path) -> str:
    return file.read_text() if file.exists() else ""
