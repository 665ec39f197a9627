"""A template: the text of a kernel with named choices (genes), their space, and the rendering of one setting.

A template serves tasks that share an implementation. Its text uses its genes as macros; rendering writes their values
as `#define` lines at the top, so a rendered source is complete. Not covered: which template serves a task
(`templates/__init__.py`) and how a space is searched (`search/`).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from benchmarks.harness import TaskSpec

Value = int | str
Genome = Mapping[str, Value]

_GENES = re.compile(r"^.*@genes@.*\n", re.MULTILINE)
_INCLUDE = re.compile(r"^[^@\n]*@include ([^\s@]+)@[^\n]*\n", re.MULTILINE)


@dataclass(frozen=True)
class Gene:
    """One choice. `values` go from small to large where `ordinal`; `structural` genes select a way through the code.

    Where `only` names another gene and some of its values, this gene matters only there; elsewhere it is idle and
    rests at its first value, so that no two genomes of a space mean the same kernel.
    """

    name: str
    values: tuple[Value, ...]
    note: str = ""
    ordinal: bool = True
    structural: bool = False
    only: tuple[str, tuple[Value, ...]] | None = None

    def idle(self, genome: Genome) -> bool:
        return self.only is not None and genome[self.only[0]] not in self.only[1]


@dataclass(frozen=True)
class Constraint:
    """A rule that every genome has to keep, with the words for one that does not."""

    text: str
    holds: Callable[[Genome], bool]


@dataclass(frozen=True)
class Space:
    """All genomes of a template. A gene stands behind the one that it names in `only`."""

    genes: tuple[Gene, ...]
    constraints: tuple[Constraint, ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(gene.name for gene in self.genes)

    def key(self, genome: Genome) -> tuple[Value, ...]:
        """The identity of a genome: its values in the order of the genes."""
        return tuple(genome[name] for name in self.names)

    def settled(self, genome: Genome) -> Genome:
        """The same choice with idle genes at rest."""
        result: dict[str, Value] = {}
        for gene in self.genes:
            result[gene.name] = gene.values[0] if gene.idle({**genome, **result}) else genome[gene.name]
        return result

    def faults(self, genome: Genome) -> list[str]:
        """What is wrong with a genome, in words; empty for a valid one."""
        if set(genome) != set(self.names):
            return [f"the genes are {', '.join(self.names)}"]
        strange = [gene.name for gene in self.genes if genome[gene.name] not in gene.values]
        if strange:
            return [f"{name} has no value {genome[name]}" for name in strange]
        idle = [gene for gene in self.genes if gene.idle(genome) and genome[gene.name] != gene.values[0]]
        return [f"{gene.name} is idle here and rests at {gene.values[0]}" for gene in idle] + [
            rule.text for rule in self.constraints if not rule.holds(genome)
        ]

    def valid(self, genome: Genome) -> bool:
        return not self.faults(genome)

    @cached_property
    def genomes(self) -> tuple[Genome, ...]:
        """Every valid genome, in a fixed order."""
        return tuple(genome for genome in self._extensions({}) if all(rule.holds(genome) for rule in self.constraints))

    @property
    def size(self) -> int:
        return len(self.genomes)

    def _extensions(self, start: Genome) -> Iterator[Genome]:
        """Every settled genome that begins with the genes of `start`."""
        if len(start) == len(self.genes):
            yield start
            return
        gene = self.genes[len(start)]
        for value in gene.values[:1] if gene.idle(start) else gene.values:
            yield from self._extensions({**start, gene.name: value})


@dataclass(frozen=True)
class Template:
    """A kernel's text and its space. `naive` is the plain correct kernel, `default` the best guess beforehand.

    `tasks` maps the name of each task served, `OP/DIRECTION`, to macros that are fixed there.
    `library` says which part of the work is left to a library; None where all of it is our own.
    """

    name: str
    language: str
    summary: str
    path: Path
    tasks: Mapping[str, Mapping[str, int]]
    space: Space
    naive: Genome
    default: Genome
    library: Callable[[Genome], str | None] = field(default=lambda _genome: None)

    def render(self, genome: Genome, task: TaskSpec) -> str:
        """The source for one genome. The genome must be valid and the task one of those served."""
        text = self.path.read_text()
        while match := _INCLUDE.search(text):
            text = text[: match.start()] + (self.path.parent / match[1]).read_text() + text[match.end() :]
        return _GENES.sub(lambda _match: self._defines(genome, self.tasks[task.name]), text)

    def _defines(self, genome: Genome, fixed: Mapping[str, int]) -> str:
        lines = [line for gene in self.space.genes for line in _define(gene, genome[gene.name])]
        return "".join(f"{line}\n" for line in [*lines, *(f"#define {name} {value}" for name, value in fixed.items())])


def describe(genome: Genome) -> str:
    """A genome in one line."""
    return ", ".join(f"{name} {value}" for name, value in genome.items())


def difference(old: Genome, new: Genome) -> str:
    """What changed between two genomes of a space, in one line."""
    return ", ".join(f"{name} {old[name]} → {value}" for name, value in new.items() if old[name] != value)


def _define(gene: Gene, value: Value) -> Iterator[str]:
    """A number is itself; a word is one of the macros `GENE_WORD`, which number the words."""
    words = [word for word in gene.values if isinstance(word, str)]
    yield from (f"#define {gene.name}_{word.upper()} {number}" for number, word in enumerate(words))
    text = f"{gene.name}_{value.upper()}" if isinstance(value, str) else str(value)
    note = f"  // {gene.note}" if gene.note else ""
    yield f"#define {gene.name} {text}{note}"
