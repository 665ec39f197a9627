"""Runs the top level of a Python submission in the compile stage and notes the extensions that it asks for.

`python -m ... record_inline MODULE ANSWER` writes a list of requests as JSON to the descriptor ANSWER, all that leaves
the sandbox. It is data of a stranger; the compilers that build it run in sandboxes of their own. Not covered:
extensions that are asked for later.
"""

import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from ..cases import stand_in_modules
from ..check import load_module
from .inline import Request, recording, stand_in


def main(arguments: Sequence[str]) -> None:
    module, answer = Path(arguments[0]), int(arguments[1])
    requests: list[Request] = []
    stand_in(recording(requests))
    stand_in_modules()
    try:
        load_module(module, "kbench_submission")
    except Exception as error:
        sys.stderr.write(f"{_place(error, module.name)}: error: {type(error).__name__}: {error}\n")
        raise SystemExit(1) from error
    os.ftruncate(answer, 0)
    os.pwrite(answer, json.dumps(requests).encode(), 0)


def _place(error: Exception, name: str) -> str:
    lines = [item.lineno for item in traceback.extract_tb(error.__traceback__) if item.filename.endswith(name)]
    return f"{name}:{lines[-1] if lines else 1}:1"
