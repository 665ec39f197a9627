"""What a process of ours died of, and what of its log decides nothing."""

from typing import Any

import pytest

from benchmarks.harness.errors import LacksMemory, NotAwake, RefereeError
from benchmarks.harness.gpu.lack import lack_is_told, lacked_memory
from benchmarks.harness.measuring.last_words import died_of, failed

WARNING = "[W1129 10:00:00 Conv_v8.cpp:512] Warning: Plan failed with an OutOfMemoryError: CUDA out of memory.\n"
HANDLED = """Traceback (most recent call last):
  File "/kbench/a.py", line 1, in try_plan
    raise torch.OutOfMemoryError
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
the next plan is tried
"""
VALUE = """Traceback (most recent call last):
  File "/kbench/child/gpu/referee.py", line 9, in main
    except torch.OutOfMemoryError:  # CUDA out of memory
ValueError: not a number
"""
MEMORY = """Traceback (most recent call last):
  File "/kbench/child/gpu/referee.py", line 9, in main
    values = torch.empty(size)
             ^^^^^^^^^^^^^^^^^
torch.AcceleratorError: CUDA error: out of memory
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.
"""
CAUSED = f"""{MEMORY}
The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/kbench/child/gpu/referee.py", line 12, in main
    raise RuntimeError("the values could not be drawn") from error
RuntimeError: the values could not be drawn
"""
ABORTED = "terminate called after throwing an instance of 'c10::OutOfMemoryError'\n  what():  CUDA out of memory.\n"


class Ended:
    """A process with a log; `code` is None while it runs."""

    def __init__(self, log: str, code: int | None = 1) -> None:
        self._log, self._code = log, code

    def log_tail(self, limit_bytes: int) -> str:
        return self._log[-limit_bytes:]

    def wait(self, _: float) -> int | None:
        return self._code

    def is_lost(self) -> bool:
        return False


def error_of(log: str, code: int | None = 1) -> RefereeError:
    child: Any = Ended(log, code)
    error = failed("the referee failed: the other side went away", child)
    assert isinstance(error, RefereeError)
    return error


@pytest.mark.parametrize(
    ("log", "code", "lacks"),
    [
        (WARNING, 1, False),
        (WARNING + VALUE, 1, False),
        (HANDLED + VALUE, 1, False),
        (VALUE + WARNING, 1, False),
        (HANDLED, None, False),
        ("", 1, False),
        (MEMORY, 1, True),
        (VALUE + MEMORY + WARNING, 1, True),
        (CAUSED, 1, True),
        (ABORTED, -6, True),
        (MEMORY.partition("last):\n")[2], 1, True),
    ],
    ids=[
        "only a warning",
        "a warning and another end",
        "a lack that was handled and another end",
        "a warning at the end",
        "it runs on",
        "it has printed nothing",
        "its end",
        "a warning after its end",
        "the cause of its end",
        "an end from C++",
        "cut before its frames",
    ],
)
def test_only_what_a_process_died_of_tells_of_a_lack_of_memory(log: str, code: int | None, *, lacks: bool) -> None:
    """Any other failure of ours would become a lack of memory by an old warning, and then the submission's fault."""
    error = error_of(log, code)
    assert lacked_memory(error) is lacks
    assert log in str(error), "people see all of it"
    with pytest.raises(RefereeError) as raised, lack_is_told():
        raise error
    assert isinstance(raised.value, LacksMemory) is lacks


def test_the_log_of_a_process_that_did_not_wake_up_decides_nothing() -> None:
    assert not lacked_memory(NotAwake("the process warm did not start: 120 s have passed", log=WARNING))
    assert lacked_memory(NotAwake("the process warm did not start: torch.OutOfMemoryError: CUDA out of memory"))


def test_the_causes_come_first() -> None:
    assert died_of(CAUSED) == (
        "torch.AcceleratorError: CUDA error: out of memory; RuntimeError: the values could not be drawn"
    )
    assert died_of(WARNING) == ""
