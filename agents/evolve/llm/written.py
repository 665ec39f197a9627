"""A template written by a model: a source that begins with comment lines which declare its genes.

A rendered source keeps those lines, so the template can be restored from any of its kernels and is stored nowhere
else. Not covered: whether every combination compiles; the judge finds out.
"""

import hashlib
import math
import re
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import TaskSpec

from ..templates.base import Gene, Genome, Space, Template, Value

GENES_MAX = 10
VALUES_MAX = 12
SETTINGS_MAX = 5_000
BEGIN = "// --- genes of this kernel ---"
END = "// --- end of genes ---"

_LINE = re.compile(r"^//\s*(TEMPLATE|GENE|NAIVE|DEFAULT)\b:?\s*(.*)$")
_GENE = re.compile(r"^([A-Z][A-Z0-9_]{0,39})\s*:\s*(.+)$")
_NUMBER = re.compile(r"^-?\d{1,9}$")
_WORD = re.compile(r"^[a-z][a-z0-9_]{0,39}$")
_BLOCK = re.compile(
    rf"^{re.escape(BEGIN)}\n(?:(?!{re.escape(BEGIN)}|{re.escape(END)})[^\n]*+\n)*{re.escape(END)}\n", re.MULTILINE
)


class WrittenError(Exception):
    """Why a text is no template; a sentence for the person."""


@dataclass(frozen=True)
class WrittenTemplate(Template):
    """`head` declares the genes, `body` uses them."""

    head: str = ""
    body: str = ""

    def render(self, genome: Genome, task: TaskSpec) -> str:
        return f"{self.head}{BEGIN}\n{self._defines(genome, {})}{END}\n{self.body}"


def read_template(source: str, language: str, task: TaskSpec) -> WrittenTemplate:
    """The template of an answer or of a rendered kernel. Raises WrittenError."""
    head, body = _split(_BLOCK.sub("", source))
    lines = [match.groups() for match in map(_LINE.match, head.splitlines()) if match]
    genes = tuple(_gene(text) for word, text in lines if word == "GENE")
    _check(genes, body)
    space = Space(genes)
    sha256 = hashlib.sha256(f"{head}{body}".encode(errors="replace")).hexdigest()
    return WrittenTemplate(
        name=f"written {sha256[:12]}",
        language=language,
        summary=_one(lines, "TEMPLATE")[:80],
        path=Path(),
        tasks={task.name: {}},
        space=space,
        naive=_genome(_one(lines, "NAIVE"), space),
        default=_genome(_one(lines, "DEFAULT"), space),
        head=head,
        body=body,
    )


def _split(source: str) -> tuple[str, str]:
    """The comment lines of declarations at the top, and the rest."""
    lines = source.lstrip("\n").splitlines(keepends=True)
    count = next((place for place, line in enumerate(lines) if not _LINE.match(line.rstrip())), len(lines))
    if count == 0:
        raise WrittenError("the code does not begin with the lines // TEMPLATE, // GENE, // NAIVE, // DEFAULT")
    return "".join(lines[:count]), "".join(lines[count:])


def _one(lines: list[tuple[str, ...]], word: str) -> str:
    found = [text.strip() for key, text in lines if key == word]
    if len(found) != 1 or not found[0]:
        raise WrittenError(f"there must be one line // {word} with something on it")
    return found[0]


def _gene(text: str) -> Gene:
    match = _GENE.match(text.strip())
    if match is None:
        raise WrittenError(f"a gene is written as NAME: value value, not {text[:60]!r}")
    texts = match[2].replace(",", " ").split()
    numbers = all(_NUMBER.match(item) for item in texts)
    if not numbers and not all(_WORD.match(item) for item in texts):
        raise WrittenError(f"the values of {match[1]} are neither all whole numbers nor all words in small letters")
    values: tuple[Value, ...] = tuple(int(item) for item in texts) if numbers else tuple(texts)
    if not 2 <= len(values) <= VALUES_MAX or len(set(values)) < len(values):
        raise WrittenError(f"{match[1]} needs 2 to {VALUES_MAX} different values")
    return Gene(match[1], values, ordinal=numbers, structural=not numbers)


def _check(genes: tuple[Gene, ...], body: str) -> None:
    names = [gene.name for gene in genes]
    if not 1 <= len(names) <= GENES_MAX or len(set(names)) < len(names):
        raise WrittenError(f"a template has 1 to {GENES_MAX} genes with different names")
    size = math.prod(len(gene.values) for gene in genes)
    if size > SETTINGS_MAX:
        raise WrittenError(f"the genes have {size} settings together, more than {SETTINGS_MAX}")
    unused = [name for name in names if not re.search(rf"\b{name}\b", body)]
    if unused:
        raise WrittenError(f"the source does not use {', '.join(unused)}")


def _genome(text: str, space: Space) -> Genome:
    pairs = dict(item.split("=", 1) for item in text.replace(",", " ").split() if "=" in item)
    genome: dict[str, Value] = {name: int(item) if _NUMBER.match(item) else item for name, item in pairs.items()}
    faults = space.faults(genome)
    if faults:
        raise WrittenError(f"{text[:80]!r} is not a setting: {faults[0]}")
    return {name: genome[name] for name in space.names}
