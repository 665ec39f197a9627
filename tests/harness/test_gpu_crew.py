"""The processes of a GPU judging: what each of them sees, in which order they end, and which crew waits for the next.

Stand-ins take the place of the processes; `test_gpu_session.py` starts real ones.
"""

import io
import os
import tarfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.harness import default_rules
from benchmarks.harness.errors import ChildSurvived, IsolationError, NotAwake, ProcessLost, SupervisorError
from benchmarks.harness.gpu import crew as crews
from benchmarks.harness.gpu.crew import Crew, CrewSpec, Standby, on_gpu
from benchmarks.harness.gpu.discovery import Gpu
from benchmarks.harness.measuring.faults import Stuck
from benchmarks.harness.protocol import ProtocolError
from benchmarks.harness.sandbox.isolation import Room
from benchmarks.harness.sandbox.outbox import NotTaken

STAND_IN = Gpu("host:0", "Stand-in", "host-0", "none", 8 << 30, "sm_90", (Path("/dev/stand-in"),), accelerator="host")
REAL = replace(STAND_IN, accelerator="cuda", uuid="GPU-1")
TRUSTED = ["baseline0", "baseline1", "referee"]
UNTRUSTED = ["candidate0", "candidate1"]


@dataclass
class Stage:
    """What happened to the stand-ins, in order; who does not end, and who does not start."""

    events: list[tuple[str, str]] = field(default_factory=list)
    rooms: dict[str, Room] = field(default_factory=dict)
    arguments: dict[str, tuple[str, ...]] = field(default_factory=dict)
    descriptors: tuple[int, ...] = ()
    immortal: set[str] = field(default_factory=set)
    stillborn: str = ""
    exited: set[str] = field(default_factory=set)
    unable: set[str] = field(default_factory=set)  # who does not get a context on the GPU, as when its memory is full
    unable_once: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)  # whom the machine has ended for want of memory

    def of(self, event: str) -> list[str]:
        return [name for happened, name in self.events if happened == event]


class Process:
    """Stands in for an `Actor`, the child of one, and the referee."""

    def __init__(self, stage: Stage, number: int) -> None:
        self.stage, self.control = stage, SimpleNamespace(fd=100 + number)
        self.name, self.started = "", False
        self.link = SimpleNamespace(
            send=lambda **message: stage.events.append((*message, self.name)),
            receive=self.receive,
        )

    @property
    def child(self) -> "Process":
        return self

    def start(self, room: Room, log: Path, *_: Any, arguments: tuple[str, ...] = (), **__: Any) -> None:
        self.name = log.stem
        if self.name == self.stage.stillborn:
            raise SupervisorError("it does not start")
        log.touch()
        self.started = True
        self.stage.rooms[self.name] = room
        self.stage.arguments[self.name] = arguments
        self.stage.events.append(("start", self.name))

    def receive(self, _: float) -> dict[str, Any]:
        if self.name in self.stage.unable | self.stage.unable_once:
            self.stage.unable_once.discard(self.name)
            raise ProtocolError("the other side went away")
        return {"awake": True}

    def log_tail(self, _: int) -> str:
        return ""

    def wait(self, _: float) -> int:
        return 1

    def is_lost(self) -> bool:
        return self.name in self.stage.lost

    def doom(self) -> None:
        self.stage.events.append(("doom", self.name))

    def kill(self) -> None:
        if self.started:
            self.stage.events.append(("kill", self.name))
        if self.name in self.stage.immortal:
            raise ChildSurvived(self.name)

    def close(self) -> None:
        self.stage.events.append(("close", self.name))

    def exit_code(self) -> int | None:
        return 1 if self.name in self.stage.exited else None


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    stage, made = Stage(), iter(range(100))

    def referee(_: str, room: Room, log: Path, *, fds: tuple[int, ...], **more: Any) -> Process:
        stage.descriptors = fds
        process = Process(stage, next(made))
        process.start(room, log, **more)
        return process

    monkeypatch.setattr(crews, "Actor", lambda _: Process(stage, next(made)))
    monkeypatch.setattr(crews, "RefereeProcess", referee)
    return stage


@pytest.fixture
def order(tmp_path: Path) -> CrewSpec:
    rules = default_rules()
    return CrewSpec(STAND_IN, replace(rules, time=rules.gpu_time), tmp_path / "pool.so", tmp_path, None, threads=2)


def seen_by(room: Room) -> set[str]:
    """The folders of a crew that a room shows, by their names on this machine."""
    return {path.name for path in room.read_only} & {"task", "job", "kernels", "code", "cache0", "cache1", "pool.so"}


def test_each_launch_has_a_baseline_and_a_candidate_and_on_a_gpu_an_executor(stage: Stage, order: CrewSpec) -> None:
    """And who compiles is awake there before a submission is known."""
    Crew(order)
    assert sorted(stage.of("start")) == sorted([*TRUSTED, *UNTRUSTED])
    stage.events.clear()
    Crew(replace(order, gpu=REAL))
    assert sorted(stage.of("start")) == sorted([*TRUSTED, *UNTRUSTED, "executor0", "executor1", "warm"])


def test_nobody_sees_more_than_its_part(stage: Stage, order: CrewSpec) -> None:
    """The reference is for the trusted, the submission for candidates, and its device code alone for executors."""
    Crew(replace(order, gpu=REAL))
    assert "task" in seen_by(stage.rooms["referee"])
    assert "task" in seen_by(stage.rooms["baseline0"])
    for name in TRUSTED:
        assert not seen_by(stage.rooms[name]) & {"job", "kernels", "code"}
    for name in UNTRUSTED:
        assert seen_by(stage.rooms[name]) == {"job", "kernels", "pool.so"}
    assert seen_by(stage.rooms["executor0"]) == {"code"}
    assert seen_by(stage.rooms["warm"]) == {"job", "pool.so"}
    assert all(room.devices == REAL.nodes for room in stage.rooms.values())


def test_only_who_compiles_loads_the_compiler(stage: Stage, order: CrewSpec) -> None:
    """It takes seconds, and no other process waits for anything longer."""
    Crew(order)
    assert "compile" in stage.arguments["baseline0"]
    Crew(replace(order, compiles=False))
    assert "compile" not in stage.arguments["baseline0"]


def test_each_baseline_has_a_cache_of_its_own(stage: Stage, order: CrewSpec) -> None:
    Crew(order)
    for number, name in enumerate(("baseline0", "baseline1")):
        shown = {path.name for path in (*stage.rooms[name].read_only, *stage.rooms[name].writable)}
        assert {item for item in shown if item.startswith("cache")} == {f"cache{number}"}


def test_a_room_for_warming_has_no_kernels_yet_and_space_for_them(stage: Stage, order: CrewSpec) -> None:
    crew = Crew(order)
    calm, warm = crew.candidate_room(), crew.candidate_room(warming=True)
    assert seen_by(calm) - seen_by(warm) == {"kernels"}
    assert warm.scratch_bytes > calm.scratch_bytes == order.rules.limits.scratch_bytes
    assert calm.environment["TRITON_CACHE_DIR"] == warm.environment["TRITON_CACHE_DIR"]
    assert calm.environment["OMP_NUM_THREADS"] == "2"


def test_the_referee_has_the_control_page_of_every_contestant(stage: Stage, order: CrewSpec) -> None:
    crew = Crew(order)
    controls = [actor.control for actor in (*crew.baselines, *crew.candidates)]
    assert stage.descriptors == tuple(page.fd for page in (*controls, *crew.pages))
    assert len(set(stage.descriptors)) == 6  # executors have pages of their own, which no submission ever maps


def test_a_crew_that_does_not_start_leaves_nothing(stage: Stage, order: CrewSpec) -> None:
    stage.stillborn = "candidate1"
    with pytest.raises(SupervisorError, match="does not start"):
        Crew(order)
    assert sorted(set(stage.of("kill"))) == sorted([*TRUSTED, "candidate0"])
    assert not list(order.scratch.glob("crew-*"))


def test_every_candidate_is_killed_before_the_first_is_waited_for(stage: Stage, order: CrewSpec) -> None:
    """A kernel that holds the GPU keeps the first one alive for a while; the others must not run on meanwhile."""
    crew = Crew(order)
    stage.events.clear()
    crew.end_candidates()
    assert stage.events == [
        ("doom", "candidate0"),
        ("doom", "candidate1"),
        ("kill", "candidate0"),
        ("kill", "candidate1"),
    ]


@pytest.mark.parametrize(
    ("survivor", "error"),
    [
        ("candidate0", Stuck),
        ("executor1", Stuck),
        ("warm", Stuck),
        ("referee", ChildSurvived),
        ("baseline1", ChildSurvived),
    ],
)
def test_whose_process_survives_decides_whose_fault_it_is(
    stage: Stage, order: CrewSpec, survivor: str, error: type[Exception]
) -> None:
    """All others are ended and the folder is removed all the same."""
    crew = Standby().take(replace(order, gpu=REAL))
    crew.has_met_a_submission = True
    stage.immortal.add(survivor)
    stage.events.clear()
    with pytest.raises(error):
        crew.kill()
    assert {*TRUSTED, *UNTRUSTED, "executor0", "executor1", "warm"} <= set(stage.of("kill"))
    assert set(stage.of("close")) == {*UNTRUSTED, "warm"}
    assert not crew.folder.exists()


def test_what_survives_before_a_submission_is_shown_is_our_fault(stage: Stage, order: CrewSpec) -> None:
    crew = Standby().take(replace(order, gpu=REAL))
    stage.immortal.add("executor1")
    for end in (crew.dismiss, crew.kill):
        with pytest.raises(ChildSurvived, match="never loaded a submission"):
            end()


def test_an_executor_that_runs_on_is_the_submissions_fault(stage: Stage, order: CrewSpec) -> None:
    crew = Crew(replace(order, gpu=REAL))
    crew.has_met_a_submission = True
    stage.immortal.add("executor0")
    with pytest.raises(Stuck):
        crew.end_executors()
    assert ("kill", "executor1") in stage.events


def test_a_process_that_warms_up_and_runs_on_is_the_submissions_fault(stage: Stage, order: CrewSpec) -> None:
    crew = Crew(order)
    crew.warmer()
    crew.has_met_a_submission = True
    stage.immortal.add("warm")
    with pytest.raises(Stuck):
        crew.end_warmer()
    assert stage.of("doom")[-1] == stage.of("kill")[-1] == "warm"


def packed(name: str, content: bytes = b"kernel") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT) as archive:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


def test_the_process_that_compiles_ends_before_others_take_memory(stage: Stage, order: CrewSpec) -> None:
    Crew(replace(order, gpu=REAL)).end_warmer()
    Crew(order).end_warmer()
    assert stage.of("kill") == ["warm"]


def test_kernels_that_a_warming_process_left_are_what_candidates_see(stage: Stage, order: CrewSpec) -> None:
    crew = Crew(order)
    (crew.folder / "kernels" / "planted").mkdir()
    (crew.folder / "kernels" / "planted" / "kernel.cubin").write_text("written without the strong sandbox")
    os.write(crew.warmer()[1], packed("linear.cubin"))
    crew.keep_kernels({})
    assert [path.name for path in (crew.folder / "kernels").iterdir()] == ["linear.cubin"]


@pytest.mark.parametrize("left", [packed("../job/kernel.so"), packed("/kernel.so"), b"no archive"])
def test_nothing_else_that_it_left_is_kept(stage: Stage, order: CrewSpec, left: bytes) -> None:
    crew = Crew(order)
    os.write(crew.warmer()[1], left)
    with pytest.raises(NotTaken):
        crew.keep_kernels({})
    assert not list((crew.folder / "job").iterdir())


def test_a_waiting_crew_serves_the_next_session_once(stage: Stage, order: CrewSpec) -> None:
    standby = Standby()
    standby.wanted = True
    standby.refill(order)
    started = len(stage.of("start"))
    assert not stage.of("wake")
    first = standby.take(order)
    assert len(stage.of("start")) == started
    assert sorted(stage.of("wake")) == sorted([*TRUSTED, *UNTRUSTED])
    second = standby.take(order)
    assert second is not first
    assert second.folder != first.folder


def test_a_crew_of_which_the_machine_ended_a_process_is_replaced_and_doubts_no_device(
    stage: Stage, order: CrewSpec
) -> None:
    stage.lost = {"candidate0"}
    stage.unable_once = {"candidate0"}
    standby = Standby()
    standby.wanted = True
    standby.refill(order)
    assert standby.take(order).alive()
    stage.unable = {"candidate0"}
    with pytest.raises(ProcessLost):
        standby.take(order)


def test_a_waiting_crew_sleeps_until_nothing_is_timed_and_is_woken_once(stage: Stage, order: CrewSpec) -> None:
    standby = Standby()
    standby.wake()
    standby.wanted = True
    standby.refill(replace(order, gpu=REAL))
    assert not stage.of("wake")
    assert all("asleep" in arguments for arguments in stage.arguments.values())
    standby.wake()
    standby.take(replace(order, gpu=REAL))
    assert sorted(stage.of("wake")) == sorted([*TRUSTED, *UNTRUSTED, "executor0", "executor1", "warm"])


def test_who_is_started_late_is_awake_at_once(stage: Stage, order: CrewSpec) -> None:
    crew = Crew(order)
    crew.wake()
    crew.warmer()
    assert stage.of("wake").count("warm") == 1


def test_a_crew_is_kept_ready_only_where_it_is_wanted_and_only_one(stage: Stage, order: CrewSpec) -> None:
    standby = Standby()
    standby.refill(order)
    assert not stage.events
    standby.wanted = True
    standby.refill(order)
    standby.refill(order)
    assert stage.of("start").count("referee") == 1


def test_a_crew_that_was_made_for_other_rules_is_ended(stage: Stage, order: CrewSpec) -> None:
    standby = Standby()
    standby.wanted = True
    standby.refill(order)
    taken = standby.take(replace(order, threads=1))
    assert set(stage.of("kill")) >= {*TRUSTED, *UNTRUSTED}
    assert taken.order.threads == 1
    assert taken.folder.exists()


@pytest.mark.parametrize("dead", ["candidate1", "baseline0", "referee"])
def test_a_crew_of_which_somebody_died_while_it_waited_is_replaced(stage: Stage, order: CrewSpec, dead: str) -> None:
    standby = Standby()
    standby.wanted = True
    standby.refill(order)
    waiting = standby._crew
    stage.exited.add(dead)
    assert standby.take(order) is not waiting
    assert waiting is not None
    assert not waiting.folder.exists()


def test_a_worker_that_ends_leaves_no_waiting_crew(stage: Stage, order: CrewSpec) -> None:
    standby = Standby()
    standby.wanted = True
    standby.refill(order)
    standby.close()
    assert set(stage.of("kill")) == {*TRUSTED, *UNTRUSTED}
    assert not list(order.scratch.glob("crew-*"))
    standby.refill(order)
    assert stage.of("start").count("referee") == 1


def ready(order: CrewSpec) -> Standby:
    standby = Standby()
    standby.wanted = True
    standby.refill(order)
    return standby


ON_A_GPU = [*TRUSTED, *UNTRUSTED, "executor1"]


@pytest.mark.parametrize("unable", ON_A_GPU)
def test_a_crew_that_does_not_wake_up_is_replaced(stage: Stage, order: CrewSpec, unable: str) -> None:
    """The submission before may have filled the GPU while it woke up: neither the next one nor the judge pays."""
    order = replace(order, gpu=REAL)
    standby = ready(order)
    waiting = standby._crew
    stage.unable_once.add(unable)
    taken = standby.take(order)
    assert waiting is not None
    assert taken is not waiting
    assert not waiting.folder.exists()
    assert taken.folder.exists()


@pytest.mark.parametrize("unable", ON_A_GPU)
def test_a_new_crew_that_does_not_wake_up_is_our_fault(stage: Stage, order: CrewSpec, unable: str) -> None:
    """No submission is known to it yet, and nobody else is on the GPU."""
    stage.unable.add(unable)
    with pytest.raises(NotAwake, match=unable):
        Standby().take(replace(order, gpu=REAL))
    assert not list(order.scratch.glob("crew-*"))


def test_a_compiling_process_that_does_not_wake_up_is_our_fault(stage: Stage, order: CrewSpec) -> None:
    crew = Standby().take(order)
    stage.unable.add("warm")
    with pytest.raises(NotAwake):
        crew.warmer()
    assert stage.of("start").count("warm") == 2


def test_a_compiling_process_that_ended_while_it_waited_is_replaced(stage: Stage, order: CrewSpec) -> None:
    """Else whoever needs it next would put the device out of service."""
    crew = Crew(replace(order, gpu=REAL))
    stage.unable_once.add("warm")
    crew.warmer()
    assert [stage.of(event).count("warm") for event in ("start", "kill", "close")] == [2, 1, 1]


def test_a_compiling_process_that_survives_before_it_met_a_submission_is_our_fault(
    stage: Stage, order: CrewSpec
) -> None:
    crew = Standby().take(order)
    stage.unable.add("warm")
    stage.immortal.add("warm")
    with pytest.raises(ChildSurvived):
        crew.warmer()


@pytest.mark.parametrize("survivor", ["candidate0", "executor0", "warm"])
def test_a_process_that_met_no_submission_and_survives_is_our_fault(
    stage: Stage, order: CrewSpec, survivor: str
) -> None:
    """C++ and CUDA, for example, are shown to none that compiles: it ends before they are loaded."""
    crew = Crew(replace(order, gpu=REAL))
    ends = {"candidate0": crew.end_candidates, "executor0": crew.end_executors, "warm": crew.end_warmer}
    stage.immortal.add(survivor)
    with pytest.raises(ChildSurvived, match="never loaded a submission"):
        ends[survivor]()


@pytest.mark.parametrize("survivor", ["candidate0", "executor0", "warm", "referee"])
def test_a_crew_that_met_no_submission_and_does_not_end_is_our_fault(
    stage: Stage, order: CrewSpec, survivor: str
) -> None:
    """Else the submission that comes next is refused for what it never saw."""
    standby = ready(replace(order, gpu=REAL))
    stage.immortal.add(survivor)
    with pytest.raises(ChildSurvived):
        standby.take(replace(order, gpu=REAL, threads=1))


def test_a_next_crew_that_cannot_be_started_costs_this_judging_nothing(
    stage: Stage, order: CrewSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its verdict may be known already. The next judging starts its own processes, and says what is wrong."""
    standby = Standby()
    standby.wanted = True
    stage.stillborn = "candidate1"
    standby.refill(order)

    def isolated(_: CrewSpec) -> Crew:
        raise IsolationError("no control group can be made")

    monkeypatch.setattr(crews, "Crew", isolated)
    standby.refill(order)
    monkeypatch.setattr(crews, "Crew", lambda _: os.mkdir("/nowhere/crew"))
    standby.refill(order)
    standby.wake()
    with pytest.raises(OSError, match="nowhere"):
        standby.take(order)


def test_a_waiting_crew_that_died_is_replaced_at_the_next_refill(stage: Stage, order: CrewSpec) -> None:
    standby = ready(order)
    waiting = standby._crew
    assert waiting is not None
    stage.exited.add("referee")
    standby.refill(order)
    assert standby._crew is not waiting
    assert not waiting.folder.exists()


def test_compiled_python_files_are_shown_where_torch_has_none(tmp_path: Path) -> None:
    room = Room(environment={"LC_ALL": "C.UTF-8"})
    plain = on_gpu(room, STAND_IN, None)
    assert plain.memory_bytes is None
    assert plain.environment == {"LC_ALL": "C.UTF-8"}
    with_files = on_gpu(room, REAL, tmp_path)
    assert tmp_path in with_files.read_only
    assert with_files.environment["CUDA_VISIBLE_DEVICES"] == "GPU-1"
    assert "KBENCH_BYTECODE" in with_files.environment
