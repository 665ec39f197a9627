"""The results of a run, computed from its log: candidates, elites of each island, champions of each configuration.

An island keeps the best candidate of each cell of cheap kernel descriptors, and for every configuration the fastest
candidate of all is a champion, so that a specialist for one shape survives. The outcome does not depend on the order in
which candidates of one generation are judged. Not covered: who becomes a parent (`selection.py`).
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.harness import what_counts

from .budget import Cost
from .events import LogEvent
from .model import ArchiveView, CandidateView, JudgeResult, NoProposal, Proposal, Reason, VerifierOpinion, leading

_SHARED = re.compile(r"\b__shared__\b")
_KERNELS = re.compile(r"<<<|\bcuLaunchKernel\b|\bparallel_for\b|#\s*pragma\s+omp\s+parallel|\[\s*grid\w*\s*\]\s*\(")
_VECTORS = re.compile(r"\bfloat4\b|\bvector_size\b|\b_mm(?:256|512)_|\bVectorized\b|\bint4\b")
_CALLED = re.compile(r"\b(?:at|torch)::(\w++)\s*+\(")
_LIBRARY = re.compile(r"linear|mm|matmul|conv|pool|norm|softmax|cross_entropy")
_CUBLAS = re.compile(r"\bcublas")


def cell_of(proposal: Proposal) -> tuple[str, ...]:
    """What kind of kernel it is, from its text alone: template, launches, shared memory, vectors, library calls."""
    text = proposal.source
    launches = len(_KERNELS.findall(text))
    return (
        proposal.template or "text",
        f"{min(launches, 3)} launches",
        "shared" if _SHARED.search(text) else "no shared",
        "vectors" if _VECTORS.search(text) else "scalars",
        "library" if _calls_library(text) else "own",
    )


def _calls_library(text: str) -> bool:
    """Names first, then what they hold: together they are no linear regular expression."""
    return any(_LIBRARY.search(found[1]) for found in _CALLED.finditer(text)) or bool(_CUBLAS.search(text))


@dataclass
class Archive:
    """Fold events into it with `apply`; look at it with `view`."""

    load: Callable[[str], str] = field(repr=False)
    candidates: dict[str, CandidateView] = field(default_factory=dict)
    islands: list[dict[tuple[str, ...], str]] = field(default_factory=list)
    champions: dict[str, str] = field(default_factory=dict)
    children: dict[str, int] = field(default_factory=dict)
    best: str | None = None
    gained_in: list[int] = field(default_factory=list)  # the generation in which each island last got better

    def apply(self, event: LogEvent) -> None:
        handler = _HANDLERS.get(event.type)
        if handler is not None:
            handler(self, event)

    def view(self, seq: int) -> ArchiveView:
        """As it is now; `seq` names the moment."""
        return ArchiveView(
            seq=seq,
            candidates=dict(self.candidates),
            islands=tuple(tuple(self._fast_first(cells)) for cells in self.islands),
            champions=dict(sorted(self.champions.items())),
            children=dict(self.children),
            load=self.load,
        )

    def sha256(self) -> str:
        """Equal for runs that found the same, however long anything took and whenever it came in."""
        content = {
            "candidates": {name: _essence(item) for name, item in self.candidates.items()},
            "islands": [[[list(cell), name] for cell, name in sorted(cells.items())] for cells in self.islands],
            "champions": self.champions,
            "children": self.children,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def copy(self) -> "Archive":
        return replace(
            self,
            candidates=dict(self.candidates),
            islands=[dict(cells) for cells in self.islands],
            champions=dict(self.champions),
            children=dict(self.children),
            gained_in=list(self.gained_in),
        )

    def holds(self, name: str) -> list[str]:
        """The places that a candidate has: `best`, `elite`, `champion`."""
        return [
            *(["best"] if name == self.best else []),
            *(["elite"] if any(name in cells.values() for cells in self.islands) else []),
            *(["champion"] if name in self.champions.values() else []),
        ]

    def members(self) -> set[str]:
        return {*self.champions.values(), *(name for cells in self.islands for name in cells.values())}

    def _fast_first(self, cells: Mapping[tuple[str, ...], str]) -> list[str]:
        return sorted(cells.values(), key=lambda name: _rank(self.candidates[name]), reverse=True)

    def _change(self, candidate: str, /, **values: Any) -> CandidateView:
        self.candidates[candidate] = replace(self.candidates[candidate], **values)
        return self.candidates[candidate]

    def _settle(self, candidate: CandidateView, island: int) -> None:
        """Gives the candidate its cell of the island if it is better than who has it."""
        cells = self.islands[island]
        holder = cells.get(candidate.cell)
        before = max((_rank(self.candidates[name]) for name in cells.values()), default=None)
        if holder is None or _rank(candidate) > _rank(self.candidates[holder]):
            cells[candidate.cell] = candidate.id
        if before is None or _rank(candidate)[0] > before[0]:
            self.gained_in[island] = max(self.gained_in[island], candidate.generation)

    def _crown(self, candidate: CandidateView) -> None:
        for key, speedup in speedups(candidate).items():
            holder = self.champions.get(key)
            if holder is None or (speedup, _age(candidate)) > self._crowned(holder, key):
                self.champions[key] = candidate.id

    def _crowned(self, name: str, key: str) -> tuple[float, tuple[int, int]]:
        holder = self.candidates[name]
        return speedups(holder)[key], _age(holder)


def speedups(candidate: CandidateView) -> dict[str, float]:
    """What counts of each timed configuration: of a bound the lower end of its interval."""
    result = candidate.result
    if result is None or not result.correct:
        return {}
    trust = result.timing_trust or ""
    timed = [item for item in result.configs if item.get("speedup") is not None]
    ends = [item["ci95"][0] if item.get("ci95") else item["speedup"] for item in timed]
    return {item["key"]: what_counts(item["speedup"], lo, trust) for item, lo in zip(timed, ends, strict=True)}


def opinion_from_json(data: Mapping[str, Any]) -> VerifierOpinion:
    return VerifierOpinion(
        decision=data["decision"],
        reasons=tuple(Reason(**item) for item in data.get("reasons", ())),
        fault=data.get("fault"),
        probability=data.get("probability"),
        seconds=data.get("seconds", 0.0),
        cost=Cost.from_json(data.get("cost", {})),
        resources=data.get("resources"),
    )


def result_from_json(data: Mapping[str, Any]) -> JudgeResult:
    ci95 = data.get("ci95")
    return JudgeResult(**{**data, "ci95": tuple(ci95) if ci95 else None, "configs": tuple(data.get("configs", ()))})


def _age(candidate: CandidateView) -> tuple[int, int]:
    """Greater for the earlier one, which wins among equals."""
    return -candidate.generation, -candidate.slot


def _rank(candidate: CandidateView) -> tuple[float, tuple[int, int]]:
    return -math.inf if candidate.counts is None else candidate.counts, _age(candidate)


def _essence(candidate: CandidateView) -> list[Any]:
    refusal = candidate.refusal.reason if candidate.refusal is not None else None
    result = candidate.result
    verdict = None if result is None else [result.verdict, result.score]
    return [candidate.state, candidate.source_sha256, sorted(candidate.parents), refusal, verdict]


def _created(archive: Archive, event: LogEvent) -> None:
    count = event.payload["config"].get("islands", 1)
    archive.islands = [{} for _ in range(count)]
    archive.gained_in = [0] * count


def _requested(archive: Archive, event: LogEvent) -> None:
    name, data = str(event.candidate), event.payload
    archive.candidates[name] = CandidateView(
        id=name,
        generation=data["generation"],
        slot=data["slot"],
        island=data["island"],
        stage=data["stage"],
        parents=tuple(data["parents"]),
    )


def _received(archive: Archive, event: LogEvent) -> None:
    data = event.payload
    archive._change(
        str(event.candidate),
        state="proposed",
        source_sha256=data["source_sha256"],
        language=data["language"],
        name=data["name"],
        thought=data["thought"],
        params=data["params"],
        template=data["template"],
        parents=tuple(data["parents"]),
        operator=data["operator"],
        arm=data["arm"],
        cell=tuple(data["cell"]),
    )
    for parent in data["parents"]:
        archive.children[parent] = archive.children.get(parent, 0) + 1


def _rejected(archive: Archive, event: LogEvent) -> None:
    data = event.payload
    refusal = NoProposal(data["reason"], data["text"], data.get("pause", False), data.get("exhausted", False))
    archive._change(str(event.candidate), state="refused", refusal=refusal)


def _verdict(archive: Archive, event: LogEvent) -> None:
    candidate = archive.candidates[str(event.candidate)]
    opinion = opinion_from_json(event.payload)
    dropped = opinion.decision == "reject" and not event.payload.get("audit", False)
    state = "dropped" if dropped else "verified"
    archive._change(candidate.id, opinions={**candidate.opinions, event.payload["verifier"]: opinion}, state=state)


def _submitted(archive: Archive, event: LogEvent) -> None:
    archive._change(str(event.candidate), state="judging", ticket=event.payload["ticket"])


def _finished(archive: Archive, event: LogEvent) -> None:
    result = result_from_json(event.payload["result"])
    twin = event.payload.get("reused_from")
    candidate = archive._change(str(event.candidate), state="judged", result=result, reused_from=twin)
    if candidate.correct:
        archive._settle(candidate, candidate.island)
        archive._crown(candidate)
        if archive.best is None or _rank(candidate) > _rank(archive.candidates[archive.best]):
            archive.best = candidate.id


def _confirmed(archive: Archive, event: LogEvent) -> None:
    candidate = archive.candidates[str(event.candidate)]
    result = result_from_json(event.payload["result"])
    archive._change(candidate.id, confirmations=(*candidate.confirmations, result))
    best = leading(archive.candidates.values())
    archive.best = best.id if best is not None else None


def _migrated(archive: Archive, event: LogEvent) -> None:
    island = event.payload["to_island"]
    archive._settle(archive.candidates[str(event.candidate)], island)
    archive.gained_in[island] = event.payload["generation"]


def _settled(archive: Archive, event: LogEvent) -> None:
    if event.candidate is not None:
        candidate = archive.candidates[event.candidate]
        archive._change(candidate.id, cost=candidate.cost + Cost.from_json(event.payload["cost"]))


_HANDLERS: Mapping[str, Callable[[Archive, LogEvent], None]] = {
    "run.created": _created,
    "proposal.requested": _requested,
    "proposal.received": _received,
    "proposal.rejected": _rejected,
    "verdict": _verdict,
    "evaluation.submitted": _submitted,
    "evaluation.finished": _finished,
    "confirmation.finished": _confirmed,
    "migration": _migrated,
    "budget.settled": _settled,
}
