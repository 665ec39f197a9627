"""A process that answers JSON lines, for work on a GPU that a kernel may end.

Not covered: what is asked and answered.
"""

import json
import select
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


class ChildEndedError(Exception):
    """The process died or did not answer."""


class LineChild:
    """`python -m MODULE ARGUMENTS...`, which is ended when it does not answer in time.

    `ask` raises ChildEndedError where it dies or does not answer.
    """

    def __init__(self, module: str, *arguments: str) -> None:
        command = [sys.executable, "-m", module, *arguments]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, request: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        process = self._process
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - for mypy: both are pipes
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        except BrokenPipeError as error:
            raise ChildEndedError(f"exit code {process.wait()}") from error
        ready, _, _ = select.select([process.stdout], [], [], limit_s)
        if not ready:
            self.close()
            raise ChildEndedError(f"no answer within {limit_s:.0f} s")
        line = process.stdout.readline()
        if not line:
            raise ChildEndedError(f"exit code {process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
