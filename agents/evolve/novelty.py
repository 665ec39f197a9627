"""Whether a source was proposed before: the same text, nearly the same tokens, or (after compiling) the same binary.

Comments and spaces do not count. Tokens are compared by bottom-k MinHash over runs of five, and only with texts that
contain the same numbers and were accepted, because a changed constant or a one-token repair makes a different kernel.
Candidates from templates are told apart by their text alone. Not covered: code that is equal for deeper reasons.
"""

import hashlib
import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from benchmarks.harness import is_python

from .model import CandidateView, NoProposal

NEAR = 0.95
_TOKENS = re.compile(
    r'//[^\n]*|/\*.*?(?:\*/|\Z)|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?|\'[^\'\\\n]*+(?:\\.[^\'\\\n]*+)*+\'?'
    r"|[A-Za-z_]\w*|\.?\d(?:[eE][+-]|[\w.])*+|\n|\S",
    re.DOTALL,
)
_PYTHON_TOKENS = re.compile(r"#[^\n]*|'''.*?(?:'''|\Z)|\"\"\".*?(?:\"\"\"|\Z)|\w+|\n[ \t]*|\S", re.DOTALL)
_NUMBER = re.compile(r"\.?\d")
_RUN = 5
_SKETCH = 256


@dataclass(frozen=True)
class Fingerprint:
    """What a text is, less its comments and its layout. `sketch`: the smallest hashes of its runs of tokens."""

    sha256: str
    numbers: Counter[str]
    sketch: frozenset[int]

    def likeness(self, other: "Fingerprint") -> float:
        """An estimate of the Jaccard index of the runs of both."""
        union = heapq.nsmallest(_SKETCH, self.sketch | other.sketch)
        both = self.sketch & other.sketch
        return sum(value in both for value in union) / len(union) if union else 1.0

    def near(self, other: "Fingerprint") -> bool:
        return self.numbers == other.numbers and self.likeness(other) >= NEAR


def fingerprint(text: str, language: str) -> Fingerprint:
    tokens = tuple(_python(text) if is_python(language) else _c(text))
    return Fingerprint(
        sha256=hashlib.sha256("\0".join(tokens).encode()).hexdigest(),
        numbers=Counter(token for token in tokens if _NUMBER.match(token)),
        sketch=frozenset(heapq.nsmallest(_SKETCH, {_hash(run) for run in _runs(tokens)})),
    )


@dataclass
class Novelty:
    """Compares candidates; keeps fingerprints of texts, which `load` gives by their sha256."""

    load: Callable[[str], str]
    _known: dict[str, Fingerprint] = field(default_factory=dict)

    def duplicate(self, candidate: CandidateView, earlier: Iterable[CandidateView]) -> NoProposal | None:
        """Why the candidate was seen before, if it was. What the judge failed on may come again."""
        for other in earlier:
            if other.source_sha256 is None or (other.result is not None and other.result.ours):
                continue
            if other.source_sha256 == candidate.source_sha256:
                return NoProposal("duplicate", f"the same text as {other.id}")
            if candidate.params is None and other.params is None and self._alike(candidate, other):
                return NoProposal("duplicate", f"nearly the same code as {other.id}")
        return None

    def _alike(self, candidate: CandidateView, other: CandidateView) -> bool:
        mine, theirs = self._of(candidate), self._of(other)
        return mine.sha256 == theirs.sha256 or (other.correct and mine.near(theirs))

    def _of(self, candidate: CandidateView) -> Fingerprint:
        sha256 = candidate.source_sha256 or ""
        if sha256 not in self._known:
            self._known[sha256] = fingerprint(self.load(sha256), candidate.language)
        return self._known[sha256]


def binary_of(candidate: CandidateView) -> str | None:
    """The hash of what it compiles to, if a verifier or the judge told."""
    told = [opinion.resources for opinion in candidate.opinions.values()]
    told.append(candidate.result.resources if candidate.result is not None else None)
    hashes = [item["binary_sha256"] for item in told if item and item.get("binary_sha256")]
    return str(hashes[0]) if hashes else None


def twin(candidate: CandidateView, earlier: Iterable[CandidateView]) -> CandidateView | None:
    """The first one that compiled to the same binary and is judged, or being judged."""
    binary = binary_of(candidate)
    if binary is None:
        return None
    return next((item for item in earlier if item.state in ("judging", "judged") and binary_of(item) == binary), None)


def _c(text: str) -> Iterator[str]:
    """The end of a line counts where it ends a directive."""
    directive = False
    for match in _TOKENS.finditer(text.replace("\\\n", " ")):
        piece = match[0]
        if piece == "\n":
            if directive:
                yield piece
            directive = False
        elif not piece.startswith(("//", "/*")):
            directive = directive or piece == "#"
            yield piece


def _python(text: str) -> Iterator[str]:
    """Indentation counts, empty lines do not."""
    pending = ""
    for match in _PYTHON_TOKENS.finditer(text):
        piece = match[0]
        if piece.startswith("\n"):
            pending = piece
        elif not piece.startswith("#"):
            if pending:
                yield pending
            pending = ""
            yield piece


def _runs(tokens: tuple[str, ...]) -> Iterator[str]:
    for start in range(max(1, len(tokens) - _RUN + 1)):
        yield "\0".join(tokens[start : start + _RUN])


def _hash(run: str) -> int:
    return int.from_bytes(hashlib.blake2b(run.encode(), digest_size=8).digest(), "big")
