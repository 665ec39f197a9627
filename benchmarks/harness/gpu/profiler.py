"""Profiles one call per configuration with Nsight Compute.

The tool repeats each kernel for its many counters and empties the caches before each repetition, so a kernel does not
find in a cache what the one before it wrote. A report is misleading at worst: no score depends on it. Not covered:
what the figures mean (`profiles/`).
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import AuditBroken, Cancelled, HarnessError, NotProfiled
from ..profiles.metrics import METRICS, kernel_profile
from ..profiles.ncu_tables import Launch, hot_lines, launches
from ..profiles.records import HotLine, KernelProfile
from ..sandbox.isolation import inside
from ..tasks.spec import Config
from .watching import Watching, tool

MARK = "spin_kernel"
_SECTIONS = (
    "SpeedOfLight",
    "LaunchStats",
    "Occupancy",
    "MemoryWorkloadAnalysis",
    "MemoryWorkloadAnalysis_Tables",
    "ComputeWorkloadAnalysis",
    "SchedulerStats",
    "WarpStateStats",
    "InstructionStats",
    "SourceCounters",
)
# by name beside the sections, which differ between versions of the tool
_ALWAYS = ("gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum")
_MORE = tuple(
    source for item in METRICS for source in item.sources if source.startswith("l1tex__") and "pct" not in source
)
_LAUNCHES_MAX = 200
_SHOWN_KERNELS = 8
_REPORT_BYTES = 16 << 20


@dataclass
class Profiler:
    """Nsight Compute around the process of a submission; keeps in `raw` what the tool printed."""

    watching: Watching
    raw: dict[str, str] = field(default_factory=dict)

    def kernels(self, configs: Sequence[Config]) -> list[list[KernelProfile]]:
        """The launches of one call on each configuration. Raises NotProfiled, SupervisorError, Cancelled."""
        together = self._first_that_works(configs, marked=True)
        groups = _between_marks(together)
        if len(groups) != len(configs):  # it launches such a kernel itself, or there were too many launches
            groups = [self._first_that_works([config], marked=False) for config in configs]
        return [[kernel_profile(launch.name, launch.values) for launch in group] for group in groups]

    def hot_lines(self, config: Config, source: Path, text: str) -> list[HotLine]:
        """The lines of the source on which warps wait most. The build must know its lines. Raises as `kernels`."""
        place = inside(source, f"given/{source.name}")
        options = ["--section", "SourceCounters", "--page", "source", "--csv", "--print-source", "cuda,sass"]
        report = self._run([config], options, marked=False, name="source", more={source: place})
        return hot_lines(report, text)

    def _first_that_works(self, configs: Sequence[Config], *, marked: bool) -> list[Launch]:
        """With fewer figures where this version of the tool does not know all of them."""
        sections = [part for name in _SECTIONS for part in ("--section", name)]
        wanted = (
            [*sections, "--metrics", ",".join((*_ALWAYS, *_MORE))],
            [*sections, "--metrics", ",".join(_ALWAYS)],
            ["--set", "full"],
        )
        problem: HarnessError | None = None
        began = time.monotonic()
        for number, options in enumerate(wanted):
            if time.monotonic() - began > self.watching.timeout_s:
                break  # it ran out of time, and would again
            try:
                together = "marked" if marked else "alone"
                name = f"{configs[0].key} and {len(configs) - 1} more, {together}, attempt {number + 1}"
                report = self._run(
                    configs, [*options, "--page", "raw", "--print-units", "base", "--csv"], marked=marked, name=name
                )
                if found := launches(report):
                    return found
                problem = NotProfiled("Nsight Compute saw no kernel: the call launches none, or not in this process")
            except AuditBroken as error:
                problem = NotProfiled(f"Nsight Compute could not profile it: {error}")
            except Cancelled:
                raise
            except HarnessError as error:
                problem = error
        assert problem is not None  # noqa: S101 - each attempt returns or leaves one
        raise problem

    def _run(
        self,
        configs: Sequence[Config],
        options: Sequence[str],
        *,
        marked: bool,
        name: str,
        more: dict[Path, str] | None = None,
    ) -> str:
        argv = [
            tool("ncu"),
            *("--target-processes", "all", "--profile-from-start", "off"),
            *("--clock-control", "none", "--cache-control", "all", "--launch-count", str(_LAUNCHES_MAX)),
            *options,
            "--log-file",
        ]
        stopped: Callable[[], bool] = self.watching.cancelled
        try:
            report = self.watching.run(configs, "ncu", argv, {0}, marked=marked, more=more, report_bytes=_REPORT_BYTES)
        except HarnessError as error:
            self.raw[name] = f"{type(error).__name__}: {error}"
            if stopped():
                raise Cancelled from error
            raise
        self.raw[name] = report
        return report


def longest(kernels: Sequence[KernelProfile]) -> tuple[KernelProfile, ...]:
    """Those that take longest, in the order of their launches."""
    by_time = sorted(range(len(kernels)), key=lambda number: -(kernels[number].metrics["duration_us"] or 0.0))
    return tuple(kernels[number] for number in sorted(by_time[:_SHOWN_KERNELS]))


def _between_marks(found: Sequence[Launch]) -> list[list[Launch]]:
    """The launches before each mark; what follows the last one is cut off and would be misread."""
    groups: list[list[Launch]] = [[]]
    for launch in found:
        if MARK in launch.name:
            groups.append([])
        else:
            groups[-1].append(launch)
    return groups[:-1] if not groups[-1] else []
