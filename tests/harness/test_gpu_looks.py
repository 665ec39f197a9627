"""Looks on a GPU, with a stand-in: referee and eager stay, every kernel has processes of its own."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness import (
    Cancelled,
    Looks,
    Paths,
    Source,
    Verdict,
    Watcher,
    default_rules,
    default_suites,
    find_task,
    tracks,
)
from benchmarks.harness.errors import ChildSurvived, LacksMemory, NotAwake, NotStanding, RefereeError
from benchmarks.harness.gpu import lack, room, standing
from benchmarks.harness.gpu.crew import Crew, Spare
from benchmarks.harness.gpu.discovery import Gpu
from benchmarks.harness.gpu.marks import mark_of_task
from benchmarks.harness.gpu.record import NotReplayable
from benchmarks.harness.gpu.replay import Replay
from benchmarks.harness.gpu.room import PLACES, MemoryPlace, demand_room
from benchmarks.harness.gpu.standing import StandingGpuSession
from benchmarks.harness.hosts.locks import open_shared, try_lock
from benchmarks.harness.sandbox.isolation import Child
from benchmarks.harness.scores import scoring

pytestmark = pytest.mark.sandbox
# of its own: other tests demand the memory of theirs
STAND_IN = Gpu("host:0", "Stand-in", f"host-{os.getpid()}", "none", 8 << 30, "sm_90", (), accelerator="host")
TASK = find_task(default_suites(), "mnist_linear_relu/forward")
SHOWN = sorted((item for item in TASK.configs_for("cuda") if not item.hidden), key=lambda item: item.bytes_moved)
SMALL = replace(TASK, configs={"cuda": (SHOWN[0],)})
TEXT = (TASK.folder / "kernels" / "forward_cpu.cpp").read_text()
RIGHT = Source(TEXT, "cpp")
_NO_RELU = Path("benchmarks/harness/selfcheck/kernels/wrong.cpp").read_text()  # right where nothing is below zero
WRONG = Source(_NO_RELU.replace("(x, weights, biases);", "(x, weights, biases) * -2 - 1;"), "cpp")
CRASHES = Source(TEXT.replace("    x = x.contiguous();", "    __builtin_trap();", 1), "cpp")


@pytest.fixture
def looks(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> Iterator[Looks]:
    monkeypatch.setattr(tracks, "gpus", lambda: (STAND_IN,))
    monkeypatch.setattr(tracks.GpuTrack, "speaks", lambda *_: True)
    monkeypatch.setattr(standing, "SPARES", 1)
    rules = default_rules()
    few = replace(rules.gpu_time, steps_per_config=2, min_steps_per_config=2)
    calm = replace(
        rules.gpu,
        flush_bytes=1 << 20,
        spare_bytes=1 << 20,
        burst_bytes=1 << 20,
        slack_us=1e6,
        spread_max_us=1e9,
        contention=1e6,
    )
    looks = Looks(SMALL, replace(rules, gpu_time=few, gpu=calm), paths, "host:0")
    yield looks
    looks.close()


def kept(looks: Looks) -> StandingGpuSession:
    session = looks._keeper._kept
    assert isinstance(session, StandingGpuSession)
    return session


def pids(looks: Looks) -> tuple[int | None, int | None]:
    crew = kept(looks).crew
    return crew.baselines[0].child.pid, crew.referee.child.pid


def test_every_kernel_has_processes_of_its_own_and_the_rest_stays(looks: Looks) -> None:
    first = looks.judge(RIGHT)
    assert first.verdict is Verdict.PASS, first.reason
    stays = pids(looks)
    candidates = {kept(looks).crew.candidates[0].child.pid}
    for source, verdict in ((CRASHES, Verdict.RUNTIME_ERROR), (WRONG, Verdict.INCORRECT_VALUE), (RIGHT, Verdict.PASS)):
        report = looks.judge(source)
        assert report.verdict is verdict, report.reason
        candidates.add(kept(looks).crew.candidates[0].child.pid)
    assert pids(looks) == stays
    assert len(candidates) == 4
    assert report.environment["visit"] == 4
    assert looks.broken == []


def test_what_cannot_be_replayed_is_judged_alone_only_if_it_is_right(
    looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in for a GPU replays nothing; here it goes on as a GPU does."""
    first = looks.judge(RIGHT)
    assert first.verdict is Verdict.PASS, first.reason
    stays = pids(looks)

    def as_on_a_gpu(session: StandingGpuSession) -> None:
        session._demand_right()
        raise NotStanding("cannot be replayed")

    monkeypatch.setattr(StandingGpuSession, "_serve_one", as_on_a_gpu)
    wrong, crashes, right = (looks.judge(source) for source in (WRONG, CRASHES, RIGHT))
    assert wrong.verdict is Verdict.INCORRECT_VALUE, wrong.reason
    assert "elements are off" in wrong.reason
    assert crashes.verdict is Verdict.RUNTIME_ERROR
    assert right.verdict is Verdict.PASS
    assert [report.environment.get("judged_alone") for report in (wrong, crashes, right)] == [
        None,
        None,
        "cannot be replayed",
    ]
    assert pids(looks) == stays
    assert looks.broken == []


def test_a_look_that_is_given_up_leaves_the_session_to_the_next(looks: Looks) -> None:
    asked = 0

    def tired() -> bool:
        nonlocal asked
        asked += 1
        return asked > 6

    with pytest.raises(Cancelled):
        looks.judge(RIGHT, Watcher(cancelled=tired))
    assert looks.judge(RIGHT).verdict is Verdict.PASS


def test_a_session_that_breaks_off_is_replaced_and_the_kernel_judged_alone(
    looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert looks.judge(RIGHT).verdict is Verdict.PASS
    stays = pids(looks)

    def broken(*_: object) -> None:
        raise RefereeError("it lost its way")

    with monkeypatch.context() as patch:
        patch.setattr(StandingGpuSession, "_clear_folders", broken)
        report = looks.judge(RIGHT)
    assert (report.verdict, report.environment["judged_alone"]) == (Verdict.PASS, "it lost its way")
    assert looks.broken == ["it lost its way"]
    assert looks.judge(RIGHT).verdict is Verdict.PASS
    assert pids(looks) != stays


def test_nothing_stays_where_it_would_fill_the_gpu(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "_MEMORY_SHARE", 0.0)
    report = looks.judge(RIGHT)
    assert report.verdict is Verdict.PASS
    assert "too much of the GPU's memory" in report.environment["judged_alone"]
    assert looks.broken == []
    assert not kept(looks).stands


def test_nobody_is_left_when_it_is_closed(looks: Looks) -> None:
    assert looks.judge(RIGHT).verdict is Verdict.PASS
    crew, spares = kept(looks).crew, list(kept(looks)._spares)
    looks.close()
    everybody = [*crew.baselines, *crew.candidates, *(item.candidate for item in spares)]
    assert len(spares) == 1
    assert all(actor.child.exit_code() is not None for actor in everybody)
    assert not crew.folder.exists()


def test_a_session_that_waits_ends_when_somebody_needs_the_memory(looks: Looks) -> None:
    assert looks.judge(RIGHT).verdict is Verdict.PASS
    session = kept(looks)
    referee = session.crew.referee
    demand_room(STAND_IN)
    assert not session.stands
    assert referee.exit_code() is not None
    assert looks.judge(RIGHT).verdict is Verdict.PASS
    assert kept(looks).stands
    assert kept(looks).visits == 1
    assert looks.broken == []


@pytest.mark.usefixtures("own_marks")
def test_a_session_whose_baselines_lacked_memory_ends(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    """What libraries have chosen then would stay with it, and the next one would lack memory as well."""
    with monkeypatch.context() as patch:
        patch.setattr(StandingGpuSession, "_lacked", lambda _: 1)
        for why in ("too little GPU memory", "that kept sessions would hold"):
            report = looks.judge(RIGHT)
            assert report.verdict is Verdict.PASS
            assert why in report.environment["judged_alone"]
    assert not lack.is_crowded(mark_of_task(SMALL)), "others may keep one"
    monkeypatch.setattr(standing, "CROWDED_S", 0.0)
    assert looks.judge(RIGHT).verdict is Verdict.PASS
    assert kept(looks).visits == 1, "started anew"


@pytest.mark.usefixtures("own_marks")
def test_a_session_that_finds_no_memory_for_itself_leaves_the_look_to_another(
    looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def receive(_: object) -> None:
        raise LacksMemory("CUDA out of memory")

    monkeypatch.setattr(StandingGpuSession, "_receive_memory", receive)
    report = looks.judge(RIGHT)
    assert report.verdict is Verdict.PASS
    assert "too little GPU memory" in report.environment["judged_alone"]
    assert looks.broken == []


def test_a_session_beside_which_a_kernel_lacked_memory_ends(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judging that decides would find it waiting, and be NOISY because of it."""
    assert looks.judge(RIGHT).verdict is Verdict.PASS

    def begin(*_: object) -> None:
        raise NotReplayable("CUDA error: out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(Replay, "begin", begin)
        report = looks.judge(RIGHT)
    assert report.verdict is Verdict.PASS
    assert "left too little GPU memory" in report.environment["judged_alone"]
    assert not kept(looks).stands
    assert looks.judge(RIGHT).verdict is Verdict.PASS
    assert kept(looks).visits == 1, "started anew"


def test_a_session_that_cannot_start_for_want_of_memory_is_not_tried_again_at_once(
    looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    def stand(session: StandingGpuSession) -> None:
        started.append("kept")
        session.is_alone = True
        raise NotAwake("the process baseline0 did not start: CUDA error: out of memory")

    monkeypatch.setattr(StandingGpuSession, "_stand", stand)
    for _ in range(2):
        assert looks.judge(RIGHT).verdict is Verdict.PASS
    assert started == ["kept"]


@pytest.mark.parametrize("times", [1, 2])
def test_a_process_that_waited_beside_another_judging_and_died_is_replaced_once(
    looks: Looks, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """That judging held all memory. The baselines have theirs, so no session is given up for an hour."""
    assert looks.judge(RIGHT).verdict is Verdict.PASS
    stays, relieve, failed = pids(looks), Crew.relieve, list[Spare]()

    def dies(crew: Crew, spare: Spare) -> None:
        if len(failed) < times:
            failed.append(spare)
            raise NotAwake("the process candidate1 did not start: torch.OutOfMemoryError: CUDA out of memory")
        relieve(crew, spare)

    monkeypatch.setattr(Crew, "relieve", dies)
    report = looks.judge(RIGHT)
    assert report.verdict is Verdict.PASS, report.reason
    assert all(spare.candidate.child.exit_code() is not None for spare in failed)
    assert looks.broken == []
    assert not kept(looks).has_lately_lacked_room
    assert kept(looks).stands is (times == 1)
    if times == 1:
        assert "judged_alone" not in report.environment
        assert pids(looks) == stays
    else:
        assert "beside a kept session" in report.environment["judged_alone"]
        assert looks.judge(RIGHT).environment["visit"] == 1, "started anew"


def test_nobody_ends_a_session_while_a_kernel_is_looked_at(looks: Looks) -> None:
    """Every user of the machine may hold the lock that calls for memory, for as long as he likes."""
    with open_shared(room._call(STAND_IN)) as call:
        assert try_lock(call)
        for _ in range(2):
            report = looks.judge(RIGHT)
            assert report.verdict is Verdict.PASS, report.reason
            assert looks.broken == []
        until_s = time.monotonic() + 10
        while kept(looks).stands and time.monotonic() < until_s:
            time.sleep(0.05)
        assert not kept(looks).stands, "nobody looks now"


def test_measuring_the_machine_again_leaves_the_session_alone(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    """As happens where a kernel seems to be faster than the machine can be."""
    found, is_first = scoring.under_the_floor, iter([True])
    monkeypatch.setattr(scoring, "under_the_floor", lambda *told: next(is_first, False) or found(*told))
    report = looks.judge(RIGHT)
    assert report.verdict is Verdict.PASS, report.reason
    assert kept(looks).stands
    assert looks.broken == []


def test_a_session_that_cannot_start_takes_no_place(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise RefereeError("there is no room")

    with monkeypatch.context() as patch:
        patch.setattr(standing, "Crew", full)
        assert looks.judge(RIGHT).verdict is Verdict.PASS
    assert looks.broken == ["there is no room"]
    places = [MemoryPlace(STAND_IN, lambda: None) for _ in range(PLACES)]
    taken = [place.take() for place in places]
    for place in places:
        place.give_back()
    assert all(taken)


def test_a_kernel_cannot_spoil_the_page_on_which_the_next_one_is_called(looks: Looks) -> None:
    """Sealed, nobody could map it for writing again."""
    seals = "    for (int fd = 3; fd < 256; ++fd) fcntl(fd, 1033, 0x0010 | 0x0001);\n    x = x.contiguous();"
    source = "#include <fcntl.h>\n" + TEXT.replace("    x = x.contiguous();", seals, 1)
    assert looks.judge(Source(source, "cpp")).verdict is Verdict.PASS
    report = looks.judge(RIGHT)
    assert report.verdict is Verdict.PASS, report.reason
    assert report.environment["visit"] == 2


def test_what_kernels_print_does_not_pile_up(looks: Looks) -> None:
    for _ in range(2):
        assert looks.judge(RIGHT).verdict is Verdict.PASS
    logs = {path.name for path in kept(looks).crew.folder.glob("*.log")}
    assert logs == {"referee.log", "baseline0.log", "candidate2.log"}, "the last one is that of who waits"


def test_a_process_that_has_met_no_kernel_is_nobodys_fault(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    assert looks.judge(RIGHT).verdict is Verdict.PASS
    session = kept(looks)
    candidate, kill = session._spares[0].candidate.child, Child.kill

    def survives(child: Child) -> None:
        kill(child)
        if child is candidate:
            raise ChildSurvived("it is held")

    with monkeypatch.context() as patch:
        patch.setattr(Child, "kill", survives)
        with pytest.raises(ChildSurvived):
            looks.close()
    assert session.crew.referee.exit_code() is not None


@pytest.fixture
def survives_others(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Another judging calls for the memory, and a process of the session does not end."""
    end = Crew._end

    def survives(crew: Crew) -> None:
        end(crew)
        raise ChildSurvived("it is held")

    def call() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Crew, "_end", survives)
            demand_room(STAND_IN)

    return call


def test_the_owner_is_told_of_what_survived_when_others_called(
    looks: Looks, survives_others: Callable[[], None]
) -> None:
    assert looks.judge(RIGHT).verdict is Verdict.PASS
    survives_others()
    with pytest.raises(ChildSurvived, match="it is held"):
        looks.judge(RIGHT)
    assert looks.judge(RIGHT).verdict is Verdict.PASS


def test_the_owner_is_told_of_it_when_it_closes(looks: Looks, survives_others: Callable[[], None]) -> None:
    assert looks.judge(RIGHT).verdict is Verdict.PASS
    survives_others()
    with pytest.raises(ChildSurvived, match="it is held"):
        looks.close()


def test_the_owner_is_told_of_it_if_others_call_while_it_chooses_a_session(
    looks: Looks, survives_others: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert looks.judge(RIGHT).verdict is Verdict.PASS
    demand_ended = StandingGpuSession.demand_ended
    for is_before in (True, False):
        calls = iter([survives_others])

        def demanded(session: StandingGpuSession, calls: Any = calls, is_before: bool = is_before) -> None:
            call = next(calls, lambda: None)
            if is_before:
                call()
            demand_ended(session)
            if not is_before:
                call()

        with monkeypatch.context() as patch:
            patch.setattr(StandingGpuSession, "demand_ended", demanded)
            with pytest.raises(ChildSurvived, match="it is held"):
                looks.judge(RIGHT)
        assert looks.judge(RIGHT).verdict is Verdict.PASS
