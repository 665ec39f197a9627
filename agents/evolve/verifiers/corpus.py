"""The labelled corpus: correct kernels (`corpus/seeds`), their mutants, and what the judge said of each.

A mutant is kept as seed, operator, place and hash; its text is made again when it is wanted. `corpus/labels.jsonl` is
written by `lab/sweeps/label_corpus.py`. Not covered: judging.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path

from benchmarks.harness import TaskSpec, default_suites, find_task

from .mutations import OPERATORS, Operator, mutant

FOLDER = Path(__file__).parent / "corpus"
LABELS = FOLDER / "labels.jsonl"
_OPERATORS = {item.name: item for item in OPERATORS}


@dataclass(frozen=True)
class Specimen:
    """One kernel of the corpus. `operator` is None for a seed itself."""

    seed: str  # OP.DIRECTION.NAME
    operator: str | None = None
    site: int = 0

    @property
    def fault(self) -> str:
        """What its operator plants; `correct` for a seed."""
        return _OPERATORS[self.operator].fault if self.operator else "correct"

    @property
    def task(self) -> str:
        return "/".join(self.seed.split(".")[:2])

    @cached_property
    def text(self) -> str:
        seed = (FOLDER / "seeds" / f"{self.seed}.cpp").read_text()
        if self.operator is None:
            return seed
        return mutant(seed, _OPERATORS[self.operator].sites(seed, self.spec)[self.site])

    @cached_property
    def spec(self) -> TaskSpec:
        return find_task(default_suites(), self.task)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True)
class Label:
    """What the judge said of one specimen, and what it took. `compiled` is None where that was not known."""

    seed: str
    operator: str | None
    site: int
    sha256: str
    verdict: str
    reason: str
    compiled: bool | None
    compile_s: float
    judging_s: float

    @property
    def specimen(self) -> Specimen:
        return Specimen(self.seed, self.operator, self.site)


def read_labels(path: Path = LABELS) -> list[Label]:
    """Every label written so far."""
    if not path.exists():
        return []
    return [Label(**json.loads(line)) for line in path.read_text().splitlines()]


def add_label(label: Label, path: Path = LABELS) -> None:
    with path.open("a") as file:
        file.write(json.dumps(asdict(label), ensure_ascii=False) + "\n")


def seeds() -> list[Specimen]:
    return [Specimen(path.stem) for path in sorted((FOLDER / "seeds").glob("*.cpp"))]


def planned(faulty: int, equivalent: int) -> list[Specimen]:
    """The seeds, then so many mutants of each operator, one of every operator before the second of any."""
    chosen = [_chosen(item, equivalent if item.fault == "equivalent" else faulty) for item in OPERATORS]
    turns = (specimen for turn in zip_longest(*chosen) for specimen in turn if specimen is not None)
    return list(_distinct([*seeds(), *turns]))


def _chosen(operator: Operator, count: int) -> list[Specimen]:
    """Places in an order that depends on their names alone, and from as many seeds as there are."""
    places = sorted(_places(operator), key=lambda item: _hash(operator.name, item.seed, str(item.site)))
    turns: dict[str, int] = {}
    ranked = []
    for place in places:
        turns[place.seed] = turns.get(place.seed, 0) + 1
        ranked.append((turns[place.seed], place))
    return [place for _, place in sorted(ranked, key=lambda item: item[0])[:count]]


def _places(operator: Operator) -> Iterator[Specimen]:
    for seed in seeds():
        for number, _ in enumerate(operator.sites(seed.text, seed.spec)):
            yield Specimen(seed.seed, operator.name, number)


def _distinct(specimens: Iterable[Specimen]) -> Iterator[Specimen]:
    """Without texts that were there before."""
    seen = set()
    for specimen in specimens:
        if specimen.sha256 not in seen:
            seen.add(specimen.sha256)
            yield specimen


def _hash(*parts: str) -> str:
    return hashlib.sha256(":".join(parts).encode()).hexdigest()
