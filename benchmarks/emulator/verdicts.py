"""The verdicts and records of a check without a GPU, and their JSON form. All texts in a finding are hostile."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self


class EmulatorVerdict(StrEnum):
    """What the emulator says of a source. None of them is the verdict of a judging."""

    CORRECT_HERE = "CORRECT_HERE"
    WRONG = "WRONG"
    ABSTAINED = "ABSTAINED"


TITLES = {
    EmulatorVerdict.CORRECT_HERE: "Correct here",
    EmulatorVerdict.WRONG: "Wrong",
    EmulatorVerdict.ABSTAINED: "Abstained",
}


@dataclass(frozen=True)
class EmulatorFinding:
    """One fault. Blocks and threads are indices in x, y, z; the other access is None where there is only one."""

    kind: str  # race, out of bounds, wrong result and so on
    text: str
    config: str = ""
    kernel: str = ""
    launch_line: int | None = None
    line: int | None = None
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None
    place: str = ""  # the buffer and the byte in it
    other_line: int | None = None
    other_block: int | None = None  # as numbers in the grid and in the block
    other_thread: int | None = None

    @property
    def sentence(self) -> str:
        """The finding on one line, without the kernel."""
        place = f": {self.place}" if self.place else ""
        where = f" (line {self.line})" if self.line else ""
        return f"{self.text}{place}{where}"

    @property
    def trace(self) -> tuple[str, ...]:
        """What happened where, for people: one line per fact."""
        facts = [f"configuration {self.config}"] if self.config else []
        if self.kernel:
            facts.append(
                f"kernel {self.kernel}" + (f", launched in line {self.launch_line}" if self.launch_line else "")
            )
        if self.thread is not None:
            at = f" in line {self.line}" if self.line else ""
            facts.append(f"thread {self.thread} of block {self.block}{at}")
        if self.other_thread is not None:
            at = f" in line {self.other_line}" if self.other_line else ""
            facts.append(f"before it: thread {self.other_thread} of block {self.other_block}{at}")
        return tuple(facts)


@dataclass(frozen=True)
class EmulatorReport:
    """The outcome of one check. `line` is the line that an abstention or the first finding is about."""

    verdict: EmulatorVerdict
    reason: str
    line: int | None = None
    findings: tuple[EmulatorFinding, ...] = ()
    notes: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()
    runs: int = 0  # configurations times orders of threads
    compile_s: float = 0.0
    seconds: float = 0.0

    @property
    def title(self) -> str:
        return TITLES[self.verdict]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values. Absent is null."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """A report as `to_json` has written it."""
        findings = tuple(_finding(item) for item in data["findings"])
        lists = {"notes": tuple(data["notes"]), "configs": tuple(data["configs"])}
        return cls(**{**data, **lists, "verdict": EmulatorVerdict(data["verdict"]), "findings": findings})


def _finding(data: Mapping[str, Any]) -> EmulatorFinding:
    indices = {name: tuple(data[name]) if data[name] is not None else None for name in ("block", "thread")}
    return EmulatorFinding(**{**data, **indices})
