"""Errors of the harness, grouped by what the caller should do.

    HarnessError
    ├── UsageError            the caller asked for something that does not exist; fix the call
    │   ├── TaskError         a task definition is missing or malformed
    │   └── RuleSetError      a rule set is missing or malformed
    ├── IsolationError        this machine cannot give the isolation that was demanded; refuse to judge
    ├── SupervisorError       our own machinery failed; the evaluation ends as INTERNAL_ERROR and is retried
    │   ├── RefereeError      the trusted referee or baseline process died or answered nonsense
    │   │   └── LacksMemory   there was too little memory on the GPU for it
    │   ├── Overloaded        the machine had too little for all that ran on it: the verdict is NOISY
    │   │   ├── ProcessorsBusy    others kept a process of ours from the processors
    │   │   └── ProcessLost       the machine, out of memory, ended a process of ours
    │   ├── NotAwake          a process that knows no submission yet did not start or has no context on the GPU
    │   ├── NotStanding       a session that stays cannot serve this submission; one of its own can
    │   ├── NotStopped        a process does not stop though it was told to; a submission's is its own fault
    │   └── ChildSurvived     a process does not end though it was killed: the driver or the kernel holds it
    ├── AuditBroken           the submission's process ended before the audit had seen it; its entry waits for a person
    ├── NotProfiled           nothing can be said of the submission's kernels: it failed, or its profiler did
    └── Cancelled             the caller's `cancelled()` said yes; nothing is reported

What a submission does wrong is never an exception here: it is a `Verdict` in a `Report`.
"""


class HarnessError(Exception):
    """Base of everything the harness raises on purpose."""


class UsageError(HarnessError):
    """The caller asked for something that does not exist."""


class TaskError(UsageError):
    """A task definition is missing or malformed."""


class RuleSetError(UsageError):
    """A rule set is missing or malformed."""


class IsolationError(HarnessError):
    """This machine cannot give the isolation that was demanded."""


class SupervisorError(HarnessError):
    """Our own machinery failed; never the submission's fault.

    `reason` says what failed. `log`, the end of what a process printed, is for people: nothing is decided by it.
    """

    def __init__(self, reason: str = "", *, log: str = "") -> None:
        super().__init__(f"{reason}\n{log}" if log else reason)
        self.reason = reason


class RefereeError(SupervisorError):
    """The trusted referee or baseline process died or answered nonsense."""


class LacksMemory(RefereeError):
    """There was too little memory on the GPU for a trusted process."""


class Overloaded(SupervisorError):
    """The machine had too little for all that ran on it, which is nobody's fault and says nothing of the device."""


class ProcessLost(Overloaded):
    """The machine ended a process for want of memory."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the machine had too little memory for all that ran on it, and ended {what}")


class ProcessorsBusy(Overloaded):
    """Others kept a process of ours from the processors for so long that its limit says nothing of it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the processors of the machine are too busy: {what}")


class NotAwake(SupervisorError):
    """A process that knew no submission yet did not start."""


class NotStanding(SupervisorError):
    """A session that stays cannot serve this submission; one of its own can."""


class NotStopped(SupervisorError):
    """A process did not stop when told to."""


class ChildSurvived(SupervisorError):
    """A process survived SIGKILL."""


class AuditBroken(HarnessError):
    """The submission's process ended before the audit had seen it."""


class NotProfiled(HarnessError):
    """Nothing can be said of the kernels of a submission."""


class Cancelled(HarnessError):
    """The caller withdrew the evaluation while it ran."""
