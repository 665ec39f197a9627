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
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..harness import (
    CPU,
    Config,
    Device,
    Paths,
    Room,
    Rules,
    TaskSpec,
    TensorArgument,
    Watcher,
    candidate_program,
    child_code,
    demand_isolation,
    gpu_program,
    host_build_lock,
    inside,
    room_with_gpu,
    spawn,
)

_SCRIPT = Path(__file__).with_name("script.py")
_TIMEOUT_S = 40.0
_GPU_TIMEOUT_S = 120.0  # Triton compiles its kernels there
_TRITON_BYTES = 512 << 20  # of those
_LOG_BYTES = 64 * 1024
MARK = "kbench-naive "
VARIANT = "variant"  # of the values of an imported task's configuration


@dataclass(frozen=True)
class NaiveResult:
    """What the script says. `speedup` is None unless it says that the results agree."""

    said: str  # agrees, differs, failed, no answer, nonsense
    speedup: float | None = None


def opinion(task: TaskSpec, binary: Path, rules: Rules, paths: Paths, *, device: Device | None = None) -> NaiveResult:
    """What the usual script says of `binary` on the configurations of `task` that it would try.

    On a processor, or on the GPU that is the `device`, for which `binary` was built then. Raises IsolationError without
    a strong sandbox: the code is hostile.
    """
    demand_isolation(public=True)
    if device is None or device.device_class == CPU:
        room = _room(task, binary, rules)
        plan = _plan(task, binary, CPU, CPU, candidate_program())
        with host_build_lock("naive", Watcher(), kind="naive"):  # never beside a timing that counts
            return _asked(room, plan, b"", _TIMEOUT_S, paths)  # what is loaded before its own filter is ours
    room = _room(task, binary, rules)
    environment = {**room.environment, "TRITON_CACHE_DIR": "/tmp/triton", "USER": "kbench"}  # noqa: S108 - its own tmpfs
    room = replace(room, environment=environment, cpu_s=int(4 * _GPU_TIMEOUT_S))
    room = replace(room, file_bytes=_TRITON_BYTES, scratch_bytes=_TRITON_BYTES)
    with room_with_gpu(room, device.name, paths) as (on_gpu, torch_device):
        plan = _plan(task, binary, device.device_class, torch_device, b"")
        return _asked(on_gpu, plan, gpu_program(), _GPU_TIMEOUT_S, paths)


def _room(task: TaskSpec, binary: Path, rules: Rules) -> Room:
    return Room(
        read_only={
            **child_code(),
            _SCRIPT: "/kbench/naive/script.py",
            task.folder / "reference.py": "/kbench/naive/reference.py",
            binary: f"/kbench/job/{binary.name}",
        },
        memory_bytes=rules.limits.memory_bytes,
        file_bytes=rules.limits.file_bytes,
        scratch_bytes=rules.limits.scratch_bytes,
        cpu_s=int(2 * _TIMEOUT_S),
    )


def _plan(task: TaskSpec, binary: Path, device_class: str, torch_device: str, own_filter: bytes) -> dict[str, Any]:
    configs = task.configs_for(device_class)
    return {
        "binary": inside(binary, f"job/{binary.name}"),
        "reference": inside(task.folder / "reference.py", "naive/reference.py"),
        "function": task.direction,
        "is_module": binary.is_dir() and task.is_module,
        "entry": (task.entry if binary.is_dir() else None) or task.direction,
        "is_imported": any(VARIANT in config.values for config in configs),
        "configs": [_described(config) for config in configs if is_usual(config)],
        "threads": max(1, len(os.sched_getaffinity(0)) - 1),
        "device": torch_device,
        "filter": base64.b64encode(own_filter).decode(),
    }


def _asked(room: Room, plan: dict[str, Any], filter_program: bytes, timeout_s: float, paths: Paths) -> NaiveResult:
    argv = [sys.executable, "-I", "-B", inside(_SCRIPT, "naive/script.py"), json.dumps(plan)]
    with tempfile.TemporaryDirectory(prefix="naive-", dir=paths.scratch) as folder:
        child = spawn(argv, room, Path(folder) / "log", filter_program=filter_program)
        try:
            code = child.wait(timeout_s)
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
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
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
