"""What `lab.gpu.memory_probe` makes of eager's times, with a judge that answers as it is told."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.harness import Source, Verdict
from lab.gpu import memory_probe


def judged(trust: str, *eager_us: float) -> Any:
    configs = [SimpleNamespace(eager_us=us) for us in (*eager_us, None)]  # the last one is hidden
    score = SimpleNamespace(timing_trust=trust)
    return SimpleNamespace(verdict=Verdict.PASS, score=score, configs=configs, to_json=lambda: {"eager_us": eager_us})


@pytest.mark.parametrize(
    ("trust", "with_little_us", "code"),
    [("replayed", (100.0, 51.0), 0), ("replayed", (100.0, 80.0), 1), ("bounded", (100.0, 80.0), 0)],
)
def test_baselines_that_change_with_the_memory_that_is_left_are_told(
    trust: str, with_little_us: tuple[float, ...], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources: list[str] = []
    answers: Iterator[Any] = iter((judged("replayed", 100.0, 50.0), judged(trust, *with_little_us)))

    def judge(source: Source, *_: object, **__: object) -> Any:
        sources.append(source.text)
        return next(answers)

    monkeypatch.setattr(memory_probe, "judge", judge)
    reports = tmp_path / "reports.jsonl"
    assert memory_probe.main(["--left-mb", "300", "--reports", str(reports)]) == code
    assert [json.loads(line)["left_mb"] for line in reports.read_text().splitlines()] == [0, 300]
    assert "size_t(300) << 20" in sources[1]
    assert sources[1].startswith(sources[0])
