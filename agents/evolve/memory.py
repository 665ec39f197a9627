"""What a run learns from earlier runs: settings and kernels that won on related tasks, and a note on its own task.

It is looked up when a run starts and written into the first event, so the log shows what the run was told and a
resumed run is told the same. A setting of another template is carried over gene by gene. Not covered: where verified
kernels are found (`agents/library.py`), and writing a note (`notes.py`).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.harness import TaskSpec

from .config import ConfigError
from .templates import Genome, Template

KERNELS_MAX, SETTINGS_MAX = 3, 3
ALIKE_MIN = 0.5  # of the names of genes, for a setting of another template
ARITHMETIC = 10.0  # operations per byte from which arithmetic bounds a kernel rather than memory
_WORDS = re.compile(r"[a-z]+")
_NETWORKS = {"mnist", "unet", "llama", "resnet"}  # where an operation comes from says nothing about it


@dataclass(frozen=True)
class PastSetting:
    """The setting of a template that won on a task; `evaluation` is the judging that says so."""

    task: str
    template: str
    params: Genome
    score: float
    evaluation: str = ""
    counts: float | None = None  # what counts of the score; logs of before do not say it


@dataclass(frozen=True)
class PastKernel:
    """A verified kernel of another task. `technique` as in a cell of the archive."""

    task: str
    device_kind: str
    score: float
    technique: tuple[str, ...]
    source_sha256: str
    evaluation: str = ""


@dataclass(frozen=True)
class RunMemory:
    """All of it. `note` is a text of ours on earlier runs of the same task; `note_of` names the run."""

    settings: tuple[PastSetting, ...] = ()
    kernels: tuple[PastKernel, ...] = ()
    note: str = ""
    note_of: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; empty where there is nothing to tell."""
        return asdict(self) if self != RunMemory() else {}

    @classmethod
    def of_options(cls, options: Mapping[str, Any]) -> "RunMemory":
        """From the options of a run. Raises ConfigError where they are malformed."""
        data = options.get("memory") or {}
        try:
            settings = tuple(PastSetting(**item) for item in data.get("settings", ()))
            kernels = tuple(
                PastKernel(**{**item, "technique": tuple(item["technique"])}) for item in data.get("kernels", ())
            )
            return cls(settings[:SETTINGS_MAX], kernels[:KERNELS_MAX], data.get("note", ""), data.get("note_of", ""))
        except (TypeError, KeyError, AttributeError) as error:
            raise ConfigError(f"the option memory is malformed: {error}") from error


def likeness(one: TaskSpec, other: TaskSpec, kind: str) -> float:
    """How related two tasks are: shared words of the operations, and a quarter more for the same bottleneck."""
    words, more = (set(_WORDS.findall(task.name.split("/")[0])) - _NETWORKS for task in (one, other))
    shared = len(words & more) / max(1, len(words | more))
    return shared + 0.25 * (bottleneck(one, kind) == bottleneck(other, kind)) if shared else 0.0


def bottleneck(task: TaskSpec, kind: str) -> str:
    """What bounds its largest configuration at best: memory or arithmetic."""
    largest = max(task.configs_for(kind), key=lambda item: (item.bytes_moved, item.flops))
    return "arithmetic" if largest.flops > ARITHMETIC * largest.bytes_moved else "memory"


def warm_start(template: Template, settings: Sequence[PastSetting]) -> list[tuple[Genome, PastSetting]]:
    """Valid settings of this template to begin with, the most related first, none twice."""
    found: dict[Any, tuple[Genome, PastSetting]] = {}
    for item in sorted(
        settings, key=lambda item: (item.template != template.name, -_alike(template, item), -_counts(item))
    ):
        genome = carried_over(template, item.params) if _alike(template, item) >= ALIKE_MIN else None
        if genome is not None:
            found.setdefault(template.space.key(genome), (genome, item))
    return [*found.values()][:SETTINGS_MAX]


def carried_over(template: Template, params: Genome) -> Genome | None:
    """The template's best guess with the genes that both have; None where they do not go together."""
    space = template.space
    known = {gene.name: params[gene.name] for gene in space.genes if params.get(gene.name) in gene.values}
    genome = space.settled({**template.default, **known})
    return genome if space.valid(genome) else None


def _counts(item: PastSetting) -> float:
    return item.score if item.counts is None else item.counts


def _alike(template: Template, item: PastSetting) -> float:
    if item.template == template.name:
        return 1.0
    names, others = set(template.space.names), set(item.params)
    return len(names & others) / len(names | others)
