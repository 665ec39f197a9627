"""The judge end to end: real sandbox, real compiler, real referee."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness import (
    Cancelled,
    Paths,
    Report,
    Source,
    Step,
    SupervisorError,
    UsageError,
    Verdict,
    Watcher,
    builds_ahead,
    default_rules,
    default_suites,
    find_task,
    is_prepared,
    judge,
    prepare_task,
    self_test,
)
from benchmarks.harness.compilers import builds
from benchmarks.harness.errors import LacksMemory, RefereeError
from benchmarks.harness.measuring.baselines import CpuPreparation
from benchmarks.harness.measuring.calls import Judging
from benchmarks.harness.tracks import CpuTrack, open_track
from tests.scheduling import beside_the_cache

pytestmark = pytest.mark.sandbox
RULES = replace(default_rules(), time=replace(default_rules().time, steps_per_config=5, min_steps_per_config=5))
TASK = find_task(default_suites(), "mnist_linear_relu/forward")
KERNEL = (TASK.folder / "kernels" / "forward_cpu.cpp").read_text()


@pytest.fixture(scope="module")
def steps() -> list[Step]:
    return []


@pytest.fixture(scope="module")
def report(paths: Paths, steps: list[Step]) -> Report:
    return judge(Source(KERNEL, "cpp"), TASK, RULES, paths, quick=True, watcher=Watcher(steps.append))


def test_a_good_kernel_passes_with_a_score_on_every_visible_configuration(report: Report) -> None:
    assert report.verdict is Verdict.PASS, report.reason
    assert report.score is not None
    for item in report.configs:
        assert item.correct
        assert (item.speedup is None) == (item.group == "hidden")


def test_every_timed_call_is_checked(report: Report) -> None:
    visits = RULES.verify.calls_per_config
    for item in report.configs:
        timed = 0 if item.group == "hidden" else RULES.time.steps_per_config
        assert item.calls >= item.checked_calls >= 2 * visits + timed


def test_hidden_configurations_keep_their_values(report: Report) -> None:
    hidden = [item for item in report.configs if item.group == "hidden"]
    values = [config.key for config in TASK.configs_for("cpu") if config.hidden]
    assert [item.key for item in hidden] == [f"hidden {n + 1}" for n in range(len(values))]
    assert not any(key in str(report.to_json()) for key in values)


def test_stages_come_in_order_and_take_time(report: Report, steps: list[Step]) -> None:
    assert [item.name for item in report.stages] == ["static", "compile", "prepare", "load", "verify", "time"]
    assert [item.stage for item in steps if item.state == "started"] == [item.name for item in report.stages]
    assert any(item.stage == "verify" and item.total == len(report.configs) for item in steps)


def test_the_report_says_where_and_how_it_was_measured(report: Report) -> None:
    assert report.environment["threads"] >= 1
    assert 0 < report.environment["null_call_us"] < 1e5
    assert report.isolation


def test_what_breaks_off_only_with_the_submission_is_its_own_fault(
    report: Report, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control run is a real one: it judges without the submission on the same machine."""

    def broken(_: Judging) -> None:
        raise RefereeError("the referee went away")

    monkeypatch.setattr(Judging, "verify", broken)
    again = judge(Source(KERNEL, "cpp"), TASK, RULES, paths, quick=True)
    assert again.verdict is Verdict.RUNTIME_ERROR
    assert "the referee went away" in again.reason


def test_what_breaks_off_before_the_file_is_loaded_is_not_its_fault(
    report: Report, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be over when the control run is made."""
    made, make = list[str](), CpuTrack.session

    def session(track: CpuTrack, *setting: Any) -> Any:
        made.append("session")
        if len(made) == 1:
            raise SupervisorError("no memory can be shared just now")
        return make(track, *setting)

    monkeypatch.setattr(CpuTrack, "session", session)
    monkeypatch.setattr(CpuTrack, "control", lambda *_: made.append("control"))
    with pytest.raises(SupervisorError, match="just now"):
        judge(Source(KERNEL, "cpp"), TASK, RULES, paths, quick=True)
    assert made == ["session"]


@pytest.mark.parametrize(
    "error",
    [
        LacksMemory("torch.compile found too little GPU memory", log="much that it printed"),
        RefereeError("preparing baselines failed: torch.OutOfMemoryError: CUDA out of memory.", log="all it printed"),
    ],
)
def test_baselines_that_lack_gpu_memory_while_they_are_prepared_blame_nobody(
    report: Report, paths: Paths, monkeypatch: pytest.MonkeyPatch, error: RefereeError
) -> None:
    """Nor is the worker taken out of service: another task may fit."""

    def lacking(*_: Any) -> None:
        raise error

    monkeypatch.setattr(CpuPreparation, "compiled", lacking)
    found = judge(Source(KERNEL, "cpp"), TASK, RULES, paths, quick=True)
    assert (found.verdict, found.reason) == (Verdict.INTERNAL_ERROR, error.reason)


def test_baselines_that_cannot_be_prepared_for_another_reason_are_our_fault(
    report: Report, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> None:
        raise RefereeError("preparing baselines did not answer", log="CUDA out of memory")

    monkeypatch.setattr(CpuPreparation, "compiled", failing)
    with pytest.raises(RefereeError, match="did not answer"):
        judge(Source(KERNEL, "cpp"), TASK, RULES, paths, quick=True)


@pytest.fixture
def own_paths() -> Iterator[Paths]:
    """What is known of this machine is this test's own; what was compiled is not."""
    with beside_the_cache(shared=("builds", "headers")) as folder:
        yield Paths(folder)


@pytest.fixture
def slow_peaks(report: Report, paths: Paths, own_paths: Paths) -> list[Path]:
    """All that is kept of this machine says that it is ten thousand times slower."""
    kept = {own_paths.baselines / file.name: file.read_text() for file in paths.baselines.glob("peaks-*.json")}
    for file, text in kept.items():
        peaks = json.loads(text)
        copies = [[size, rate / 1e4] for size, rate in peaks["copy_bytes_per_s"]]
        file.write_text(json.dumps({"copy_bytes_per_s": copies, "flops_per_s": peaks["flops_per_s"] / 1e4}))
    return list(kept)


def test_peaks_of_a_busy_moment_accuse_nobody(slow_peaks: list[Path], own_paths: Paths) -> None:
    """They are measured again before a kernel is said to be faster than the machine."""
    before = {file: file.read_text() for file in slow_peaks}
    again = judge(Source(KERNEL, "cpp"), TASK, RULES, own_paths, quick=True)
    assert again.verdict is Verdict.PASS, again.reason
    assert "gate-roofline" not in {gate.code for gate in again.gates}
    assert [file.read_text() == text for file, text in before.items()].count(False) == 1


def test_baselines_are_prepared_once_and_told_as_compiling(tmp_path: Path) -> None:
    own, steps = Paths(tmp_path), []
    task = replace(TASK, configs={"cpu": TASK.configs_for("cpu")[:2]})
    with pytest.raises(Cancelled):
        prepare_task(task, RULES, own, watcher=Watcher(steps.append, lambda: bool(steps)))
    assert not list(own.baselines.glob("*/ready.json"))
    assert not is_prepared(task, RULES, own)
    steps.clear()
    prepare_task(task, RULES, own, watcher=Watcher(steps.append))
    assert [(step.stage, step.done) for step in steps] == [("compile", n) for n in range(2)]
    assert len(list(own.baselines.glob("*/ready.json"))) == 1
    assert is_prepared(task, RULES, own)
    assert not list(own.baselines.glob("peaks-*.json"))  # they are measured where nothing else is
    steps.clear()
    prepare_task(task, RULES, own, watcher=Watcher(steps.append))
    assert steps == []


def test_a_cancelled_judging_reports_nothing(paths: Paths) -> None:
    seen: list[Step] = []

    def cancelled() -> bool:
        return any(step.stage == "verify" for step in seen)

    with pytest.raises(Cancelled):
        judge(Source(KERNEL, "cpp"), TASK, RULES, paths, quick=True, watcher=Watcher(seen.append, cancelled))


def test_an_unknown_device_is_a_wrong_call(paths: Paths) -> None:
    with pytest.raises(UsageError, match="abacus"):
        judge(Source(KERNEL, "cpp"), TASK, RULES, paths, device="abacus")


def test_a_wrong_reference_is_our_fault_and_never_the_kernels(paths: Paths, tmp_path_factory) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path_factory.mktemp("suite") / "broken"
    folder.mkdir()
    (folder / "reference.py").write_text("def forward(*args):\n    raise RuntimeError('broken task')\n")
    with pytest.raises(SupervisorError, match="broken task"):
        judge(Source(KERNEL, "cpp"), replace(TASK, folder=folder, version=99), RULES, paths, quick=True)


@pytest.mark.alone
def test_what_is_built_ahead_is_all_that_the_self_test_compiles(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    for job in builds_ahead(default_rules(), paths):
        job()
    monkeypatch.setattr(builds, "_compile", lambda *_: pytest.fail("it compiles"))
    self_test(default_rules(), paths)
    assert is_prepared(TASK, default_rules(), paths)


def test_each_task_begins_with_the_probes_of_the_machine(paths: Paths, tmp_path: Path) -> None:
    preparation = open_track("cpu", RULES, paths).preparation(TASK, Watcher(), stage="prepare")
    probes = preparation.probes(paths)
    preparation.begin(paths, tmp_path / "cache")
    names = {file.relative_to(probes) for file in probes.rglob("*.so")}
    assert names
    assert names == {file.relative_to(tmp_path / "cache") for file in (tmp_path / "cache").rglob("*.so")}
