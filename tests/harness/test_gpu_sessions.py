"""Full judgings beside sessions that stay: what `lab` writes down of them."""

import argparse
import json
from pathlib import Path

import pytest

from benchmarks.harness import SupervisorError, default_suites, find_task
from lab.gpu import sessions
from lab.gpu.searches import GpuSearches
from tests.fakes import report_for

NAME = "mnist_pool/forward"


@pytest.fixture
def sitting(tmp_path: Path) -> GpuSearches:
    words = {"data": tmp_path / "data", "device": "cpu", "language": "cpp", "tasks": [NAME], "rounds": 2, "audit": True}
    return GpuSearches(argparse.Namespace(**words, out=tmp_path / "out", earlier=[], budget_s=0.0, pause_s=0.0))


def test_each_judging_the_audit_and_an_error_of_ours_have_a_line(
    sitting: GpuSearches, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = report_for(sitting.shipped(NAME), find_task(default_suites(), NAME))
    answers = iter([SupervisorError("no room"), report])

    def judge(*_: object, **__: object) -> object:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(sessions, "judge", judge)
    monkeypatch.setattr(sessions, "audit", lambda *_, report, **__: report)
    sessions.judge_beside(sitting, NAME)
    lines = sitting.known("sessions.jsonl")
    assert [(line["what"], line["verdict"]) for line in lines] == [
        ("judging", "INTERNAL_ERROR"),
        ("judging", "PASS"),
        ("audit", "PASS"),
    ]
    assert "no room" in lines[0]["reason"]
    assert sessions.summary(lines)["judging"] == {"INTERNAL_ERROR": 1, "PASS": 1}


def test_a_looker_looks_until_it_is_told_to_stop(sitting: GpuSearches, monkeypatch: pytest.MonkeyPatch) -> None:
    report = report_for(sitting.shipped(NAME), sitting.tasks[NAME])
    stop, closed = sitting.options.out / "stop", []

    class Stays:
        broken: tuple[str, ...] = ()

        def __init__(self, *_: object) -> None:
            self.count = 0

        def judge(self, _: object) -> object:
            self.count += 1
            if self.count == 3:
                stop.touch()
            return report

        def close(self) -> None:
            closed.append(self.count)

    monkeypatch.setattr(sessions, "Looks", Stays)
    sessions.look_on(sitting, NAME)
    assert closed == [3]
    assert sessions.most_looks(sitting) == 3
    assert json.loads((sitting.options.out / "sessions.jsonl").read_text().splitlines()[0])["what"] == "look"
