"""Whether Python can parse a text, found out in a process of limited memory and time where the text is long.

The parser keeps each prefix of `import a.a.a`, and brings names with many marks into one form in a time that grows with
the square: a text of the largest size took 19 GB or minutes, and no thread of the process ran meanwhile. Whoever parses
a stranger's text asks here first. Not covered: what the text means.
"""

import ast
import inspect
import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from ..errors import SupervisorError

_SHORT_BYTES = 8 << 10  # a text of this size takes 20 MB and a few milliseconds at worst
_SECONDS, _MEMORY_BYTES = 1, 512 << 20
_WAIT_S = 120.0  # on a machine that has no time


def _asked(text: str) -> list[Any] | None:
    """Line, column and message of what is wrong. Its source also runs in the process with limits."""
    try:
        ast.parse(text)
    except SyntaxError as error:
        return [error.lineno or 1, error.offset or 1, error.msg]
    except (ValueError, RecursionError, MemoryError) as error:
        return [1, 1, f"Python cannot parse this: {error}"]
    return None


_LIMITED = f"""
import ast, json, resource, sys
from typing import Any
{inspect.getsource(_asked)}
resource.setrlimit(resource.RLIMIT_AS, ({_MEMORY_BYTES}, {_MEMORY_BYTES}))
resource.setrlimit(resource.RLIMIT_CPU, ({_SECONDS}, {_SECONDS} + 1))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
print(json.dumps(_asked(sys.stdin.buffer.read().decode("utf-8", "surrogatepass"))))
"""


@dataclass(frozen=True)
class SyntaxProblem:
    """Why Python cannot parse a text, and where; lines and columns count from one."""

    line: int
    column: int
    message: str


def syntax_problem(text: str) -> SyntaxProblem | None:
    """None if Python parses it, with little memory and in a short time. Raises SupervisorError if the machine fails."""
    data = text.encode("utf-8", "surrogatepass")
    found = _asked(text) if len(data) <= _SHORT_BYTES else _asked_with_limits(data)
    return None if found is None else SyntaxProblem(*found)


def _asked_with_limits(data: bytes) -> list[Any] | None:
    command = [sys.executable, "-I", "-S", "-c", _LIMITED]
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=_WAIT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise SupervisorError(f"parsing a text took longer than {_WAIT_S:.0f} s") from error
    if done.returncode == -signal.SIGKILL:
        raise SupervisorError("the process that parses a text was killed")
    try:
        found: list[Any] | None = json.loads(done.stdout)
    except ValueError:
        return [1, 1, f"parsing this takes more than {_SECONDS} s or {_MEMORY_BYTES >> 20} MiB"]
    return found
