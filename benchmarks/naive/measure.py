"""Runs the script in a sandbox and reads the line that it prints, which the submission may have printed as well.

Not covered: whether the line is true. A script that shares its process with the submission cannot find out; this
package demonstrates that.
"""

import base64
import json
import math
import os
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..harness import (
    Config,
    Paths,
    Room,
    Rules,
    TaskSpec,
    TensorArgument,
    candidate_program,
    child_code,
    demand_isolation,
    inside,
    spawn,
)

_SCRIPT = Path(__file__).with_name("script.py")
_TIMEOUT_S = 40.0
_LOG_BYTES = 64 * 1024
MARK = "kbench-naive "
VARIANT = "variant"  # of the values of an imported task's configuration


@dataclass(frozen=True)
class NaiveResult:
    """What the script says. `speedup` is None unless it says that the results agree."""

    said: str  # agrees, differs, failed, no answer, nonsense
    speedup: float | None = None


def opinion(task: TaskSpec, binary: Path, rules: Rules, paths: Paths) -> NaiveResult:
    """What the usual script says of `binary`, a build for the CPU, on the configurations of `task` that it would try.

    Raises IsolationError without a strong sandbox: the code is hostile.
    """
    demand_isolation(public=True)
    configs = [_described(config) for config in task.configs_for("cpu") if is_usual(config)]
    reference = task.folder / "reference.py"
    room = Room(
        read_only={
            **child_code(),
            _SCRIPT: "/kbench/naive/script.py",
            reference: "/kbench/naive/reference.py",
            binary: f"/kbench/job/{binary.name}",
        },
        memory_bytes=rules.limits.memory_bytes,
        file_bytes=rules.limits.file_bytes,
        scratch_bytes=rules.limits.scratch_bytes,
        cpu_s=int(2 * _TIMEOUT_S),
    )
    plan = {
        "binary": inside(binary, f"job/{binary.name}"),
        "reference": inside(reference, "naive/reference.py"),
        "function": task.direction,
        "is_module": binary.is_dir() and task.is_module,
        "entry": (task.entry if binary.is_dir() else None) or task.direction,
        "is_imported": any(VARIANT in config.values for config in task.configs_for("cpu")),
        "configs": configs,
        "threads": max(1, len(os.sched_getaffinity(0)) - 1),
        "filter": base64.b64encode(candidate_program()).decode(),
    }
    argv = [sys.executable, "-I", "-B", inside(_SCRIPT, "naive/script.py"), json.dumps(plan)]
    with tempfile.TemporaryDirectory(prefix="naive-", dir=paths.scratch) as folder:
        child = spawn(argv, room, Path(folder) / "log")
        try:
            code = child.wait(_TIMEOUT_S)
        finally:
            child.kill()
        return read_opinion(child.log_tail(_LOG_BYTES), code)


def is_usual(config: Config) -> bool:
    """Whether the usual script tries this configuration: it is shown, with values as its author draws them."""
    return not config.hidden and config.values.get(VARIANT, "published") == "published"


def read_opinion(log: str, exit_code: int | None) -> NaiveResult:
    """The last line with the mark decides, whoever printed it, as it would for whoever reads a terminal."""
    lines = [line.removeprefix(MARK) for line in log.splitlines() if line.startswith(MARK)]
    if not lines:
        return NaiveResult("no answer" if exit_code is None else "failed")
    try:
        said = json.loads(lines[-1])
        agrees, speedup = said["agrees"] is True, float(said["speedup"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return NaiveResult("nonsense")
    if not agrees:
        return NaiveResult("differs")
    return NaiveResult("agrees", speedup) if math.isfinite(speedup) and speedup > 0 else NaiveResult("nonsense")


def _described(config: Config) -> dict[str, Any]:
    """Its values, and the arguments as the script draws them: a shape and a dtype, or a value."""
    arguments = [
        {**asdict(item), "options": dict(item.options)} if isinstance(item, TensorArgument) else {"value": item.value}
        for item in config.arguments
    ]
    return {"values": dict(config.values), "arguments": arguments}
