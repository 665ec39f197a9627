"""A worker whose self-test cannot even be run takes no work."""

import pytest

from benchmarks import worker
from benchmarks.models import Worker


def test_a_broken_self_test_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Worker) -> str | None:
        raise TypeError("wrong number of arguments")

    monkeypatch.setattr(worker, "prove", broken)
    assert (
        worker._proven(Worker(name="judge.cpu@here"))
        == "The self-test could not be run: TypeError: wrong number of arguments"
    )


def test_the_real_judge_tells_its_isolation() -> None:
    from benchmarks.judging import HarnessJudge

    assert HarnessJudge().isolation().name
