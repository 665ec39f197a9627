"""How a self-test decides, over scripted verdicts: which kernels are judged, what is tried again, what it says."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.harness import LANGUAGES, Paths, Report, Source, Verdict, default_rules, selfcheck
from benchmarks.harness.errors import SupervisorError

Judge = Callable[[Source], Verdict]


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[Source]]:
    """Runs a self-test in which every source gets the verdict that is said of it; the sources in their order."""
    seen: list[Source] = []

    def run(verdict: Judge, device_class: str = "cpu") -> list[Source]:
        def judge(source: Source, task: Any, rules: Any, paths: Any, **options: Any) -> Report:
            assert options == {"device": "the device", "quick": True, "rehearsal": True}
            assert rules.time.steps_per_config == 3  # a rehearsal, not a measurement
            seen.append(source)
            return SimpleNamespace(verdict=verdict(source), reason="as told")  # type: ignore[return-value]

        track = SimpleNamespace(device=SimpleNamespace(device_class=device_class))
        monkeypatch.setattr(selfcheck, "judge", judge)
        monkeypatch.setattr(selfcheck, "open_track", lambda *_: track)
        selfcheck.self_test(default_rules(), Paths(tmp_path), "the device")
        return seen

    return run


def expected(source: Source) -> Verdict:
    file = next(path for path in selfcheck._KERNELS.iterdir() if path.is_file() and path.read_text() == source.text)
    return selfcheck._EXPECTED[file.stem]


@pytest.mark.parametrize("device_class", ["cpu", "cuda"])
def test_a_right_and_a_wrong_kernel_of_each_language_of_the_device_are_judged(
    judged: Callable[..., list[Source]], device_class: str
) -> None:
    """Those whose package a worker may lack are left out."""
    languages = [item for item in LANGUAGES.values() if item.device_classes[0] == device_class]
    tested = [item.name for item in languages if not item.is_module and item.package is None]
    wanted = [name for name in tested for _ in ("right", "wrong")]
    assert [source.language for source in judged(expected, device_class)] == wanted
    assert wanted


@pytest.mark.parametrize("broken", ["right", "wrong"])
def test_any_other_verdict_fails_the_test_and_names_the_kernel(
    judged: Callable[..., list[Source]], broken: str
) -> None:
    """A judge that accepts everything is as broken as one that accepts nothing."""
    verdict = {"right": Verdict.INCORRECT_VALUE, "wrong": Verdict.PASS}[broken]
    with pytest.raises(SupervisorError, match=rf"the device got {verdict} for {broken}\.cpp, not .*: as told"):
        judged(lambda _: verdict)


def test_a_noisy_judging_is_tried_again(judged: Callable[..., list[Source]]) -> None:
    told = iter([Verdict.NOISY, Verdict.INTERNAL_ERROR, Verdict.PASS, Verdict.INCORRECT_VALUE])
    assert len(judged(lambda _: next(told))) == 4


def test_noise_without_end_fails_the_test(judged: Callable[..., list[Source]]) -> None:
    count: list[Source] = []
    with pytest.raises(SupervisorError, match="NOISY"):
        judged(lambda source: count.append(source) or Verdict.NOISY)  # type: ignore[func-returns-value]
    assert len(count) == 3


def test_a_verdict_about_the_kernel_is_not_tried_again(judged: Callable[..., list[Source]]) -> None:
    count: list[Source] = []
    with pytest.raises(SupervisorError, match="TIMEOUT"):
        judged(lambda source: count.append(source) or Verdict.TIMEOUT)  # type: ignore[func-returns-value]
    assert len(count) == 1
