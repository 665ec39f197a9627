"""Reads the files of the last `make redteam` on each kind of device, for the page of attacks.

The files are ours: `scripts/redteam.py` writes them from the records of this module. Does NOT judge anything.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

GAIN_MAX = 1.05  # of the score of the honest control: what noise between two judgings may look like


@dataclass(frozen=True)
class Attack:
    """One hostile or honest file: its verdict here, and the result of a naive harness."""

    case: str
    kind: str  # attack, failure or honest
    exploit: str
    task: str
    language: str
    about: str
    verdict: str
    reason: str
    noticed: str  # by which part of the judge
    control: str
    control_speedup: float | None
    speedup: float | None
    naive: str
    naive_speedup: float | None
    seconds: float
    objection: str  # what is not as the rules demand; empty if nothing is
    gain_low: float | None = None  # the 95 % interval of the gain, where both were judged in one sitting
    gain_high: float | None = None

    @property
    def name(self) -> str:
        return self.case.rpartition("/")[2]

    @property
    def gain(self) -> float | None:
        """The accepted score as a part of the control's."""
        return self.speedup / self.control_speedup if self.speedup and self.control_speedup else None


@dataclass(frozen=True)
class RedteamRun:
    """One `make redteam`. `controls` counts the honest judgings made between hostile ones."""

    date: str
    device_kind: str
    processor: str
    ruleset: str
    torch: str
    isolation: str
    steps_per_config: int
    cases_in_corpus: int
    controls: int
    attacks: tuple[Attack, ...]

    @property
    def files(self) -> tuple[Attack, ...]:
        """Without the rows of controls that failed after a hostile file, which are named after the control."""
        return tuple(item for item in self.attacks if not item.case.endswith(" after"))

    @property
    def hostile(self) -> tuple[Attack, ...]:
        return tuple(item for item in self.files if item.kind != "honest")

    @property
    def honest(self) -> tuple[Attack, ...]:
        return tuple(item for item in self.files if item.kind == "honest")

    @property
    def objections(self) -> tuple[Attack, ...]:
        return tuple(item for item in self.attacks if item.objection)

    @property
    def believed(self) -> tuple[Attack, ...]:
        """Attacks for which the naive harness reports a speedup. Failures are not counted."""
        return tuple(item for item in self.files if item.kind == "attack" and item.naive_speedup is not None)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def run_from_json(data: Mapping[str, Any]) -> RedteamRun:
    """Raises KeyError or TypeError for what is no such record."""
    return RedteamRun(**{**data, "attacks": tuple(Attack(**item) for item in data["attacks"])})


def runs(folder: Path) -> list[RedteamRun]:
    """The last run of each kind of device, by name; empty if there was none."""
    return [run_from_json(json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))]


def by_exploit(attacks: Iterable[Attack]) -> list[Attack]:
    """In the order in which a table shows them: by class, then by name."""
    return sorted(attacks, key=lambda item: (item.kind, item.exploit, item.case))
