"""What baselines take when they are replayed, beside a submission that is not, and what the report says of it."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.harness import ConfigReport, Paths, default_rules
from benchmarks.harness.errors import RefereeError
from benchmarks.harness.gpu.discovery import Gpu
from benchmarks.harness.gpu.gaps import replayed_baselines
from benchmarks.harness.gpu.replay import Captured, Replay
from benchmarks.harness.gpu.session import GpuSession
from benchmarks.harness.gpu.standing import StandingGpuSession
from benchmarks.harness.measuring.contestants import CallResult
from benchmarks.harness.measuring.laps import Laps
from benchmarks.harness.measuring.session import COMPILE, EAGER
from benchmarks.harness.protocol import Status
from benchmarks.harness.scores.scoring import BaselineTimes
from benchmarks.harness.tracks import CpuTrack, GpuTrack

SHORT, LONG, HIDDEN = (SimpleNamespace(key=key, hidden=key == "hidden") for key in ("short", "long", "hidden"))


class Baselines:
    """A `Replay` whose baselines take so many microseconds, by configuration and function; lists are used up."""

    def __init__(self, times_us: Mapping[tuple[int, int], Any], *, throttled: int = 0) -> None:
        self.configs = [SHORT, LONG, HIDDEN]
        self.times_us, self.throttled = times_us, throttled
        self.made: list[tuple[int, int, int]] = []
        self.fills = 0

    def forget_calls(self) -> None:
        assert self.made

    def fill(self, _: int) -> int:
        self.fills += 1
        return self.fills

    def call(self, who: str, config: int, choice: int, function: int, *, compared: bool) -> CallResult:
        assert (who, compared) == ("baseline0", False)
        self.made.append((config, choice, function))
        told = self.times_us[config, function]
        time_us = told.pop(0) if isinstance(told, list) else told
        if time_us is None:
            return CallResult(Status.RAISED, error="a CUDA error", text="illegal address")
        reasons = ("power",) if len(self.made) <= self.throttled else ()
        return CallResult(Status.OK, wall_us=time_us + 2.0, resume_us=0.0, event_us=time_us, throttled=reasons)


def measured(baselines: Baselines) -> dict[str, BaselineTimes]:
    return replayed_baselines(baselines, baselines.fill, [[EAGER, COMPILE], [EAGER], [EAGER]])  # type: ignore[arg-type]


def test_the_baselines_of_each_visible_configuration_are_measured_five_times_or_once_if_it_is_long() -> None:
    baselines = Baselines({(0, EAGER): 9.0, (0, COMPILE): 7.0, (1, EAGER): 300.0})
    assert measured(baselines) == {"short": (9.0, 7.0), "long": (300.0, None)}
    counts = dict.fromkeys(baselines.times_us, 0)
    for config, _, function in baselines.made:
        counts[config, function] += 1
    assert counts == {(0, EAGER): 6, (0, COMPILE): 6, (1, EAGER): 2}, "the first of each counts not"
    assert baselines.fills == 6


def test_a_first_call_that_is_long_for_another_reason_hides_no_gap() -> None:
    baselines = Baselines({(0, EAGER): [5000.0, 8.0, 8.5, 9.0, 8.0, 8.2], (0, COMPILE): 20.0, (1, EAGER): 300.0})
    assert measured(baselines)["short"].eager_us == 8.2


def test_calls_during_which_the_clocks_were_lowered_are_no_reason_to_fail() -> None:
    plain = {(0, COMPILE): 20.0, (1, EAGER): 300.0}
    few = Baselines({(0, EAGER): [90.0, 80.0, *[8.0] * 4], **plain}, throttled=3)
    assert measured(few)["short"].eager_us == 8.0
    always = Baselines({(0, EAGER): 9.0, **plain}, throttled=99)
    assert measured(always)["short"].eager_us == 9.0


def test_a_baseline_that_fails_is_our_fault() -> None:
    with pytest.raises(RefereeError, match=r"torch\.compile baseline failed when it was replayed: illegal address"):
        measured(Baselines({(0, EAGER): 9.0, (0, COMPILE): None, (1, EAGER): 300.0}))


@pytest.mark.parametrize(
    ("kind", "is_control", "is_measured"),
    [(GpuSession, False, True), (GpuSession, True, False), (StandingGpuSession, False, False)],
)
def test_it_is_measured_before_the_submission_is_loaded_but_not_in_control_runs_and_looks(
    kind: type[GpuSession], monkeypatch: pytest.MonkeyPatch, *, is_control: bool, is_measured: bool
) -> None:
    setting = SimpleNamespace(
        configs=[SHORT],
        rules=default_rules(),
        gpu=SimpleNamespace(accelerator="cuda"),
        prepared=SimpleNamespace(problems=["too slow"]),
        control=is_control,
    )
    own: Any = SimpleNamespace(
        setting=setting,
        measures_gaps=kind.measures_gaps,
        repeats_replay=True,
        _captured=Captured(),
        _lacked=lambda: 0,
        _lacked_before=0,
        fill=lambda _: 0,
    )
    for name in ("crew", "_referee", "_layout", "_sets", "_draw_again", "_cut_log"):
        setattr(own, name, None)
    quick = CallResult(Status.OK, wall_us=11.0, resume_us=0.0, event_us=8.0)
    monkeypatch.setattr(Replay, "capture_baselines", lambda *_: None)
    monkeypatch.setattr(Replay, "call", lambda *_, **__: quick)
    laps = Laps()
    GpuSession._capture_baselines(own, laps)
    assert own._captured.replayed == ({"short": (8.0, None)} if is_measured else {})
    assert ("baselines_timed" in laps.seconds) is is_measured
    assert own.replay is not None


@pytest.mark.parametrize(("trust", "shares"), [("bounded", {"short": 0.8}), ("replayed", {})])
def test_baselines_that_take_2_us_longer_when_they_are_launched_one_by_one_leave_a_gap(
    tmp_path: Any, trust: str, shares: dict[str, float]
) -> None:
    rules = default_rules()
    track = GpuTrack(Gpu("cuda:0", "NVIDIA H200", "GPU-a", "580.1", 8 << 30, "sm_90", ()), rules, Paths(tmp_path))
    track.timing_trust = trust
    track._session = SimpleNamespace(replayed_baselines={"short": BaselineTimes(9.0, 8.0)})  # type: ignore[assignment]
    results = [ConfigReport("short", "single", eager_us=10.0, compile_us=12.0), ConfigReport("other", "single")]
    assert track.baseline_gap(results) == pytest.approx(shares)
    wrong = [ConfigReport("short", "single", eager_us=10.0), ConfigReport("other", "single", compile_us=12.0)]
    gap = {"short": 0.9} if shares else {}
    assert track.baseline_gap(wrong) == pytest.approx(gap), "a torch.compile that is wrong has no time in the judging"
    assert CpuTrack(rules, Paths(tmp_path)).baseline_gap(results) == {}


def test_nothing_is_known_of_baselines_that_could_not_be_captured(tmp_path: Any) -> None:
    gpu = Gpu("cuda:0", "NVIDIA H200", "GPU-a", "580.1", 8 << 30, "sm_90", ())
    track = GpuTrack(gpu, default_rules(), Paths(tmp_path))
    track._session = object.__new__(GpuSession)
    track._session._captured = Captured(is_told=True)
    assert track.baseline_gap([ConfigReport("short", "single", eager_us=10.0)]) == {}
