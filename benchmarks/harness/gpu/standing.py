"""A GPU session for many submissions: it keeps the referee, the eager baseline, its captured calls and shared memory.

A quick judging on a GPU spends most of its time on starting processes that import torch. Here referee and eager are
started once for many looks at submissions of one task. Each submission gets a new candidate process (it loads the
submission) and a new executor process (it replays the recorded calls). Both were started while earlier submissions were
timed, and take their context on the GPU when nothing is timed. Before the next submission the referee forgets what it
has drawn and compared, and clears the memory of the submission. On a GPU only calls that can be replayed are looked at
in this way; for others NotStanding is raised. Not covered: torch.compile, more than one launch, and Python that
launches kernels.
"""

import os
import threading
import time
from collections import deque
from contextlib import ExitStack
from typing import Any, NoReturn, Self

from ..errors import Cancelled, ChildSurvived, LacksMemory, NotAwake, NotStanding, Overloaded, SupervisorError
from ..measuring.faults import Fault, Stuck, call_fault
from ..measuring.laps import Laps
from ..report import Verdict
from ..sandbox.outbox import discard
from .capacity import WAITING_SHARE
from .crew import Crew, Spare
from .lack import is_crowded
from .marks import CROWDED_S, mark_of_task
from .replay import Captured
from .room import PLACES, MemoryPlace
from .session import PYTHON_SUFFIXES, GpuSession, GpuSetting

SPARES = 3  # candidates started in advance: importing torch takes longer than a look
VISITS_MAX = 100  # submissions, then referee and baseline are restarted: their processor time is limited
_MEMORY_SHARE = WAITING_SHARE / PLACES  # of the GPU's memory at most, so that full judgings with small tasks fit beside
_PER_SUBMISSION = ("job", "code", "kernels")


class StandingGpuSession(GpuSession):
    """Enter it once per submission, after `expect`; `end` ends the processes that are kept.

    Entering may raise NotStanding as well. While it is entered, nobody else can end it. Between two submissions another
    judging that needs the GPU's memory may end it.
    """

    measures_gaps = False  # on a GPU what it looks at is replayed, or not looked at

    def __init__(self, setting: GpuSetting) -> None:
        super().__init__(setting)
        self.visits = 0
        self.stands = False
        self._survivor: SupervisorError | Fault | None = None
        self._mine = threading.RLock()
        self._place = MemoryPlace(setting.gpu, self._make_room)
        self._started = 0
        self._lacked_room_s: float | None = None  # when it had to end because its baselines lacked memory
        self._spares: deque[Spare] = deque()
        self._baseline_serves = False
        self._canary: dict[str, Any] = {}

    @property
    def takes_bytes(self) -> int:
        """The GPU memory that it keeps between submissions."""
        return self._layout.input_bytes + 2 * self._arena_bytes + self._reserve_bytes()

    def demand_ended(self) -> None:
        """Raises ChildSurvived, once, if another judging tried to end it and failed.

        Waits until such an attempt is over, so whoever has found `stands` false before learns why.
        """
        with self._mine:
            error, self._survivor = self._survivor, None
        if error is not None:
            raise ChildSurvived(str(error)) from error

    @property
    def has_lately_lacked_room(self) -> bool:
        """Whether its baselines found too little GPU memory during the last hour: the task is judged without one."""
        return self._lacked_room_s is not None and time.monotonic() - self._lacked_room_s < CROWDED_S

    def expect(self, setting: GpuSetting) -> Self:
        """Sets the next submission: `setting` may differ from the last one only in submission and scratch folder."""
        self.setting = setting
        return self

    def canary(self) -> dict[str, Any]:
        """The GPU's speed, measured only once: a measurement takes as long as all calls of a look."""
        self._canary = self._canary or super().canary()
        return self._canary

    def __enter__(self) -> Self:
        self._mine.acquire()
        try:
            self.demand_ended()  # somebody may have called since the session was chosen
            if self.stands and not self._is_whole():
                self.end()
            if not self.stands:
                self._stand()
            self._visit()
        except BaseException as error:
            self.__exit__(None, error, None)
            if self.is_alone and isinstance(error, LacksMemory):
                self._leave_room()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        try:
            self._leave(raised[1])
        finally:
            self._mine.release()

    def end(self) -> None:
        """Ends all its processes. Raises Stuck, ChildSurvived."""
        with self._mine:
            self.stands = False
            self._stack.close()

    def _make_room(self) -> None:
        """Calls `end` for another judging that needs the memory. Does nothing while it is entered."""
        if self._mine.acquire(blocking=False):
            try:
                self.end()
            except (SupervisorError, Fault) as error:
                self._survivor = error
            finally:
                self._mine.release()

    def _is_whole(self) -> bool:
        trusted = (self.crew.referee.exit_code(), *(actor.child.exit_code() for actor in self.crew.baselines))
        return all(code is None for code in trusted)

    def _stand(self) -> None:
        """Starts referee and eager, which load everything that does not depend on a submission."""
        self.is_alone = True
        self._stack.callback(self._place.give_back)
        if not self._place.take():
            raise NotStanding("this GPU cannot keep another session")
        self.crew = crew = Crew(self.setting.order())
        self._stack.callback(crew.kill)
        self._stack.callback(self._end_spares)
        self.visits, self._started = 0, len(crew.candidates)
        self._captured, self._canary, self._baseline_serves = Captured(), {}, False
        self._lacked_before = 0  # new baselines count anew
        crew.meet()
        self._referee = crew.referee
        self._casts = list(zip(crew.baselines, crew.candidates, strict=True))
        self._furnish(crew)
        self._open_referee(crew)
        self._open_baselines(crew)
        crew.end_warmer()
        with self._memory():
            self._shared = self._receive_memory()
            for launch, baseline in enumerate(crew.baselines):
                self._shared.hand(baseline, 2 * launch)
            for baseline in crew.baselines:
                self._await_baseline(baseline, "loaded")
        self.stands = True

    def _visit(self) -> None:
        """Makes the processes of the submission load it and record its calls."""
        crew, laps, number = self.crew, Laps(), 0
        self.is_alone = True
        if self.visits > 0:
            number = self._relieve()
            self._casts = list(zip(crew.baselines, crew.candidates, strict=True))
        self.visits += 1
        laps.end("awake")
        os.link(crew.log_of(number), self.setting.scratch / crew.log.name)
        self._clear_folders()
        self._furnish_submission(crew)
        self._fills.clear()
        self._referee.ask("forget", who="candidate0")
        laps.end("files")
        with self._memory():
            self._capture_baselines(laps)
        if self.replay is None:
            raise NotStanding(self.not_replayed)
        with self._memory():
            self.candidate.open(self._candidate_message(crew))
            self._shared.hand(self.candidate, 1)
            self._refill()
            self._let_load([self.candidate])
            laps.end("candidate_loaded")
            self._begin_replay(crew, self._shared)
            if self.replay is None:
                if self.setting.gpu.accelerator == "cuda":
                    self._demand_right()
                    raise NotStanding(self.not_replayed)
                self._serve_one()
        self.machine = {**self._referee.ask("describe"), "load_s": laps.seconds, "visit": self.visits}

    def _relieve(self) -> int:
        """Puts new processes in the place of the last submission's; their number. Raises NotStanding.

        They may have woken up while another judging held all memory. Those that did not are replaced once.
        """
        self._refill()
        try:
            self.crew.relieve(self._spares[0])
        except (NotAwake, Overloaded):
            self._spares.popleft().end()
            self._refill()
            self._relieve_at_last()
        return self._spares.popleft().number

    def _relieve_at_last(self) -> None:
        try:
            self.crew.relieve(self._spares[0])
        except (NotAwake, Overloaded) as error:
            self.stands = False  # leaving it ends it
            raise NotStanding(f"no process can be started beside a kept session: {error.reason}") from error

    def _make_room_for_baselines(self, lacks: int, *, works: bool) -> None:
        """What libraries have chosen stays as long as their process, so all of it ends. Raises NotStanding."""
        self._leave_room()

    def _leave_room(self) -> NoReturn:
        self.stands, self._lacked_room_s = False, time.monotonic()
        raise NotStanding("there was too little GPU memory for the baselines of a session that is kept")

    def excuse_lack(self) -> None:
        """Leaves it to a judging without a session that is kept, so this one ends. Raises NotStanding."""
        if self.is_alone:
            self._leave_room()
        self.stands = False  # leaving it ends it
        raise NotStanding("a kept session left too little GPU memory")

    def _serve_one(self) -> None:
        """Lets the candidate time its own calls, on a device that is only a stand-in for a GPU."""
        if not self._baseline_serves:
            self._baseline_serves = True
            self._serve(self.crew, self.crew.candidates)
            return
        self._serve_candidate(self.candidate)

    def _demand_right(self) -> None:
        """Raises Fault if a call fails or is wrong that the candidate makes itself on a configuration that is shown.

        Most calls that cannot be replayed are simply wrong, and a judging of their own would take several times as long
        as a look.
        """
        self._serve_candidate(self.candidate)
        for number in (number for number, config in enumerate(self.setting.configs) if not config.hidden):
            choice = self.fill(number)
            fault = call_fault(self.call_candidate(number, choice), quoted=not self.has_met_hidden)
            if fault is not None:
                raise fault
            comparison = self.compare("candidate", number, choice)
            if not comparison.ok:
                raise Fault(Verdict.INCORRECT_VALUE, comparison.reason)

    def _clear_folders(self) -> None:
        """Deletes the files of the submission before. The folders stay, because the waiting processes see them."""
        for name in _PER_SUBMISSION:
            for item in (self.crew.folder / name).iterdir():
                discard(item)

    def _refill(self) -> None:
        while len(self._spares) < SPARES:
            self._spares.append(self.crew.spare(self._started))
            self._started += 1

    def _end_spares(self) -> None:
        with ExitStack() as each:
            while self._spares:
                each.callback(self._spares.popleft().end)

    def _leave(self, error: object) -> None:
        """Ends the submission's processes, and all others unless `error` is known to leave them intact."""
        broken = error is not None and not (self.stands and _is_harmless(error))
        try:
            if self.stands and not broken:
                self.crew.dismiss()
        except (SupervisorError, Fault):
            broken = True
            raise
        finally:
            if broken or self.visits >= VISITS_MAX:
                self.end()
        if self.stands and self._spares:
            self._spares[0].wake()  # this takes a context on the GPU; nothing is timed now


def _is_harmless(error: object) -> bool:
    if isinstance(error, Stuck):
        return False
    if isinstance(error, Fault):
        return not error.lacks_gpu_memory and error.verdict not in (Verdict.TAMPERING, Verdict.OUT_OF_MEMORY)
    return isinstance(error, Cancelled | NotStanding)


class GpuSessionKeeper:
    """Keeps one standing session for judgings of one task under the same rules. Call it from one thread only."""

    def __init__(self) -> None:
        self._kept: StandingGpuSession | None = None

    def session(self, setting: GpuSetting) -> StandingGpuSession:
        """The session for the submission of `setting`; the caller enters it. Raises NotStanding, ChildSurvived."""
        stands = self._kept is not None and self._kept.stands
        if self._kept is not None:
            self._kept.demand_ended()  # after that look, so that nothing is lost if another one takes its place
        if setting.binary.suffix in PYTHON_SUFFIXES:
            raise NotStanding("the kernels of the submission are compiled in a separate process")
        if is_crowded(mark_of_task(setting.task)) or (self._kept is not None and self._kept.has_lately_lacked_room):
            raise NotStanding("the task needs the GPU memory that kept sessions would hold")
        if self._kept is None or not stands:
            self._kept = StandingGpuSession(setting)
        if self._kept.takes_bytes > _MEMORY_SHARE * setting.gpu.memory_bytes:
            raise NotStanding("the task needs too much of the GPU's memory to keep a session")
        return self._kept.expect(setting)

    def close(self) -> None:
        """Ends the session that is kept, if there is one. Raises Stuck, ChildSurvived."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.end()
            kept.demand_ended()
