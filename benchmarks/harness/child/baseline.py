"""The trusted process that runs a task as torch eager and as torch.compile, through the candidate's shell.

Also measures what this machine can do at most (`peaks.py`) for the roofline, and compiles the baselines ahead of a
judging. What torch.compile builds lies in a cache that no submission can write.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

import torch

from ..protocol import Link
from .check import load_reference
from .peaks import measure_peaks
from .shell import Call, Function, connect, open_calls, serve, set_threads, tried


def main(arguments: Sequence[str]) -> None:
    link = connect(arguments)
    link.send(started=True)
    message = link.receive()
    set_threads(message["threads"])
    calls = open_calls(message)
    if message["prepare"] or any(message["compile"]):
        without_precompiled_headers()
    if message["prepare"] and message["instead"]:  # it counts for every task: no reference is loaded beside it
        if message["instead"] == "peaks":
            os.sched_setaffinity(0, message["cores"])
            link.send(peaks=measure_peaks(message["threads"]))
        else:
            link.send(probes=compiled_probes())
        return
    eager: Function = getattr(load_reference(Path(message["task"])), message["direction"])
    if message["prepare"]:
        _prepare(message, eager, calls, link)
        return
    compiled = [
        _warm(compiled_copy(eager), call) if wanted else None
        for call, wanted in zip(calls, message["compile"], strict=True)
    ]
    link.send(loaded=True)
    serve(message, [[eager] * len(calls), compiled, [_nothing(call) for call in calls]], calls, link)


def without_precompiled_headers() -> None:
    """torch keeps them outside its cache folder and would build them anew in every judging."""
    import torch._inductor.config as inductor

    inductor.cpp_cache_precompile_headers = False


def compiled_probes() -> list[str]:
    """The instruction sets that torch.compile may use here; it compiles and loads a program for each to find out."""
    from torch._inductor.cpu_vec_isa import valid_vec_isa_list

    return [str(item) for item in valid_vec_isa_list()] or ["none"]


def compiled_copy(function: Function) -> Function:
    """`torch.compile` of a copy with a code object of its own.

    Compiled versions and their guards belong to the code object: with one per configuration a call checks the guards
    of one version, as it would in a program that has one shape.
    """
    assert isinstance(function, FunctionType)  # noqa: S101 - a reference is a plain function
    copy = FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    compiled: Function = torch.compile(copy, dynamic=False)
    return compiled


def _warm(function: Function, call: Call) -> Function:
    for arguments in call.sets[:2]:
        function(*arguments)
    return function


def _nothing(call: Call) -> Function:
    """A function that computes nothing: what a call costs beside the kernel."""
    results = tuple(torch.zeros_like(output) for output in call.outputs)
    return lambda *_: results


def _prepare(message: dict[str, Any], eager: Function, calls: Sequence[Call], link: Link) -> None:
    """Compiles one configuration after the other and says how each went; the supervisor watches the time."""
    for number in message["wanted"]:
        link.send(compiling=number)
        started_s = time.monotonic()
        failed = tried(lambda call: _warm(compiled_copy(eager), call), calls[number])
        problem = f"{type(failed).__name__}: {failed}"[:500] if isinstance(failed, Exception) else None
        link.send(compiled=number, problem=problem, seconds=time.monotonic() - started_s)
    link.send(prepared=True)
