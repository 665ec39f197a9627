"""The instruction set and the model of this machine's processor.

A leaderboard is for one instruction set, because compiling for wider vectors gives a different program, for kernels
and baselines alike. Does NOT measure anything and does NOT divide cores (`machine.py`).
"""

import functools
import platform
from dataclasses import dataclass
from pathlib import Path

_ARM = ("aarch64", "arm64")


@dataclass(frozen=True)
class Processor:
    """`kind` is what a leaderboard is for, `model` the name that its maker gave it."""

    kind: str
    title: str
    model: str


# from the widest to the narrowest: what the compiler's levels x86-64-v4 and x86-64-v3 have of vectors
_X86 = {
    "cpu-avx512": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
    "cpu-avx2": {"avx2", "fma", "f16c", "bmi1", "bmi2"},
}
KINDS = (
    ("cpu-avx512", "CPU with AVX-512"),
    ("cpu-avx2", "CPU with AVX2"),
    ("cpu-neon", "CPU with NEON"),
    ("cpu-baseline", "CPU without AVX2 or NEON"),
)
_MODEL_MAX_CHARS = 100


@functools.cache
def processor() -> Processor:
    """The processor of this machine."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    return processor_of(text, platform.machine())


def processor_of(cpuinfo: str, machine: str) -> Processor:
    """What `/proc/cpuinfo` tells of the first processor; `machine` is the architecture as the kernel names it.

    Of an ARM nothing has to be told: every one of 64 bits has NEON.
    """
    facts: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        facts.setdefault(name.strip(), value.strip())
    flags = set(facts.get("flags", "").split())
    widest = next((kind for kind, needed in _X86.items() if needed <= flags), "cpu-baseline")
    kind = "cpu-neon" if machine in _ARM else widest
    return Processor(kind, dict(KINDS)[kind], _model(facts, machine)[:_MODEL_MAX_CHARS])


def _model(facts: dict[str, str], machine: str) -> str:
    """The model name; ARM processors only have numbers."""
    if "model name" in facts:
        return facts["model name"]
    numbers = [facts[name] for name in ("CPU implementer", "CPU part") if name in facts]
    return " ".join([machine, *numbers])
