"""The format of a bundle of recorded results: JSON lines, one header and one line per entry.

A bundle comes from one device kind under one rule set. A file may have been written by anybody: its size is bounded,
every field is checked, unknown fields are refused, and an error names its line. Does NOT touch the database.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from ..harness import geometric_mean, is_bound, weight_of_key

FORMAT, VERSION = "kbench-recorded", 1
SHIPPED = Path(__file__).parent / "shipped"  # the bundles that come with kbench
FILE_MAX_BYTES = 64 * 1024 * 1024
LINE_MAX_BYTES = 2 * 1024 * 1024
ENTRIES_MAX = 20_000
SOURCE_MAX_CHARS = 512 * 1024
DAYS = (datetime(1970, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))
ROUNDED = 1.001  # the most that two figures of one judging differ by
POOLED = 2.0  # the same of figures of several judgings
LOOSE = 1.1  # the same of lower ends of intervals, which are drawn by chance
UNPAIRED = 4.0  # the same of a speedup, the median of paired quotients, and the quotient of the medians
COMPACT: dict[str, Any] = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,49}$")]
PLAIN = r"^[^\x00-\x1f\x7f]*$"  # one line, nothing that a database or a terminal would trip over
Text = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=PLAIN)]
LongText = Annotated[str, StringConstraints(max_length=500, pattern=PLAIN)]
SourceText = Annotated[str, StringConstraints(max_length=SOURCE_MAX_CHARS, pattern=r"^[^\x00]*$")]
Whole = Annotated[int, Field(ge=-(2**53), le=2**53)]
Real = Annotated[float, Field(ge=-1e15, le=1e15)]
BundleFact = bool | Whole | Real | LongText | None
TaskPath = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9_-]{1,50}/[a-zA-Z0-9_-]{1,100}/[a-zA-Z0-9_-]{1,20}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Us = Annotated[float, Field(ge=1e-3, le=1e9)] | None
DifferenceUs = Annotated[float, Field(ge=-1e9, le=1e9)] | None
Speedup = Annotated[float, Field(ge=1e-6, le=1e6)]
Interval = tuple[Speedup, Speedup]
NotNegative = Annotated[float, Field(ge=0, lt=1e6)] | None
Energy = Annotated[float, Field(ge=1e-9, le=1e12)]  # mJ
Count = Annotated[int, Field(ge=0, lt=2**31)]


def _plausible(moment: datetime) -> datetime:
    """In UTC. The bounds are compared first, as a moment at either end of the calendar has no UTC."""
    if not DAYS[0] <= moment < DAYS[1]:
        raise ValueError(f"the date is not within the years {DAYS[0].year} to {DAYS[1].year - 1}")
    return moment.astimezone(UTC)


Moment = Annotated[AwareDatetime, AfterValidator(_plausible)]


class BundleError(Exception):
    """A file that is no bundle; the text names the line."""


class StrictRecord(BaseModel):
    """What a line of a file holds; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


Item = TypeVar("Item", bound=StrictRecord)


class BundleFigure(StrictRecord):
    """What somebody else has published for a task: never measured here, never ranked."""

    task: TaskPath
    vs_eager: Speedup
    vs_compile: Speedup


class BundleReported(StrictRecord):
    """Published figures beside the entries, and whose they are."""

    origin: Text
    machine: Text
    figures: tuple[BundleFigure, ...] = Field(max_length=500)


class BundleHeader(StrictRecord):
    """The first line: what the bundle is, on which device and under which rules its entries were judged."""

    format: Literal["kbench-recorded"] = "kbench-recorded"
    version: Literal[1] = 1
    name: Name
    title: Text
    about: Annotated[str, StringConstraints(max_length=2000, pattern=PLAIN)]
    device: Name
    device_title: Text
    device_class: Literal["cpu", "cuda"]
    machine: dict[Name, Text] = Field(max_length=30)
    ruleset: Name
    ruleset_sha256: Sha256 | None = None
    reported: BundleReported | None = None


class BundleMethod(StrictRecord):
    """How an entry was made."""

    slug: Name
    title: Text
    kind: Literal["human", "agent", "library"]


class BundleScore(StrictRecord):
    """Over the stronger of eager and torch.compile. `vs_compile` is null where torch.compile could not run."""

    speedup: Speedup
    ci95: Interval
    vs_eager: Speedup
    vs_compile: Speedup | None
    worst_config: LongText
    timing_trust: Name

    @model_validator(mode="after")
    def consistent(self) -> Self:
        _inside(self.speedup, self.ci95)
        for name, other in (("vs_eager", self.vs_eager), ("vs_compile", self.vs_compile)):
            if other is not None and self.speedup > other * POOLED:
                raise ValueError(f"the speedup over the stronger baseline is {self.speedup}, but {name} is {other}")
        return self


class BundleConfig(StrictRecord):
    """One configuration; null where nothing was measured. The fields are those of a report."""

    key: Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=PLAIN)]
    group: Literal["single", "multi", "hidden"]
    correct: Literal[True]  # an entry was correct everywhere, or it is none
    max_abs_error: NotNegative
    max_rel_error: NotNegative
    kernel_us: Us
    eager_us: Us
    compile_us: Us
    kernel_iqr_us: NotNegative
    eager_iqr_us: NotNegative
    compile_iqr_us: NotNegative
    speedup: Speedup | None
    ci95: Interval | None
    roofline_fraction: NotNegative
    calls: Count
    checked_calls: Count
    launches_us: tuple[tuple[Us, ...], ...] = Field((), max_length=16)
    excess_us: DifferenceUs = None
    copied: bool = False
    energy_mj: Energy | None = None
    energy_ci95_mj: tuple[Energy, Energy] | None = None

    @model_validator(mode="after")
    def consistent(self) -> Self:
        self._compare_energy()
        demand_speedup_of(self.speedup, self.ci95, self.kernel_us, (self.eager_us, self.compile_us))
        return self

    def _compare_energy(self) -> None:
        if (self.energy_mj is None) != (self.energy_ci95_mj is None):
            raise ValueError("an energy and its interval must be given together")
        if self.energy_mj is not None and self.energy_ci95_mj is not None:
            low, high = self.energy_ci95_mj
            if not low <= self.energy_mj <= high:
                raise ValueError(f"the energy {self.energy_mj} is outside of its interval {low} to {high}")


class BundleEntry(StrictRecord):
    """One verified kernel."""

    id: Name
    task: TaskPath
    task_sha256: Sha256 | None = None
    by: Text
    method: BundleMethod
    title: Annotated[str, StringConstraints(max_length=200, pattern=PLAIN)] = ""
    language: Name
    judged_at: Moment
    judgings: Annotated[int, Field(ge=1, le=10_000)] = 1
    score: BundleScore
    source_sha256: Sha256
    source: SourceText | None
    configs: tuple[BundleConfig, ...] = Field(min_length=1, max_length=500)
    remarks: tuple[Text, ...] = Field((), max_length=50)
    environment: dict[Name, BundleFact] = Field({}, max_length=60)
    isolation: Annotated[str, StringConstraints(max_length=200, pattern=PLAIN)] = ""

    @model_validator(mode="after")
    def consistent(self) -> Self:
        if self.source is not None and sha256_of(self.source) != self.source_sha256:
            raise ValueError("source_sha256 is not the hash of the source")
        self._compare_with_configs()
        return self

    def _compare_with_configs(self) -> None:
        """Several judgings have one score, but the configurations are those of one of them."""
        timed = [
            (item.speedup, item.ci95[0], weight_of_key(item.key))
            for item in self.configs
            if item.speedup is not None and item.ci95
        ]
        factor = POOLED if self.judgings > 1 else ROUNDED
        demand_score_of(self.score.speedup, self.score.ci95, timed, factor, bound=is_bound(self.score.timing_trust))


def demand_speedup_of(
    speedup: float | None, ci95: Interval | None, kernel_us: float | None, baselines_us: Sequence[float | None]
) -> None:
    """Raises ValueError for a speedup that does not follow from its times or lies outside of its interval."""
    if (speedup is None) != (ci95 is None):
        raise ValueError("a speedup and its interval must be given together")
    if speedup is not None and ci95 is not None:
        _inside(speedup, ci95)
    known_us = [time_us for time_us in baselines_us if time_us is not None]
    if speedup is not None and kernel_us is not None and known_us:
        quotient = min(known_us) / kernel_us
        if not quotient / UNPAIRED <= speedup <= quotient * UNPAIRED:
            raise ValueError(f"the speedup is {speedup:.6g}, but its times give {quotient:.6g}")


def demand_score_of(
    score: float, ci95: Interval, timed: Sequence[tuple[float, float, float]], factor: float, *, bound: bool
) -> None:
    """Raises ValueError for a score that does not follow from its configurations.

    Of each the speedup, a lower end and its weight are given. It is their weighted geometric mean or, where the
    kernel's own time varies, the lower end of the interval around it; that of a `bound` may reach further down. Of a
    wide interval no more is kept than others may have, so the mean may lie above it; then lower ends are compared.
    """
    if not timed:
        raise ValueError("no configuration has a speedup")
    _inside(score, ci95)
    speedups, lower_ends, weights = zip(*timed, strict=True)
    mean, lowest = geometric_mean(speedups, weights), geometric_mean(lower_ends, weights)
    is_mean = mean / factor <= score <= mean * factor
    is_lower_end = score <= mean and (bound or score == ci95[0])
    if not is_mean and not (is_lower_end and (mean <= ci95[1] * ROUNDED or lowest / LOOSE <= score)):
        raise ValueError(f"the score is {score:.6g}, but the mean of its configurations is {mean:.6g}")


def _inside(speedup: float, interval: Interval) -> None:
    low, high = interval
    if not low <= speedup <= high:
        raise ValueError(f"the speedup {speedup} is outside of its interval {low} to {high}")


def sha256_of(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def bundle_lines(header: BundleHeader, entries: Iterable[BundleEntry]) -> Iterator[str]:
    """The lines of the file, each with its end."""
    for item in (header, *entries):
        yield json.dumps(item.model_dump(mode="json"), **COMPACT) + "\n"


def read_bundle(path: Path) -> tuple[BundleHeader, list[BundleEntry], str]:
    """Header, entries and the SHA-256 of the file. Raises BundleError and OSError."""
    with path.open("rb") as file:
        digest = hashlib.sha256()
        lines = numbered_lines(file, digest, FILE_MAX_BYTES)
        number, first = next(lines, (1, b""))
        header = parsed_line(BundleHeader, first, number)
        entries: dict[str, BundleEntry] = {}
        for number, line in lines:
            if len(entries) == ENTRIES_MAX:
                raise BundleError(f"line {number}: a bundle has at most {ENTRIES_MAX} entries")
            entry = parsed_line(BundleEntry, line, number)
            if entry.id in entries:
                raise BundleError(f"line {number}: the id {entry.id} is on an earlier line already")
            entries[entry.id] = entry
    return header, list(entries.values()), digest.hexdigest()


def format_of(path: Path) -> str:
    """What the first line calls itself; empty where it says nothing. Raises OSError."""
    with path.open("rb") as file:
        try:
            first = json.loads(file.readline(LINE_MAX_BYTES))
        except (ValueError, RecursionError):
            return ""
    return str(first.get("format", "")) if isinstance(first, dict) else ""


def numbered_lines(file: IO[bytes], digest: Any, max_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Numbered lines, empty ones left out; nothing longer than allowed is ever held in memory. Raises BundleError."""
    size_bytes, number = 0, 0
    while line := file.readline(LINE_MAX_BYTES + 1):
        number += 1
        size_bytes += len(line)
        digest.update(line)
        if len(line) > LINE_MAX_BYTES:
            raise BundleError(f"line {number}: longer than {LINE_MAX_BYTES} bytes")
        if size_bytes > max_bytes:
            raise BundleError(f"line {number}: the file is larger than {max_bytes} bytes")
        if line.strip():
            yield number, line


def parsed_line(kind: type[Item], line: bytes, number: int) -> Item:
    """Raises BundleError."""
    try:
        return kind.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part)[:50] for part in first["loc"])
        text = f"{place}: {first['msg']}" if place else first["msg"]
        raise BundleError(f"line {number}: {text[:500]}") from error
