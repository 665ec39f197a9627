"""Which mutants the corpus has, their texts made again on demand, and the labels that a judge gave them.

The choice depends on texts and names alone, so every machine makes the same files. Not covered: judging.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from itertools import zip_longest
from pathlib import Path

from agents.evolve.verifiers.mutations import Operator, mutant
from benchmarks.harness import Source, TaskSpec

from .operators import CUDA_OPERATORS
from .seeds import CudaSeed, seeds, task_of

LABELS = Path(__file__).parent / "labels.jsonl"
FAULTY, EQUIVALENT = 6, 4  # mutants of each operator


@dataclass(frozen=True)
class CudaSpecimen:
    """One kernel of the corpus: a seed, or one place of an operator in it."""

    seed: CudaSeed
    operator: Operator | None = None
    site: int = 0

    @property
    def name(self) -> str:
        return f"{self.seed.name}.{self.operator.name}.{self.site}" if self.operator else self.seed.name

    @cached_property
    def text(self) -> str:
        if self.operator is None:
            return self.seed.text
        return mutant(self.seed.text, self.operator.sites(self.seed.text, self.task)[self.site])

    @property
    def task(self) -> TaskSpec:
        return task_of(self.seed.task)

    @property
    def source(self) -> Source:
        return Source(self.text, "cuda")

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True)
class CudaLabel:
    """What was found of a specimen on a GPU. `correct` is None where nothing can be said of its results.

    `labelled_by` is `judge`, or `comparison`: the same inputs, reference and tolerances without the judge's processes;
    or, where these called it right, `sanitizer`: a tool found a fault; or `conditions`: its results are wrong under
    conditions that change nothing for a right kernel. `before` is then the label before. `looked` says by tool and
    condition what was found; empty for nothing.
    """

    name: str
    sha256: str
    operator: str | None
    fault: str
    task: str
    correct: bool | None
    verdict: str
    reason: str
    seconds: float
    labelled_by: str = "judge"
    before: str = ""
    looked: Mapping[str, str] = field(default_factory=dict)


@cache
def planned(faulty: int = FAULTY, equivalent: int = EQUIVALENT) -> tuple[CudaSpecimen, ...]:
    """The seeds, then so many mutants of each operator, one of every operator before the second of any.

    Seeds that take long come last, so that a judge whose time is short has seen the most.
    """
    chosen = [_chosen(item, equivalent if item.fault == "equivalent" else faulty) for item in CUDA_OPERATORS]
    turns = (specimen for turn in zip_longest(*chosen) for specimen in turn if specimen is not None)
    light, heavy = ([CudaSpecimen(seed) for seed in seeds() if seed.heavy is long] for long in (False, True))
    return tuple(_distinct([*light, *turns, *heavy]))


def read_labels(path: Path = LABELS) -> list[CudaLabel]:
    """Every label written so far; of a specimen that was judged again the last one."""
    if not path.exists():
        return []
    found = [CudaLabel(**json.loads(line)) for line in path.read_text().splitlines()]
    return list({label.sha256: label for label in found}.values())


def label_line(label: CudaLabel) -> str:
    return json.dumps(asdict(label), ensure_ascii=False) + "\n"


def _chosen(operator: Operator, count: int) -> list[CudaSpecimen]:
    """Places in an order that depends on their names alone, and from as many seeds as there are."""
    turns: dict[str, int] = defaultdict(int)
    ranked = []
    for place in sorted(_places(operator), key=lambda item: hashlib.sha256(item.name.encode()).hexdigest()):
        turns[place.seed.name] += 1
        ranked.append((turns[place.seed.name], place))
    return [place for _, place in sorted(ranked, key=lambda item: item[0])[:count]]


def _places(operator: Operator) -> Iterator[CudaSpecimen]:
    for seed in seeds():
        if seed.right and not seed.heavy:
            for number, _ in enumerate(operator.sites(seed.text, task_of(seed.task))):
                yield CudaSpecimen(seed, operator, number)


def _distinct(specimens: Iterable[CudaSpecimen]) -> Iterator[CudaSpecimen]:
    """Without texts that were there before."""
    seen = set()
    for specimen in specimens:
        if specimen.sha256 not in seen:
            seen.add(specimen.sha256)
            yield specimen
