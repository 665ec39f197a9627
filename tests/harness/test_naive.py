"""The naive harness believes what a script in one process can believe, and the judge's world stays out of it.

Not covered: its numbers, which mean nothing by design.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.harness import (
    Device,
    Paths,
    Room,
    Rules,
    UsageError,
    compile_source,
    default_suites,
    find_task,
    room_with_gpu,
    tracks,
)
from benchmarks.harness.gpu.discovery import Gpu
from benchmarks.naive import NaiveResult, opinion, script
from benchmarks.naive.measure import MARK, read_opinion
from scripts.corpus import CORPUS, read_case

FOLDER = CORPUS / "mnist_linear_relu-forward"


@pytest.mark.parametrize(
    ("log", "exit_code", "expected"),
    [
        (f'{MARK}{{"agrees": true, "speedup": 2.5}}\n', 0, NaiveResult("agrees", 2.5)),
        (f'{MARK}{{"agrees": false, "speedup": 2.5}}\n', 0, NaiveResult("differs")),
        (
            f'{MARK}{{"agrees": true, "speedup": 2}}\n{MARK}{{"agrees": true, "speedup": 900}}\n',
            0,
            NaiveResult("agrees", 900),
        ),
        (f'{MARK}{{"agrees": true, "speedup": NaN}}\n', 0, NaiveResult("nonsense")),
        (f'{MARK}{{"agrees": true, "speedup": "-Infinity"}}\n', 0, NaiveResult("nonsense")),
        (f'{MARK}{{"agrees": true, "speedup": 1{"0" * 400}}}\n', 0, NaiveResult("nonsense")),
        (f"{MARK}[1]\n", 0, NaiveResult("nonsense")),
        (f"{MARK}{'[' * 20000}\n", 0, NaiveResult("nonsense")),
        (f"  {MARK}indented\n", 0, NaiveResult("failed")),
        ("", 139, NaiveResult("failed")),
        ("", None, NaiveResult("no answer")),
    ],
)
def test_reads_the_last_line_with_its_mark(log: str, exit_code: int | None, expected: NaiveResult) -> None:
    assert read_opinion(log, exit_code) == expected


@pytest.mark.sandbox
@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize(
    ("name", "said", "at_least"),
    [("honest_library", "agrees", 0.2), ("cache_by_pointer", "agrees", 5.0), ("zeros", "differs", None)],
)
def test_believes_a_cache_and_sees_what_is_plainly_wrong(
    name: str, said: str, at_least: float | None, rules: Rules, paths: Paths
) -> None:
    case = read_case(FOLDER / name)
    task = find_task(default_suites(), case.task)
    binary = compile_source(case.source(), task, rules, paths).binary
    assert binary is not None
    found = opinion(task, binary, rules, paths)
    assert found.said == said
    assert (found.speedup is None) == (at_least is None)
    assert found.speedup is None or at_least is None or found.speedup > at_least


FILTERED = """
from pathlib import Path
status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
if status["Seccomp"] != "2":
    raise SystemExit("no filter of system calls is in force")
"""


@pytest.mark.sandbox
@pytest.mark.usefixtures("sandbox")
def test_a_filter_is_in_force_before_a_reference_runs(rules: Rules, paths: Paths, tmp_path: Path) -> None:
    """It may be the file of another suite."""
    case = read_case(FOLDER / "honest_library")
    task = find_task(default_suites(), case.task)
    (tmp_path / "reference.py").write_text(FILTERED + task.reference_source)
    binary = compile_source(case.source(), task, rules, paths).binary
    assert binary is not None
    assert opinion(replace(task, folder=tmp_path), binary, rules, paths).said == "agrees"


@pytest.mark.sandbox
@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize(("name", "said"), [("honest_library", "agrees"), ("zeros", "differs")])
def test_runs_on_a_gpu_that_nobody_judges_on_meanwhile(
    name: str, said: str, rules: Rules, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in for a GPU: torch calls it the processor, and all else is as with one."""
    gpu = Gpu("host:0", "Stand-in", "host-0", "none", 8 << 30, "sm_90", (), accelerator="host")
    held: list[str] = []

    def lock(uuid: str, *_: object) -> AbstractContextManager[None]:
        held.append(uuid)
        return nullcontext()

    monkeypatch.setattr(tracks, "gpus", lambda: (gpu,))
    monkeypatch.setattr(tracks, "gpu_lock", lock)
    case = read_case(FOLDER / name)
    task = find_task(default_suites(), case.task)
    small = replace(task, configs={"cuda": task.configs_for("cpu"), "cpu": ()})
    binary = compile_source(case.source(), task, rules, paths).binary
    assert binary is not None
    found = opinion(small, binary, rules, paths, device=Device("host:0", gpu.kind, gpu.title, "cuda"))
    assert (found.said, held) == (said, ["host-0"])


def test_a_gpu_that_is_not_here_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tracks, "gpus", lambda: ())
    with pytest.raises(UsageError, match="no GPU 'cuda:0' here"), room_with_gpu(Room({}), "cuda:0", Paths(tmp_path)):
        pass


def test_a_mean_by_events_is_over_as_many_calls_as_the_time_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call takes 0.1 s by the clock of the events, so ten warm it up and twenty are timed."""
    calls: list[int] = []

    class Event:
        def __init__(self, *, enable_timing: bool) -> None:
            self.at = -1

        def record(self) -> None:
            self.at = len(calls)

        def elapsed_time(self, end: "Event") -> float:
            return 100.0 * (end.at - self.at)

    monkeypatch.setattr(script.torch.cuda, "Event", Event)
    monkeypatch.setattr(script.torch.cuda, "synchronize", lambda: None)
    assert script.mean_s(calls.append, [1], "cuda") == pytest.approx(0.1)
    assert len(calls) == 1 + 10 + 20


@pytest.mark.sandbox
@pytest.mark.usefixtures("sandbox")
def test_a_file_that_never_returns_costs_its_time_alone(
    rules: Rules, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.naive.measure._TIMEOUT_S", 6.0)
    case = read_case(FOLDER / "infinite_loop")
    task = find_task(default_suites(), case.task)
    binary = compile_source(case.source(), task, rules, paths).binary
    assert binary is not None
    assert opinion(task, binary, rules, paths) == NaiveResult("no answer")
