"""The energy of a call, with counters that are files or fakes: no machine of the tests has a real one."""

import math
import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from statistics import stdev
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.harness import stages
from benchmarks.harness.child.gpu.referee import GpuReferee
from benchmarks.harness.errors import SupervisorError
from benchmarks.harness.gpu import energy as gpu
from benchmarks.harness.gpu.replay import Burn
from benchmarks.harness.hosts.energy import RaplCounter, rapl_counters, used_uj
from benchmarks.harness.measuring import energy as cpu
from benchmarks.harness.measuring.energy import UNCLEAR, UNREADABLE, call_energy
from benchmarks.harness.protocol import Status
from benchmarks.harness.report import ConfigReport
from benchmarks.harness.source import NOBODY, Watcher
from benchmarks.harness.stages import StagedJudging

TIMED = ConfigReport(key="n=1", group="single", correct=True, kernel_us=50.0)
HIDDEN = ConfigReport(key="hidden 1", group="hidden", correct=True)


def zone(folder: Path, name: str, title: str, energy_uj: int = 0) -> Path:
    path = folder / name
    path.mkdir()
    (path / "name").write_text(f"{title}\n")
    (path / "max_energy_range_uj").write_text("1000\n")
    (path / "energy_uj").write_text(f"{energy_uj}\n")
    return path


def test_packages_are_counted_once_and_other_zones_not_at_all(tmp_path: Path) -> None:
    for name, title in (("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "core"), ("intel-rapl:1", "psys")):
        zone(tmp_path, name, title)
    (zone(tmp_path, "intel-rapl:2", "package-2") / "energy_uj").write_text("no number")
    assert [counter.path.name for counter in rapl_counters(tmp_path)] == ["intel-rapl:0"]
    assert rapl_counters(tmp_path / "nowhere") == ()


def test_a_counter_that_began_again_is_read_as_if_it_had_gone_on() -> None:
    counters = [RaplCounter(Path("a"), 1000), RaplCounter(Path("b"), 1000)]
    assert used_uj(counters, [900, 10], [100, 30]) == 200 + 20


def test_an_energy_is_the_mean_of_its_rounds_with_the_interval_of_students_t() -> None:
    found = call_energy([1.0, 2.0, 3.0, 6.0])
    assert found is None  # the interval reaches below zero
    found = call_energy([10.0, 11.0, 9.0, 10.0])
    assert found is not None
    assert found.mj == 10.0
    assert found.ci95_mj == pytest.approx((10 - 3.182 * 0.8165 / 2, 10 + 3.182 * 0.8165 / 2), abs=1e-3)
    assert call_energy([10.0, 10.0]) is None


class MeteredSession:
    """Calls that use a known energy: the kernel's on top of what a call of nothing uses."""

    def __init__(self, counter: Path, kernel_uj: int, nothing_uj: int = 40, status: Status = Status.OK) -> None:
        self.counter, self.kernel_uj, self.nothing_uj, self.status = counter, kernel_uj, nothing_uj, status

    def fill(self, _: int) -> int:
        return 0

    def show(self, _: int) -> None:
        """Nothing is looked at."""

    def use(self, energy_uj: int) -> None:
        self.counter.write_text(str((int(self.counter.read_text()) + energy_uj) % 10**9))

    def call_candidate(self, *_: Any, compared: bool) -> Any:
        self.use(self.kernel_uj + self.nothing_uj)
        return SimpleNamespace(status=self.status)

    def call_baseline(self, *_: Any) -> None:
        self.use(self.nothing_uj)


def metered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[tuple[ConfigReport, ...], str]:
    path = zone(tmp_path, "intel-rapl:0", "package-0", 10**9 - 500)
    counter = RaplCounter(path, 10**9)
    monkeypatch.setattr(cpu, "rapl_counters", lambda: (counter,))
    monkeypatch.setattr(cpu, "_ROUND_S", 0.002)
    return cpu.cpu_energy(MeteredSession(path / "energy_uj", **options), [TIMED, HIDDEN])  # type: ignore[arg-type]


def test_what_a_call_of_nothing_uses_is_not_the_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (timed, hidden), unknown = metered(tmp_path, monkeypatch, kernel_uj=250)
    assert timed.energy_mj == pytest.approx(0.25)
    assert timed.energy_ci95_mj == pytest.approx((0.25, 0.25))
    assert (hidden, unknown) == (HIDDEN, "")


@pytest.mark.parametrize("options", [{"kernel_uj": 0}, {"kernel_uj": 250, "status": Status.RAISED}])
def test_no_energy_is_told_where_none_can_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    assert metered(tmp_path, monkeypatch, **options) == ((TIMED, HIDDEN), UNCLEAR)


def test_without_readable_counters_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "rapl_counters", lambda: ())
    assert cpu.cpu_energy(SimpleNamespace(), [TIMED]) == ((TIMED,), UNREADABLE)  # type: ignore[arg-type]


# --- GPU -----------------------------------------------------------------------------------------------------------


def session_with(*burns: Any) -> Any:
    left = iter(burns)
    replay = SimpleNamespace(most_in_a_burst=lambda _: 8, burn=lambda *_: next(left))
    return SimpleNamespace(replay=replay, turn=lambda _: None, draw=lambda *_: None)


def burn_at(power_w: float, steps: int) -> Burn:
    """Calls of 20 µs, and a counter that moves every 100 ms."""
    return Burn([(1.0 + 0.1 * place, 5_000 + 100 * power_w * place) for place in range(steps)], 20e-6)


def test_the_energy_of_a_replayed_call_is_power_by_time() -> None:
    """At 300 W a call of 20 µs takes 6 mJ. One burst is enough where the counter moves often in it."""
    (timed, hidden), unknown = gpu.gpu_energy(session_with(burn_at(300, 12)), [TIMED, HIDDEN])
    assert timed.energy_mj == pytest.approx(6.0)
    assert timed.energy_ci95_mj == pytest.approx((6.0, 6.0))
    assert (hidden, unknown) == (HIDDEN, "")


def test_a_counter_that_moves_rarely_takes_more_bursts() -> None:
    """Three steps in each are two spans: 6 and 6 mJ, then 6.2 and 6.2, of which three count."""
    (timed,), _ = gpu.gpu_energy(session_with(burn_at(300, 3), burn_at(310, 3)), [TIMED])
    assert timed.energy_mj == pytest.approx(18.2 / 3)
    half = 4.303 * stdev([6.0, 6.0, 6.2]) / math.sqrt(3)
    assert timed.energy_ci95_mj == pytest.approx((18.2 / 3 - half, 18.2 / 3 + half))


def test_the_next_burst_is_as_long_as_this_counter_needs() -> None:
    asked: list[float] = []
    steps = [(0.02 * place, 5 * place) for place in range(20)]
    replay = SimpleNamespace(
        most_in_a_burst=lambda _: 8, burn=lambda *options: asked.append(options[2]) or Burn(steps, 20e-6)
    )
    session: Any = SimpleNamespace(replay=replay, turn=lambda _: None, draw=lambda *_: None)
    gpu.gpu_energy(session, [TIMED, TIMED])
    assert asked == [gpu.BURST_S, gpu.BURST_MIN_S]
    assert gpu.needed_s([(0.0, 0), (0.05, 1), (0.1, 2)]) == pytest.approx(0.05 + 1.1 * 4 * 0.05)
    assert gpu.needed_s([(0.0, 0), (1.0, 1)]) == gpu.needed_s([(0.0, 0)]) == gpu.BURST_S


def test_powers_are_of_spans_one_after_the_other() -> None:
    """100 W for as many steps as 200 W after it, though these take half of the time."""
    steps = [(0.0, 0), (1.0, 100), (2.0, 200), (2.5, 300), (3.0, 400)]
    assert gpu.powers_mw(steps, 4) == [100, 100, 200, 200]
    assert gpu.powers_mw(steps, 2) == [100, 200]
    assert gpu.powers_mw(steps, 9) == [100, 100, 200, 200]
    assert gpu.powers_mw(steps[:1], 4) == gpu.powers_mw([], 4) == []


@pytest.mark.parametrize("burn", [None, Burn([], 20e-6), Burn([(1.0, 5)], 20e-6)])
def test_a_counter_that_does_not_move_gives_no_energy(burn: Any) -> None:
    assert gpu.gpu_energy(session_with(*[burn] * gpu.BURSTS_MAX), [TIMED]) == ((TIMED,), gpu.NO_COUNTER)


def test_calls_that_are_not_replayed_have_no_energy() -> None:
    assert gpu.gpu_energy(SimpleNamespace(replay=None), [TIMED]) == ((TIMED,), gpu.NOT_REPLAYED)  # type: ignore[arg-type]


def test_the_referee_tells_the_steps_of_the_counter() -> None:
    """A counter that moves at every fourth reading."""
    readings = iter(range(100_000))
    device = SimpleNamespace(energy_mj=lambda: 10 * (next(readings) // 4))
    steps = GpuReferee.watch_energy(SimpleNamespace(_device=device), 0.0, 0.05)["steps"]  # type: ignore[arg-type]
    assert [mj for _, mj in steps] == [10 * (place + 1) for place in range(len(steps))]
    assert sorted(steps) == steps
    blind = SimpleNamespace(_device=SimpleNamespace(energy_mj=lambda: None))
    assert GpuReferee.watch_energy(blind, 0.0, 0.05) == {"steps": []}  # type: ignore[arg-type]


# --- in a judging --------------------------------------------------------------------------------------------------


def work(energy: Any, **options: Any) -> StagedJudging:
    made = StagedJudging(None, None, SimpleNamespace(energy=energy), False, NOBODY, **options)  # type: ignore[arg-type]
    made._session = SimpleNamespace()  # type: ignore[assignment]
    return made


def test_a_measurement_that_fails_takes_nothing_from_the_judging() -> None:
    def broken(*_: Any) -> Any:
        raise SupervisorError("the referee is gone\nand more")

    judging = work(broken)
    assert judging._with_energy((TIMED,)) == (TIMED,)
    assert judging.environment["energy_unknown"] == "measuring it failed: the referee is gone"


def test_a_measurement_that_works_is_in_the_results() -> None:
    measured = replace(TIMED, energy_mj=1.0, energy_ci95_mj=(0.9, 1.1))
    judging = work(lambda *_: ((measured,), ""))
    assert judging._with_energy((TIMED,)) == (measured,)
    assert set(judging.environment) == {"energy_s"}


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="with one core there is nothing to be pinned to")
def test_energy_is_measured_on_every_core_and_baselines_alone_as_they_were_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What starts meanwhile keeps the cores of whoever starts it."""
    everything, seen = os.sched_getaffinity(0), list[set[int]]()
    core = min(everything)

    def judged(*_: Any) -> Any:
        seen.append(os.sched_getaffinity(0))
        return None, "", (TIMED,)

    judging = work(lambda _, results: (seen.append(os.sched_getaffinity(0)), (results, ""))[1])
    track: Any = judging.track
    track.session, track.before, track.cores = lambda *_: nullcontext(), dict, SimpleNamespace(supervisor=(core,))
    track.confirm, track.configs = lambda _: (seen.append(os.sched_getaffinity(0)), {})[1], lambda _: ()
    monkeypatch.setattr(stages, "Judging", lambda *_: None)
    monkeypatch.setattr(judging, "_judge_calls", judged)
    judging._run_session(SimpleNamespace(binary=tmp_path), None, tmp_path)  # type: ignore[arg-type]
    assert seen == [{core}, everything, {core}]
    assert os.sched_getaffinity(0) == everything


def test_none_is_measured_while_others_wait() -> None:
    judging = work(None)
    judging.watcher = Watcher(others_wait=lambda: True)
    assert judging._with_energy((TIMED,)) == (TIMED,)
    assert judging.environment["energy_unknown"] == "other submissions were waiting for the device"


def test_rehearsals_and_quick_checks_measure_none() -> None:
    for judging in (work(None, rehearsal=True), replace(work(None), quick=True)):
        assert judging._with_energy((TIMED,)) == (TIMED,)


def test_an_energy_has_an_interval() -> None:
    with pytest.raises(ValueError, match="interval"):
        replace(TIMED, energy_mj=1.0)
