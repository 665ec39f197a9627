"""Compiles the kernels of a Python submission before a session, in a process that may start programs.

Everything that this process says or leaves is hostile once it has loaded the submission. Not covered: the cache's
folders, and what is taken from them (`crew.py`).
"""

import base64
from collections.abc import Callable, Iterator
from typing import Any

from ..measuring.contestants import Actor, WholeLimit
from ..measuring.faults import Fault, end_of, failure, first_line, load_fault, may_lack_gpu_memory, slow_load
from ..measuring.last_words import with_cause
from ..protocol import ProtocolError
from ..report import Verdict
from ..sandbox.outbox import NotTaken, TooMuch
from ..sandbox.seccomp import builder_program, supported
from .crew import Crew

_LOG_BYTES = 4000


def warm(crew: Crew, message: dict[str, Any], timeout_s: float, meet: Callable[[], None]) -> None:
    """Fills the crew's cache with the kernels of the submission that `message` names. Raises Fault, NotAwake.

    `meet` is called right before its process is told of the submission: what fails until then is not its fault.
    """
    warmer, answer_fd = crew.warmer()
    meet()
    program = builder_program(gpu=True) if supported() else b""
    try:
        warmer.open({**message, "answer": answer_fd, "filter": base64.b64encode(program).decode()})
        ours = await_warm(warmer, timeout_s)
    except Fault as fault:
        raise fault.told_as(f"{fault.reason}{_last_words(warmer)}") from fault
    finally:
        crew.end_warmer()
    try:
        crew.keep_kernels(ours)
    except TooMuch:
        raise Fault(Verdict.REJECTED, "the compiled kernels are larger than the rules allow") from None
    except NotTaken as error:
        raise Fault(Verdict.TAMPERING, f"it left something other than compiled kernels: {error}") from None


def await_warm(warmer: Actor, timeout_s: float) -> dict[str, str]:
    """The digests of the files that packages had compiled before the submission was loaded. Raises Fault."""
    limit = WholeLimit(warmer.child.work, timeout_s)
    messages = warmer.messages_within(limit)
    ours = _await_woken(warmer, messages, timeout_s)
    try:
        for message in messages:
            if message.get("warmed"):
                return ours
            if "call_error" in message:
                raise call_failed(str(message["call_error"]))
            if "load_error" in message or "missing" in message:
                raise load_fault(message)
        raise TimeoutError  # as the messages do by themselves
    except TimeoutError:
        raise slow_load(limit) from None
    except ProtocolError:
        raise end_of(warmer.child) from None


def _await_woken(warmer: Actor, messages: Iterator[dict[str, Any]], timeout_s: float) -> dict[str, str]:
    """Nothing of the submission is loaded before this, and only our code can have sent it."""
    try:
        message = next(messages)
    except TimeoutError:
        raise package_failed(f"it was not imported within {timeout_s:g} s") from None
    except ProtocolError:
        told = with_cause("its process ended while it was imported", warmer.child.log_tail(_LOG_BYTES))
        raise package_failed(told) from None
    if "woken" not in message:
        raise package_failed(str(message.get("unusable")))
    return dict(message["woken"])


def _last_words(actor: Actor) -> str:
    """The last line that a process printed, added to a reason that only says that it ended."""
    lines = actor.child.log_tail(_LOG_BYTES).strip().splitlines()
    return f"; it printed: {lines[-1][:300]}" if lines else ""


def package_failed(why: str) -> Fault:
    """INTERNAL_ERROR: nothing of the submission is loaded. Its first line is shown; all of it may tell of memory."""
    reason = f"a package that it uses fails on this worker: {first_line(why)}"
    return Fault(Verdict.INTERNAL_ERROR, reason, lacks_gpu_memory=may_lack_gpu_memory(why))


def call_failed(text: str) -> Fault:
    """A first call, made to compile, that raised."""
    compiling = any(word in text for word in ("CompilationError", "CompileTimeAssertionFailure", "PTXASError"))
    verdict = Verdict.COMPILE_ERROR if compiling else Verdict.RUNTIME_ERROR
    return failure(text, f"the first call failed: {text[:600]}", verdict)
