"""Whether Python can parse a text, found out in a process of limited memory and time.

The parser keeps each prefix of `import a.a.a`, and brings names with many marks into one form in a time that grows with
the square: a text of the largest size took 19 GB or minutes, and no thread of the process ran meanwhile. It also counts
the frames of its caller against the nesting of a text, so it is asked below as many frames each time. Whoever parses a
stranger's text does it here (`tests/test_parsed_texts.py`). Not covered: what the text means.
"""

import ast
import inspect
import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ..errors import SupervisorError

_WAIT_S = 120.0  # on a machine that has no time
# How the process ends by itself where a text is too much: no time left, no stack, or a parser that has no memory to
# raise an error. All else is the machine, or somebody who stops the worker.
_TOO_MUCH = (-signal.SIGPROF, -signal.SIGSEGV, -signal.SIGABRT)
_SAID_BYTES = 2000
_NO_MEMORY = b"MemoryError"  # the last line of a traceback; warnings about a text come before it


@dataclass(frozen=True)
class _Limits:
    memory_bytes: int
    processor_s: float
    frames: int  # of Python's stack, against which it counts the nesting


# Four times what plain statements of the largest allowed text take (0.7 s, 244 MiB): a machine that is slower or shared
# must come to the same end, since one outcome counts for all. Only texts made for it lie between machines.
_OF_A_BUILD = _Limits(1 << 30, 3.0, 1000)
# What is parsed in this process too takes as much of it as of the other one, and meanwhile no other thread runs. Its
# stack may be a little deeper.
_TO_BE_READ = _Limits(256 << 20, 0.5, 900)


def _asked(text):  # type: ignore[no-untyped-def]  # runs in the process with limits, which imports little
    """Line, column and message of what is wrong, and whether that is only too much for the parser."""
    try:
        compile(text, "<unknown>", "exec", 0x400)  # ast.PyCF_ONLY_AST
    except SyntaxError as error:
        return [error.lineno or 1, error.offset or 1, error.msg, False]
    except RecursionError as error:
        return [1, 1, f"Python cannot parse this: {error}", True]
    except ValueError as error:
        return [1, 1, f"Python cannot parse this: {error}", False]
    except (MemoryError, SystemError, OverflowError):  # the parser does not always notice that it has no memory
        return [1, 1, "", True]
    return None


_LIMITED = f"""
import json, resource, signal, sys
{inspect.getsource(_asked)}
text = sys.stdin.buffer.read().decode("utf-8", "surrogatepass")
memory_bytes, processor_s, frames = json.loads(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
signal.setitimer(signal.ITIMER_PROF, processor_s)
sys.setrecursionlimit(frames)
print(json.dumps(_asked(text)))
"""


@dataclass(frozen=True)
class SyntaxProblem:
    """Why Python cannot parse a text, and where; lines and columns count from one."""

    line: int
    column: int
    message: str
    is_too_much: bool = False  # for the parser, as it is limited here: it may be Python


def limits_of_a_build() -> str:
    """A build depends on them as it does on Python's version."""
    return str(_OF_A_BUILD)


def syntax_problem(text: str) -> SyntaxProblem | None:
    """None if Python parses it, with little memory and in a short time. Raises SupervisorError if the machine fails."""
    return _problem(text, _OF_A_BUILD)


def python_tree(text: str) -> ast.Module | SyntaxProblem:
    """The text as a tree, for reading in this process. Its limits are lower than those of a build."""
    problem = _problem(text, _TO_BE_READ)
    if problem is not None:
        return problem
    with ThreadPoolExecutor(1) as beside:  # where no frames of the caller count
        return beside.submit(ast.parse, text).result()


def _problem(text: str, limits: _Limits) -> SyntaxProblem | None:
    told = json.dumps([limits.memory_bytes, limits.processor_s, limits.frames])
    command, data = [sys.executable, "-I", "-S", "-c", _LIMITED, told], text.encode("utf-8", "surrogatepass")
    try:  # in a session of its own: a signal to all processes of the worker says nothing about the text
        done = subprocess.run(
            command, input=data, capture_output=True, timeout=_WAIT_S, check=False, start_new_session=True
        )
    except subprocess.TimeoutExpired as error:
        raise SupervisorError(f"parsing a text took longer than {_WAIT_S:.0f} s") from error
    too_much = f"parsing this takes more than {limits.processor_s:g} s or {limits.memory_bytes >> 20} MiB"
    if done.returncode in _TOO_MUCH or (done.returncode == 1 and done.stderr.rstrip().endswith(_NO_MEMORY)):
        return SyntaxProblem(1, 1, too_much, is_too_much=True)
    if done.returncode != 0 or not done.stdout:
        said = done.stderr[-_SAID_BYTES:].decode(errors="replace")
        raise SupervisorError(f"the process that parses a text ended with {done.returncode} and no answer", log=said)
    found = json.loads(done.stdout)
    if found is None:
        return None
    line, column, message, is_too_much = found
    return SyntaxProblem(line, column, message or f"{too_much}, or it is nested too deeply", is_too_much)
