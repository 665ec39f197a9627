"""Recorded sweeps: every setting of a space measured once, so that searches can be compared without measuring again.

A recording is a JSON file: `genes` as in `templates/base.py`, `configs`, and `rows` of [values of the genes,
microseconds per configuration, speedups per configuration over the reference measured just before]; null where a
setting failed. Not covered: how one is made (`lab/sweeps/record.py`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from ..templates.base import Constraint, Gene, Genome, Space, Value

Key = tuple[Value, ...]


@dataclass(frozen=True)
class Recording:
    """A space and the fitness of each of its settings: the geometric mean of its speedups, None where it failed."""

    name: str
    task: str
    space: Space
    fitnesses: Mapping[Key, float | None]

    @cached_property
    def best(self) -> float:
        return max(value for value in self.fitnesses.values() if value is not None)

    def fitness(self, genome: Genome) -> float | None:
        return self.fitnesses[self.space.key(genome)]


def load_recording(path: Path) -> Recording:
    data = json.loads(path.read_text())
    fitnesses = {
        tuple(values): geometric_mean(speedups) if speedups else None for values, _times_us, speedups in data["rows"]
    }
    genes = tuple(_gene(item) for item in data["genes"])
    names = [gene.name for gene in genes]
    recorded = Constraint("was not recorded", lambda genome: tuple(genome[name] for name in names) in fitnesses)
    return Recording(data["space"], data["task"], Space(genes, (recorded,)), fitnesses)


def gene_record(gene: Gene) -> dict[str, Any]:
    """A gene as it stands in a recording."""
    return {
        "name": gene.name,
        "values": list(gene.values),
        "ordinal": gene.ordinal,
        "structural": gene.structural,
        "only": [gene.only[0], list(gene.only[1])] if gene.only else None,
    }


def _gene(item: Mapping[str, Any]) -> Gene:
    only = (item["only"][0], tuple(item["only"][1])) if item["only"] else None
    return Gene(item["name"], tuple(item["values"]), "", item["ordinal"], item["structural"], only)
