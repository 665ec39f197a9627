"""Turns the answer or the end of a submission's process into a verdict and a reason.

A dead candidate is the submission's fault, a dead referee is ours (`RefereeError`); this module decides which.
"""

import re
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..errors import LacksMemory, ProcessLost, ProcessorsBusy, RefereeError
from ..protocol import Status
from ..report import Verdict
from ..sandbox.isolation import Child
from .contestants import CallResult, WholeLimit

_NO_MEMORY = re.compile(
    r"bad_alloc|not enough memory|can't allocate memory|MemoryError|out[ _]of[ _]memory|ALLOC(ATION)?_FAILED",
    re.IGNORECASE,
)
# what CUDA and its libraries say; cuBLAS and cuDNN are not initialised if they find no memory for themselves
_NO_GPU_MEMORY = re.compile(
    r"out[ _]of[ _]memory|ALLOC(ATION)?_FAILED|cudaErrorMemoryAllocation|CU(BLAS|DNN)_STATUS_NOT_INITIALIZED",
    re.IGNORECASE,
)
_NEW_KERNEL = re.compile(r"Read-only file system: '/tmp/kernels/")
# On its way to sleep a thread uses some microseconds, and tens of milliseconds if the host of a virtual machine takes
# the processor away just then. All of it is added to the time of the call, so nobody gains by it, and up to here nobody
# is accused.
_WOKEN_US = 50_000.0
_SIGNAL_WORDS = {
    signal.SIGSEGV: "it read or wrote memory that is not its own (writing into an input counts)",
    signal.SIGABRT: "it called abort, or an exception left a function that must not throw",
    signal.SIGBUS: "it touched memory that does not exist",
    signal.SIGFPE: "it divided an integer by zero",
    signal.SIGILL: "it ran an instruction that this processor does not have",
    signal.SIGXCPU: "it used more processor time than the rules allow",
    signal.SIGXFSZ: "it wrote more output than the rules allow",
}
_VERDICTS_OF_STATUS = {
    Status.WRONG_COUNT: Verdict.INCORRECT_SHAPE,
    Status.WRONG_SHAPE: Verdict.INCORRECT_SHAPE,
    Status.WRONG_TYPE: Verdict.INCORRECT_DTYPE,
    Status.WRONG_DTYPE: Verdict.INCORRECT_DTYPE,
}


class Fault(Exception):
    """Ends a judging with a verdict against the submission. Never leaves the harness.

    With `lacks_gpu_memory` the GPU may have had too little memory, and others may have held it.
    """

    def __init__(self, verdict: Verdict, reason: str, *, lacks_gpu_memory: bool = False) -> None:
        super().__init__(reason)
        self.verdict = verdict
        self.reason = reason
        self.lacks_gpu_memory = lacks_gpu_memory

    def told_as(self, reason: str) -> "Fault":
        """The same fault with another reason."""
        return Fault(self.verdict, reason, lacks_gpu_memory=self.lacks_gpu_memory)


DEVICE_STUCK = "device-stuck"  # the flag of such a report


class Stuck(Fault):
    """The submission's processes do not end: what it started on the device goes on, and the device is in doubt."""

    def __init__(self) -> None:
        reason = (
            "a process of the submission could not be ended after its calls, as happens when a kernel runs forever; "
            "the device judges again when it has passed its self-test"
        )
        super().__init__(Verdict.TIMEOUT, reason)


_UNQUOTED = "the kernel failed in a call; it has met hidden configurations before, so its message is not shown"


def may_lack_gpu_memory(text: str) -> bool:
    """Whether the text of an error may be due to too little memory on the GPU."""
    return _NO_GPU_MEMORY.search(text) is not None


@contextmanager
def lack_in_preparing() -> Iterator[None]:
    """Raises Fault, INTERNAL_ERROR, where a trusted process lacks memory: the worker is sound, other tasks may fit."""
    try:
        yield
    except RefereeError as error:
        if isinstance(error, LacksMemory) or may_lack_gpu_memory(error.reason):
            raise Fault(Verdict.INTERNAL_ERROR, first_line(error.reason), lacks_gpu_memory=True) from error
        raise


def failure(text: str, reason: str, otherwise: Verdict = Verdict.RUNTIME_ERROR) -> Fault:
    """OUT_OF_MEMORY if `text`, an error of the submission's process, tells of it; else the verdict `otherwise`."""
    verdict = Verdict.OUT_OF_MEMORY if _NO_MEMORY.search(text) else otherwise
    return Fault(verdict, reason, lacks_gpu_memory=may_lack_gpu_memory(text))


def slow_load(limit: WholeLimit) -> Fault:
    return too_slow(limit, f"loading the module took more than {limit.limit_s:g} s")


def too_slow(limit: WholeLimit, reason: str) -> Fault:
    """TIMEOUT, which is final; NOISY if others had the processors for so long that the limit says nothing of it."""
    if limit.is_starved:
        return Fault(Verdict.NOISY, ProcessorsBusy(reason).reason)
    return Fault(Verdict.TIMEOUT, reason)


def lost_to_the_machine(what: str) -> Fault:
    return Fault(Verdict.NOISY, ProcessLost(what).reason)


def load_fault(message: Mapping[str, Any]) -> Fault:
    """The reason why a submission could not be loaded, from its process's message, all of which is hostile."""
    if "missing" in message:
        exported = message.get("exported")
        names = ", ".join(str(name) for name in exported[:20]) if isinstance(exported, list) else ""
        wanted = str(message["missing"])[:100]
        return Fault(Verdict.REJECTED, f"the module does not export {wanted!r}; it exports {names[:1000] or 'nothing'}")
    text = str(message.get("load_error"))
    reason = f"the module cannot be loaded: {first_line(text)}"
    return Fault(Verdict.COMPILE_ERROR, reason) if "undefined symbol" in text else failure(text, reason)


def call_fault(result: CallResult, *, quoted: bool = True) -> Fault | None:
    """The fault of a call that shows before its values are compared; None if there is none.

    What the process says of it, with its exit code too, is `quoted` unless it could be about hidden configurations.
    """
    if result.timed_out:
        return Fault(Verdict.TIMEOUT, f"a call gave {result.text}")
    if result.status is None:
        fault = death("in the middle of a call", result.exit_code, lost=result.lost)
        return fault if quoted else fault.told_as(_UNQUOTED)
    if result.early:
        return Fault(Verdict.TAMPERING, "the process reported results before the call had begun")
    if result.status is not Status.OK:
        fault = _refused(result.status, result)
        return fault if quoted else fault.told_as(_UNQUOTED)
    return _suspicious(result)


def _suspicious(result: CallResult) -> Fault | None:
    if result.event_us is not None and result.event_us <= 0:
        return Fault(Verdict.TAMPERING, "the process reported that a call took no time")
    if result.foreign:
        return Fault(Verdict.TAMPERING, "the process named memory for its results that it does not own")
    if result.woke_us > _WOKEN_US:
        reason = f"the process worked for {result.woke_us:.0f} µs while it was stopped between the calls"
        return Fault(Verdict.TAMPERING, reason)
    if result.late:
        return Fault(Verdict.TAMPERING, "results were still being written after the call had been reported as done")
    return None


def _refused(status: Status, result: CallResult) -> Fault:
    if status is Status.RAISED:
        return _raised(result)
    return Fault(_VERDICTS_OF_STATUS[status], result.text or "the results do not fit the task")


def end_of(child: Child, when: str = "while the module was loaded") -> Fault:
    """The fault of a process that has gone away, or is about to."""
    code = child.wait(1.0)
    return death(when, code, lost=child.is_lost())


def death(when: str, exit_code: int | None, *, lost: bool = False) -> Fault:
    """With `lost` the machine has ended the process, which is nobody's fault."""
    if lost:
        return lost_to_the_machine(f"a process of the submission {when}")
    if exit_code is None or exit_code >= 0:
        ended = "stopped answering" if exit_code is None else f"ended with exit code {exit_code}"
        return Fault(Verdict.RUNTIME_ERROR, f"the process {ended} {when}")
    number = -exit_code
    if number == signal.SIGSYS:
        return Fault(
            Verdict.REJECTED,
            f"{when} the submission made a forbidden system call: it may not start processes, open sockets or trace",
        )
    if number == signal.SIGKILL:
        return Fault(Verdict.OUT_OF_MEMORY, f"the process was killed by the system {when}, most likely for its memory")
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    words = _SIGNAL_WORDS.get(signal.Signals(number)) if number in set(signal.Signals) else None
    return Fault(Verdict.RUNTIME_ERROR, f"the process died of {name} {when}" + (f": {words}" if words else ""))


def first_line(text: str, limit: int = 300) -> str:
    line = next((part.strip() for part in text.splitlines() if part.strip()), "")
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _raised(result: CallResult) -> Fault:
    text = result.text
    if _NEW_KERNEL.search(text):
        reason = (
            "a kernel had to be compiled in a later call; "
            "the first call of a configuration must already launch every kernel"
        )
        return Fault(Verdict.RUNTIME_ERROR, reason)
    if result.error == "MemoryError" or _NO_MEMORY.search(text):
        return failure(
            text, f"the kernel asked for more memory than it may have: {first_line(text)}", Verdict.OUT_OF_MEMORY
        )
    if result.error == "TypeError" and "incompatible function arguments" in text:
        return Fault(Verdict.REJECTED, f"the function does not take the arguments of the task: {_signature(text)}")
    return failure(text, f"the kernel raised {first_line(result.error, 100) or 'an error'}: {first_line(text)}")


def _signature(text: str) -> str:
    """pybind11 lists the supported signatures, one per numbered line."""
    found = re.search(r"1\.\s*(.+)", text)
    return f"it is {first_line(found.group(1))}" if found else first_line(text)
