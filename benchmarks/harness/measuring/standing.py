"""A CPU session that outlives its submission: referee, eager and inputs stay, each submission gets a new process.

Starting a referee and a baseline takes most of a quick judging, so whoever looks at many submissions of one task keeps
them. Between two submissions every process that stays is frozen or waits. What a submission has shared, its control
page and its description of the inputs, ends with it; the referee forgets what it has drawn and compared. Not covered:
torch.compile and more than one launch.
"""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Self

from ..errors import Cancelled, SupervisorError
from ..sandbox.outbox import scratch_folder
from .faults import Fault
from .session import CpuSession, CpuSetting

_VISITS_MAX = 100  # then referee and baseline are started anew: their processor time is limited


class StandingSession(CpuSession):
    """Enter it once per submission, after `expect`; `end` ends what stays."""

    def __init__(self, setting: CpuSetting) -> None:
        super().__init__(replace(setting, control=True))
        self._log = Path()
        self.visits = 0
        self.stands = False

    def expect(self, binary: Path, log: Path) -> Self:
        self.setting = replace(self.setting, binary=binary)
        self._log = log
        return self

    def __enter__(self) -> Self:
        if not self.stands:
            super().__enter__()
            self.stands = True
        self.visits, self.is_alone = self.visits + 1, True
        try:
            self._fills.clear()
            self._referee.ask("forget")
            self.candidate.start(self._candidate_room(), self._log)
            self._open_candidate(self.candidate, self._common())
            self._let_load([self.candidate])
        except BaseException as error:
            self._leave(error)
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self._leave(raised[1])

    def _leave(self, error: object) -> None:
        """Ends the submission's process, and all others unless it is known that what happened left them whole."""
        broken = error is not None and not isinstance(error, Fault | Cancelled)
        try:
            self.candidate.renew()
        except SupervisorError:
            broken = True
            raise
        finally:
            if broken or self.visits >= _VISITS_MAX:
                self.end()

    def end(self) -> None:
        self.stands = False
        self._stack.close()


class SessionKeeper:
    """Keeps one standing session, for judgings of one task under the same rules, always called by the same thread.

    Linux ends a child with the thread that started it.
    """

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._kept: StandingSession | None = None
        self._stack = ExitStack()

    def session(self, setting: CpuSetting) -> StandingSession:
        """The session for the submission of `setting`, opened by entering it."""
        if self._kept is None or not self._kept.stands:
            self.close()
            own = self._stack.enter_context(scratch_folder("standing-", self._scratch))
            self._kept = StandingSession(replace(setting, scratch=own))
        return self._kept.expect(setting.binary, setting.scratch / "candidate0.log")

    def close(self) -> None:
        """Ends what stays; does nothing the second time."""
        kept, self._kept = self._kept, None
        try:
            if kept is not None:
                kept.end()
        finally:
            self._stack.close()
