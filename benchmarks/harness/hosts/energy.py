"""The energy that the processors of this machine have used: the counters of Linux's powercap (RAPL), where readable.

Most systems let root alone read them, and virtual machines have none. Not covered: GPUs (`gpu/energy.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

POWERCAP = Path("/sys/class/powercap")


@dataclass(frozen=True)
class RaplCounter:
    """Of one processor package: counts microjoules and begins again at 0 behind `range_uj`."""

    path: Path
    range_uj: int

    def read_uj(self) -> int:
        return int((self.path / "energy_uj").read_text())

    def between_uj(self, before_uj: int, after_uj: int) -> int:
        """From one reading to a later one, between which it began again at most once."""
        return after_uj - before_uj if after_uj >= before_uj else after_uj - before_uj + self.range_uj


def rapl_counters(folder: Path = POWERCAP) -> tuple[RaplCounter, ...]:
    """One for each package that may be read; of the zones inside a package nothing is added twice."""
    found = []
    for path in sorted(folder.glob("intel-rapl:*")):
        try:
            if (path / "name").read_text().startswith("package"):
                counter = RaplCounter(path, int((path / "max_energy_range_uj").read_text()))
                counter.read_uj()
                found.append(counter)
        except (OSError, ValueError):
            continue
    return tuple(found)


def used_uj(counters: Sequence[RaplCounter], before_uj: Sequence[int], after_uj: Sequence[int]) -> int:
    """By all packages between two readings. Wraps are taken into account."""
    readings = zip(counters, before_uj, after_uj, strict=True)
    return sum(counter.between_uj(before, after) for counter, before, after in readings)
