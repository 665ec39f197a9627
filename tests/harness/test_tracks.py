"""What differs between judging on a processor and on a GPU: which device, which locks, and what bounds the times."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.harness import Paths, Rules, UsageError, Verdict, default_suites, find_task, tracks
from benchmarks.harness.errors import SupervisorError
from benchmarks.harness.foreign import examine
from benchmarks.harness.gpu.discovery import Gpu
from benchmarks.harness.hosts import locks
from benchmarks.harness.hosts.locks import open_shared, try_lock
from benchmarks.harness.measuring.calls import CANDIDATE, ConfigTally
from benchmarks.harness.measuring.contestants import CallResult
from benchmarks.harness.measuring.faults import Fault
from benchmarks.harness.measuring.session import NOTHING
from benchmarks.harness.protocol import Status
from benchmarks.harness.report import ConfigReport
from benchmarks.harness.sandbox.isolation import Room
from benchmarks.harness.source import Watcher
from benchmarks.harness.tasks.spec import Config, TaskSpec
from benchmarks.harness.tracks import CpuTrack, GpuTrack, open_track

GPUS = (
    Gpu("cuda:0", "NVIDIA H200", "GPU-a", "580.1", 8 << 30, "sm_90", ()),
    Gpu("cuda:1", "NVIDIA L4", "GPU-b", "580.1", 8 << 30, "sm_89", ()),
)
CANARY = {
    "copy_gb_per_s": 4000.0,
    "gemm_tflops": 50.0,
    "state": {"clock_mhz": 1980, "memory_clock_mhz": 3201, "temperature_c": 41, "power_w": 300.0},
}


@pytest.fixture(autouse=True)
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracks, "gpus", lambda: GPUS)


@pytest.fixture
def task() -> TaskSpec:
    return find_task(default_suites(), "mnist_linear_relu/forward")


@pytest.fixture
def track(rules: Rules, tmp_path: Path) -> GpuTrack:
    return GpuTrack(GPUS[0], rules, Paths(tmp_path))


def test_a_device_is_opened_by_its_name_and_a_processor_by_its_kind(rules: Rules, tmp_path: Path) -> None:
    cpu = open_track("cpu", rules, Paths(tmp_path))
    assert isinstance(cpu, CpuTrack)
    assert isinstance(open_track(cpu.device.kind, rules, Paths(tmp_path)), CpuTrack)
    second = open_track("cuda:1", rules, Paths(tmp_path))
    assert (second.device.kind, second.target, second.timing_trust) == ("nvidia-l4", "sm_89", "bounded")


def test_an_unknown_device_is_refused_with_those_that_are_here(rules: Rules, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"no device 'cuda:7' here; known: cpu \(cpu-.*, cuda:0 \(nvidia-h200\), cuda:1"
    ):
        open_track("cuda:7", rules, Paths(tmp_path))
    with pytest.raises(UsageError, match="no device 'cuda:7' here"):
        tracks.versions_on("cuda:7")


def test_each_track_has_the_configurations_of_its_class_hidden_ones_last(track: GpuTrack, task: TaskSpec) -> None:
    cpu = CpuTrack(track.rules, track.paths)
    for one, name in ((cpu, "cpu"), (track, "cuda")):
        found = one.configs(task)
        assert sorted(item.key for item in found) == sorted(item.key for item in task.configs_for(name))
        hidden = [item.hidden for item in found]
        assert hidden == sorted(hidden)
        assert any(hidden)


def test_each_track_speaks_the_languages_of_its_device(track: GpuTrack) -> None:
    cpu = CpuTrack(track.rules, track.paths)
    spoken = {name: (cpu.speaks(name), track.speaks(name)) for name in ("cpp", "cuda", "triton", "python")}
    assert spoken == {"cpp": (True, False), "cuda": (False, True), "triton": (False, True), "python": (True, True)}


def test_a_gpu_is_timed_by_the_numbers_for_gpus(track: GpuTrack, rules: Rules) -> None:
    assert track.rules.time == rules.gpu_time
    assert CpuTrack(rules, track.paths).rules.time == rules.time


def test_one_gpu_is_judged_on_at_a_time_and_the_other_beside_it(
    track: GpuTrack, rules: Rules, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names: list[str] = []

    def lock(name: str, *_: object) -> Any:
        names.append(name)
        return nullcontext()

    monkeypatch.setattr(locks, "machine_lock", lock)
    for one in (track, track, GpuTrack(GPUS[1], rules, track.paths)):
        with one.lock(Watcher()), one.build_lock(Watcher()):
            pass
    assert names == ["gpu-GPU-a", "gpu-GPU-a", "gpu-GPU-b"]


def test_nothing_is_timed_on_the_processors_beside_a_gpu_and_its_builds(
    track: GpuTrack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a submission for a GPU runs there may keep all processors of the machine busy."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def can_be_timed() -> bool:
        with open_shared("kbench-cpu.lock") as lock:
            return try_lock(lock)

    examined = SimpleNamespace(gpu=GPUS[0], waited_s=0.0)

    def examination(_: Watcher) -> Any:
        return examine._Work._gpu_alone(examined)

    def usual_script(_: Watcher) -> Any:
        return tracks.room_with_gpu(Room({}), GPUS[0].name, track.paths)

    for lock in (track.lock, track.build_lock, track.prepare_lock, examination, usual_script):
        assert can_be_timed()
        with lock(Watcher()):
            assert not can_be_timed()


def test_a_processor_has_no_audit(rules: Rules, tmp_path: Path, task: TaskSpec) -> None:
    with pytest.raises(UsageError, match="nothing is audited on cpu"):
        CpuTrack(rules, Paths(tmp_path)).audit(task, tmp_path, {}, tmp_path, lambda: False)


def test_an_audit_runs_no_hidden_configuration(
    track: GpuTrack, task: TaskSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a tool prints of a configuration is shown, so hidden ones must not be run under it."""
    audited: list[Config] = []

    def auditor(_: TaskSpec, configs: Sequence[Config], *__: object) -> Any:
        audited.extend(configs)
        return SimpleNamespace(look=lambda results: {"results": results})

    monkeypatch.setattr(tracks, "Auditor", auditor)
    assert track.audit(task, tmp_path, {}, tmp_path, lambda: False) == {"results": {}}
    assert audited
    assert not any(item.hidden for item in audited)
    assert len(audited) < len(track.configs(task))


def test_nothing_is_measured_before_a_session_is_open(track: GpuTrack) -> None:
    with pytest.raises(SupervisorError, match="before it was opened"):
        track.before()


def test_the_next_processes_wake_up_after_a_session_alone(track: GpuTrack, monkeypatch: pytest.MonkeyPatch) -> None:
    ordered: list[object] = []
    monkeypatch.setattr(tracks, "STANDBY", SimpleNamespace(refill=ordered.append, wake=lambda: ordered.append("woken")))
    track.finished()
    assert not ordered
    track._session = SimpleNamespace(setting=SimpleNamespace(order=lambda: "an order"))  # type: ignore[assignment]
    track.finished()
    assert ordered == ["an order", "woken"]


def calls(event_us: float, wall_us: float, *, scatter_us: float = 2.0, **more: Any) -> list[CallResult]:
    """Calls whose wall times lie up to `scatter_us` apart."""
    plain: dict[str, Any] = {"resume_us": 0.0, "tail_us": 170.0, "flush_us": 90.0, "gate_us": 250.0, **more}
    return [
        CallResult(Status.OK, wall_us=wall_us + scatter_us * (number % 3) / 2, event_us=event_us, **plain)
        for number in range(9)
    ]


def tally(config: Config, candidate: list[CallResult]) -> ConfigTally:
    found = ConfigTally(config)
    for result, baseline in zip(candidate, calls(60.0, 463.7), strict=True):
        found.launches.append(len(found.launches) % 2)
        found.note_time(CANDIDATE, result)
        found.note_time(("baseline", 0), baseline)
    return found


Finish = Callable[..., tuple[tuple[ConfigReport, ...], Mapping[str, Any]]]


@pytest.fixture
def finish(track: GpuTrack, task: TaskSpec) -> Finish:
    """What a GPU track finds after the last call of one visible configuration."""

    def finish(
        candidate: list[CallResult],
        *,
        null: list[CallResult] | None = None,
        canary: Mapping[str, Any] = CANARY,
        hidden: bool = False,
        lacks: bool = False,
    ) -> tuple[tuple[ConfigReport, ...], Mapping[str, Any]]:
        empty = calls(1.3, 405.0) if null is None else null

        def demand_memory() -> None:
            if lacks:
                raise Fault(Verdict.OUT_OF_MEMORY, "too little memory for the baselines")

        again, quick = cycle(empty), calls(60.0, 463.7)[0]
        session = SimpleNamespace(
            canary=lambda: CANARY,
            machine={"flush_us": 90.0},
            replay=None,
            not_replayed="it waits for the GPU",
            crew=SimpleNamespace(end_candidates=lambda: None),
            writes_us=lambda: 90.0,
            fill=lambda number: number,
            turn=lambda _: None,
            demand_memory_for_baselines=demand_memory,
            call_baseline=lambda _, __, function: next(again) if function == NOTHING else quick,
        )
        track._session = session  # type: ignore[assignment]
        track.before()
        session.canary = lambda: canary
        config = next(item for item in track.configs(task) if item.hidden is hidden)
        repeated = list[str]()
        judging = SimpleNamespace(
            ledgers=[tally(config, candidate)],
            null_calls=empty,
            demand_wrong_compile=lambda: repeated.append(config.key),
        )
        found = track.after(judging, [ConfigReport(config.key, config.group)])  # type: ignore[arg-type]
        assert repeated == [config.key], "torch.compile must be wrong without the submission as well"
        return found

    return finish


def test_an_honest_kernel_is_bounded_and_the_report_says_why(finish: Finish, track: GpuTrack) -> None:
    (result,), found = finish(calls(50.0, 453.7))
    assert result.excess_us == pytest.approx(0.0, abs=1.0)
    assert found["not_replayed"] == "it waits for the GPU"
    assert found["canary_drift"] == 0.0
    assert found["temperature_c"] == 41
    assert track.timing_trust == "bounded"


def test_a_kernel_that_claims_less_than_it_used_is_accused(finish: Finish) -> None:
    with pytest.raises(Fault, match="longer than the reported time") as raised:
        finish(calls(5.0, 903.7))
    assert raised.value.verdict is Verdict.TAMPERING


def test_a_false_claim_is_found_before_a_baseline_that_was_slower_makes_it_noise(
    finish: Finish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A submission could slow baselines down, and NOISY is nobody's fault."""

    def slowed(*_: object) -> None:
        raise Fault(Verdict.NOISY, "something slowed the GPU")

    monkeypatch.setattr(tracks, "calls_alone", slowed)
    with pytest.raises(Fault, match="something slowed"):
        finish(calls(50.0, 453.7))
    with pytest.raises(Fault) as raised:
        finish(calls(5.0, 903.7))
    assert raised.value.verdict is Verdict.TAMPERING


def test_replayed_baselines_are_called_again_when_the_executors_have_ended(
    track: GpuTrack, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    track._session = SimpleNamespace(replay=object())  # type: ignore[assignment]
    monkeypatch.setattr(tracks, "demand_quick_replays", lambda *_: order.append("ended and alone"))
    judging: Any = SimpleNamespace(demand_wrong_compile=lambda: order.append("compile"))
    track.confirm(judging)
    assert order == ["ended and alone", "compile"]


def test_memory_that_baselines_lacked_ends_it_unless_a_claim_is_false(finish: Finish) -> None:
    for candidate, verdict in ((calls(50.0, 453.7), Verdict.OUT_OF_MEMORY), (calls(5.0, 903.7), Verdict.TAMPERING)):
        with pytest.raises(Fault) as raised:
            finish(candidate, lacks=True)
        assert raised.value.verdict is verdict


def test_what_a_busy_machine_could_explain_is_charged_and_accuses_nobody(finish: Finish, rules: Rules) -> None:
    """On an H200 an honest call of cuBLAS once took 45 µs longer than it said, beside empty calls that did not."""
    (result,), _ = finish(calls(50.0, 453.7 + 45.0))
    assert result.excess_us == pytest.approx(45.0, abs=1.0)
    with pytest.raises(Fault, match="longer than the reported time"):
        finish(calls(50.0, 453.7 + 45.0 + rules.gpu.spread_max_us))


def test_a_hidden_configuration_has_no_times_to_bound(finish: Finish) -> None:
    """Whatever its calls claimed: it is checked and not timed."""
    (result,), _ = finish(calls(5.0, 903.7), hidden=True)
    assert result.excess_us is None


def test_work_left_on_the_gpu_shows_in_the_flush_before_the_next_call(finish: Finish, rules: Rules) -> None:
    slow_us = 90.0 * rules.gpu.contention * 2
    with pytest.raises(Fault, match="kept running on the GPU") as raised:
        finish(calls(50.0, 453.7, flush_us=slow_us))
    assert raised.value.verdict is Verdict.TAMPERING


def test_a_host_on_which_empty_calls_scatter_measures_nothing(finish: Finish, rules: Rules) -> None:
    """That is our machine's fault and not the submission's, if they scatter without the submission as well."""
    with pytest.raises(Fault, match="the host is too busy") as raised:
        finish(calls(50.0, 453.7), null=calls(1.3, 405.0, scatter_us=3 * rules.gpu.spread_max_us))
    assert raised.value.verdict is Verdict.NOISY


def test_a_small_drift_of_the_gpu_is_told_and_accuses_nobody(finish: Finish) -> None:
    _, found = finish(calls(50.0, 453.7), canary={**CANARY, "gemm_tflops": 47.5})
    assert found["canary_drift"] == pytest.approx(0.05)


def test_a_copied_result_is_told(finish: Finish) -> None:
    (result,), _ = finish(calls(50.0, 453.7, copied=True))
    assert result.copied


def test_replayed_times_need_no_bound(
    finish: Finish, track: GpuTrack, task: TaskSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even a claim that a bound would refuse: a replayed submission claims nothing."""
    monkeypatch.setattr(tracks, "credit_bursts", lambda *_: {"bursts": {}})
    track._session = SimpleNamespace(canary=lambda: CANARY, machine={}, replay=object())  # type: ignore[assignment]
    track.before()
    judging = SimpleNamespace(ledgers=[tally(track.configs(task)[0], calls(5.0, 903.7))], null_calls=[])
    _, found = track.after(judging, [ConfigReport("c", "single")])  # type: ignore[arg-type]
    assert track.timing_trust == "replayed"
    assert "bursts" in found
    assert "null_bound_us" not in found


def test_drift_is_measured_against_the_nearest_of_the_first_measurements(track: GpuTrack) -> None:
    track._before = [CANARY, {**CANARY, "copy_gb_per_s": 3000.0}]
    assert track._drift({**CANARY, "copy_gb_per_s": 3030.0}) == pytest.approx(0.01)


def test_a_launch_is_looked_at_alone(task: TaskSpec) -> None:
    config = task.configs_for("cuda")[0]
    found = tally(config, calls(50.0, 453.7))
    first, second = found.of_launch(0), found.of_launch(1)
    assert (len(first.seen[CANDIDATE]), len(second.seen[CANDIDATE])) == (5, 4)
    assert len(found.seen[CANDIDATE]) == 9
