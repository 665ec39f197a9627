"""Which GPUs this machine has, found without a context on any of them: nvidia-smi and /proc.

Not covered: GPUs of other makers, and partitions of a GPU (MIG), which are left alone.
"""

import functools
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

_QUERY = ("index", "uuid", "name", "driver_version", "memory.total", "pci.bus_id", "compute_cap")
_SHARED_NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
_TIMEOUT_S = 60
# the usual form of a GPU; others, such as NVIDIA H100 PCIe and NVL, are of another speed and have kinds of their own
_KINDS = {"nvidia-h100-80gb-hbm3": "nvidia-h100"}
_MIB = 1 << 20


@dataclass(frozen=True)
class Gpu:
    """One GPU. `accelerator` names what children open; `host` is the stand-in that tests use."""

    name: str  # cuda:0
    title: str  # NVIDIA H200
    uuid: str
    driver: str
    memory_bytes: int
    target: str  # sm_90
    nodes: tuple[Path, ...]
    accelerator: str = "cuda"

    @property
    def kind(self) -> str:
        return kind_of(self.title)

    def environment(self) -> dict[str, str]:
        """What a child needs to find this GPU and no other."""
        if self.accelerator != "cuda":
            return {}
        found = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        return {**found, "CUDA_VISIBLE_DEVICES": self.uuid, "CUDA_CACHE_DISABLE": "1"}


def kind_of(title: str) -> str:
    """The kind of device, whose leaderboards others of the kind share, from the name that the driver gives a GPU."""
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    return _KINDS.get(slug, slug)


@functools.cache
def gpus() -> tuple[Gpu, ...]:
    """The GPUs of this machine; empty where there is none or the driver does not answer."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    argv = [program, f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(parse_line(line) for line in done.stdout.splitlines() if line.strip())


def free_bytes(gpu: Gpu) -> int | None:
    """The memory of `gpu` that nobody takes now; None if the driver does not tell."""
    program = shutil.which("nvidia-smi")
    if program is None or gpu.accelerator != "cuda":
        return None
    argv = [program, f"--id={gpu.uuid}", "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
        return int(done.stdout) * _MIB
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def parse_line(line: str) -> Gpu:
    """One line of nvidia-smi's answer to `_QUERY`."""
    index, uuid, title, driver, memory_mib, bus, capability = (part.strip() for part in line.split(","))
    nodes = [*_SHARED_NODES, f"/dev/nvidia{_minor(bus, index)}"]
    return Gpu(
        name=f"cuda:{index}",
        title=title,
        uuid=uuid,
        driver=driver,
        memory_bytes=int(memory_mib) * _MIB,
        target=f"sm_{capability.replace('.', '')}",
        nodes=tuple(path for path in map(Path, nodes) if path.exists()),
    )


def _minor(bus: str, index: str) -> str:
    """The number of the device file, which need not be the index."""
    path = Path("/proc/driver/nvidia/gpus") / bus.lower()[-12:] / "information"
    try:
        found = re.search(r"Device Minor:\s*(\d+)", path.read_text())
    except OSError:
        return index
    return found.group(1) if found else index
