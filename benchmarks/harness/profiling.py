"""Profiles a source: what limits a kernel, on a device of this machine. Not covered: judging it (`stages.py`).

A profile never changes a score. A CUDA source is compiled once more, with the numbers of its lines; hidden
configurations are not profiled.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from .compilers.builds import Build, build_readable
from .compilers.listings import Listings, read_cpp_source, read_gpu_build
from .compilers.static_checks import check_source
from .compilers.toolchain import MODULE
from .errors import Cancelled, HarnessError, NotProfiled, UsageError
from .gpu.profiler import Profiler, longest
from .hosts.machine import Peaks
from .profiles.bottleneck import cpu_bottleneck, gpu_bottleneck
from .profiles.records import ConfigProfile, HotLine, KernelProfile, Profile, Roofline, base_name
from .profiles.text import compact
from .rules import Rules
from .sandbox.isolation import demand_isolation
from .sandbox.outbox import scratch_folder
from .source import NOBODY, Paths, Source, Step, Watcher
from .tasks.spec import Config, TaskSpec
from .tracks import GpuTrack, Track, open_track

CONFIGS_MAX = 4
_PRINTED_CHARS = 2000


def profile(
    source: Source,
    task: TaskSpec,
    rules: Rules,
    paths: Paths,
    *,
    device: str = "cpu",
    configuration: int | None = None,
    times_us: Mapping[str, float] | None = None,
    public: bool = False,
    watcher: Watcher = NOBODY,
) -> Profile:
    """A profile of `source` on `configuration` (its number among those shown), or on a few chosen ones.

    `times_us` are times that a judging has measured, by key of configuration; a processor's profile needs them for its
    roofline. Raises UsageError, NotProfiled, IsolationError, SupervisorError, Cancelled.
    """
    demand_isolation(public=public)
    track = open_track(device, rules, paths)
    if not track.speaks(source.language):
        raise UsageError(f"{source.language} does not run on {track.device.name}")
    problem = check_source(source, task, rules).problem
    if problem:
        raise NotProfiled(f"it is rejected before it is compiled: {problem}")
    configs = chosen_configs(track.configs(task), configuration)
    return _Work(source, task, track, watcher, times_us or {}).run(configs)


def chosen_configs(configs: Sequence[Config], configuration: int | None) -> list[Config]:
    """One by its number, or the headline ones and others of sizes as different as possible."""
    visible = [item for item in configs if not item.hidden]
    if configuration is not None:
        if not 0 <= configuration < len(visible):
            raise UsageError(f"there is no configuration {configuration}: they are numbered 0 to {len(visible) - 1}")
        return [visible[configuration]]
    by_size = sorted(visible, key=lambda item: (item.bytes_moved, item.flops))
    headline = [item for item in visible if item.group == "single"]
    wanted = [*headline, by_size[-1], by_size[0], by_size[len(by_size) // 2]]
    kept = {item.key for item in wanted[:CONFIGS_MAX]}
    return [item for item in visible if item.key in kept]


@dataclass(frozen=True)
class _Calls:
    """What a tool saw of one call per configuration."""

    tool: str
    pairs: Sequence[tuple[Config, Sequence[KernelProfile]]]
    hot_lines: Sequence[HotLine] = ()
    missing: tuple[str, ...] = ()
    raw: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Work:
    """One source on one device."""

    source: Source
    task: TaskSpec
    track: Track
    watcher: Watcher
    times_us: Mapping[str, float]

    def run(self, configs: Sequence[Config]) -> Profile:
        track, source = self.track, self.source
        build, binary = self._built()
        with track.lock(self.watcher), scratch_folder("profile-", track.paths.scratch) as scratch:
            self.watcher.on_step(Step("profile", "started"))
            peaks = self._peaks()
            calls = self._calls(binary, configs, scratch)
            self.watcher.on_step(Step("profile", "finished"))
        launched = {base_name(item.name) for _, kernels in calls.pairs for item in longest(kernels)}
        reading = self._read(binary, launched)
        no_peaks = () if peaks else ("no roofline: the ceilings of this device could not be measured",)
        found = Profile(
            task=self.task.name,
            suite=self.task.suite,
            language=source.language,
            device=track.device.title,
            device_kind=track.device.kind,
            source_sha256=source.sha256,
            tool=calls.tool,
            configs=tuple(self._config(config, kernels, peaks, reading) for config, kernels in calls.pairs),
            resources=tuple(asdict(item) for item in build.resources),
            instructions=reading.instructions,
            hot_lines=tuple(calls.hot_lines),
            listings=reading.listings,
            missing=(*calls.missing, *reading.missing, *no_peaks),
            raw=calls.raw,
        )
        return replace(found, text=compact(found))

    def _built(self) -> tuple[Build, Path]:
        track, watcher = self.track, self.watcher
        with track.build_lock(watcher):
            watcher.on_step(Step("compile", "started"))
            build = build_readable(
                self.source, track.rules, track.paths, target=track.target, cancelled=watcher.cancelled
            )
        if watcher.cancelled():
            raise Cancelled
        if build.binary is None:
            raise NotProfiled(f"it does not compile: {build.problem or build.log[-500:]}")
        return build, build.binary

    def _peaks(self) -> Peaks | None:
        """The measured ceilings of the device; a profile can do without."""
        try:
            return self.track.preparation(self.task, self.watcher, stage="profile", quick=True).peaks(self.track.paths)
        except Cancelled:
            raise
        except HarnessError:
            return None

    def _calls(self, binary: Path, configs: Sequence[Config], scratch: Path) -> _Calls:
        if not isinstance(self.track, GpuTrack):
            reason = "no counters of the processor: perf is not opened inside the sandbox"
            return _Calls("g++", [(config, ()) for config in configs], missing=(reason,))
        profiler = Profiler(self.track.watching(self.task, binary, scratch, self.watcher.cancelled))
        try:
            pairs = list(zip(configs, profiler.kernels(configs), strict=True))
        except HarnessError as error:
            error.add_note("\n".join(f"{name}: {text[-_PRINTED_CHARS:]}" for name, text in profiler.raw.items()))
            raise
        slowest = max(pairs, key=lambda pair: _sum(item.metrics["duration_us"] for item in pair[1]) or 0.0)[0]
        lines, missing = self._hot_lines(profiler, slowest, scratch)
        return _Calls("Nsight Compute", pairs, lines, missing, profiler.raw)

    def _hot_lines(
        self, profiler: Profiler, config: Config, scratch: Path
    ) -> tuple[Sequence[HotLine], tuple[str, ...]]:
        """The lines on which warps wait; without them a profile is still worth having."""
        if self.source.language != "cuda":
            return (), ("no lines of the source: only CUDA builds contain them",)
        text = scratch / f"{MODULE}.cu"
        text.write_text(self.source.text)
        try:
            found = profiler.hot_lines(config, text, self.source.text)
        except Cancelled:
            raise
        except HarnessError as error:
            return (), (f"no lines of the source: {str(error)[:200]}",)
        return found, () if found else ("no lines of the source: Nsight Compute gave none",)

    def _read(self, binary: Path, launched: Collection[str]) -> Listings:
        given = (self.track.rules, self.track.paths, self.watcher.cancelled)
        on_gpu = isinstance(self.track, GpuTrack)
        if on_gpu and self.source.language != "cuda":
            return Listings(missing=("no PTX and SASS: only CUDA builds contain them",))
        if not on_gpu and self.source.language != "cpp":
            return Listings(missing=("no assembly: only C++ sources are compiled ahead",))
        with self.track.build_lock(self.watcher):  # tools that read a stranger's build take processors, too
            return read_gpu_build(binary, launched, *given) if on_gpu else read_cpp_source(self.source, *given)

    def _config(
        self, config: Config, kernels: Sequence[KernelProfile], peaks: Peaks | None, reading: Listings
    ) -> ConfigProfile:
        on_gpu = isinstance(self.track, GpuTrack)
        moved = ("dram_read_bytes", "dram_written_bytes")
        roofline = Roofline(
            flops=self.task.least_flops(config, self.track.device.device_class),
            least_bytes=config.bytes_moved,
            moved_bytes=_sum(item.metrics[key] for item in kernels for key in moved),
            time_us=_sum(item.metrics["duration_us"] for item in kernels) if on_gpu else self.times_us.get(config.key),
            peak_flops_per_s=peaks.flops_per_s if peaks else None,
            peak_bytes_per_s=peaks.bandwidth(config.bytes_moved) if peaks else None,
        )
        found = gpu_bottleneck(kernels, roofline) if on_gpu else cpu_bottleneck(roofline, reading.instructions)
        shown = longest(kernels)
        return ConfigProfile(config.key, config.group, shown, len(kernels), roofline.time_us, roofline, found)


def _sum(values: Iterable[float | None]) -> float | None:
    """None where nothing is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
