"""What each file of tests cost: the seconds it took, and the processor seconds that it and its ended children used.

The second figure is the one to compare on a shared machine. A file that needs many seconds and few of a processor
waits. Children that are still running, such as a site shared by a module, are counted where they end. Does NOT count
what is done before the first test: imports and collection.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

SHOWN_FROM_S = 5.0
SHOWN_MAX = 40


class ProcessorClock:
    """Processor seconds of this process and its ended children since it was asked last."""

    def __init__(self) -> None:
        self._last_s = self._now_s()

    def lap_s(self) -> float:
        before_s, self._last_s = self._last_s, self._now_s()
        return self._last_s - before_s

    @staticmethod
    def _now_s() -> float:
        return sum(os.times()[:4])


@dataclass
class FileCost:
    took_s: float = 0.0
    processor_s: float = 0.0


def by_file(reports: Iterable[Any]) -> dict[str, FileCost]:
    """The costs of the files of these reports of phases of tests; other reports of pytest are left out."""
    costs: dict[str, FileCost] = {}
    for report in reports:
        if hasattr(report, "processor_s"):
            cost = costs.setdefault(report.nodeid.partition("::")[0], FileCost())
            cost.took_s += report.duration
            cost.processor_s += report.processor_s
    return costs


def table(costs: dict[str, FileCost]) -> list[str]:
    """A line for each of the files that took longest, and one for all files; empty if none took long."""
    longest = sorted(costs, key=lambda file: costs[file].took_s, reverse=True)
    shown = [file for file in longest if costs[file].took_s >= SHOWN_FROM_S][:SHOWN_MAX]
    if not shown:
        return []
    total = FileCost(sum(cost.took_s for cost in costs.values()), sum(cost.processor_s for cost in costs.values()))
    lines = [(costs[file], file) for file in shown] + [(total, "all files")]
    return [f"{cost.took_s:8.1f} s {cost.processor_s:8.1f} s  {file}" for cost, file in lines]
