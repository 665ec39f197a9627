"""What the log of a search says about its speed: the best score against time, candidates per minute, seconds by stage.

Used by `searches.py`. A candidate counts when it is decided: judged, dropped by a verifier, or taken from an earlier
one with the same binary. Not covered: running searches and judging their winners.
"""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.evolve.events import LogEvent

_MARKS_S = (30, 60, 90, 120, 180, 240, 300, 420, 600)
_T975 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)  # Student's, by degrees of freedom from 1 on


def account(events: Sequence[LogEvent]) -> dict[str, Any]:
    """Everything that `searches.py` keeps of a run beside its log."""
    began_s = next((event.at_s for event in events if event.type == "run.started"), events[0].at_s)
    told = Counter[str]()
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    curve: list[list[Any]] = []
    decided: list[float] = []
    best = 0.0
    for event in events:
        at_s, payload = round(event.at_s - began_s, 2), event.payload
        if event.type == "proposal.received":
            told["proposed"] += 1
        elif event.type == "proposal.rejected":
            told[f"refused: {payload['reason']}"] += 1
        elif event.type == "verdict":
            verifier, dropped = str(payload["verifier"]), payload["decision"] == "reject"
            told[f"{verifier}: {payload['decision']}"] += 1
            seconds[verifier].append(float(payload["seconds"]))
            if dropped and not payload["audit"]:
                decided.append(at_s)
        elif event.type == "evaluation.finished":
            result = payload["result"]
            decided.append(at_s)
            told["reused" if payload["reused_from"] else f"judged: {result['verdict']}"] += 1
            if not payload["reused_from"]:
                seconds["judge"].append(float(result["seconds"]))
            score = result["score"] or 0.0
            if score > best:
                best = score
                curve.append([at_s, round(score, 4), event.candidate, len(decided)])
    ran_s = round(events[-1].at_s - began_s, 1)
    return {
        "ran_s": ran_s,
        "told": dict(told),
        "decided": len(decided),
        "decided_per_minute": per_minute(decided, ran_s),
        "decided_after_first_minute": per_minute([at for at in decided if at > 60], ran_s - 60),
        "seconds": {name: _spread(values) for name, values in seconds.items()},
        "curve": curve,
        "at": {str(mark): best_at(curve, mark) for mark in _MARKS_S if mark <= ran_s},
        "best": round(best, 4),
    }


def per_minute(decided: Sequence[float], during_s: float) -> float | None:
    return round(60 * len(decided) / during_s, 1) if during_s > 0 else None


def best_at(curve: Iterable[Sequence[Any]], at_s: float) -> float | None:
    """The best score by then; None before the first."""
    found = [row[1] for row in curve if row[0] <= at_s]
    return found[-1] if found else None


@dataclass(frozen=True)
class JudgedCandidate:
    """An accepted candidate, by one judging."""

    candidate: str
    source_sha256: str
    score: float


def contenders_of(events: Sequence[LogEvent], most: int) -> list[JudgedCandidate]:
    """The best accepted candidates, the best first. The first one's score owes something to chance."""
    sources = {event.candidate: event.payload for event in events if event.type == "proposal.received"}
    judged = [event for event in events if event.type == "evaluation.finished" and event.payload["result"]["score"]]
    found = [
        JudgedCandidate(
            str(event.candidate),
            str(sources[event.candidate]["source_sha256"]),
            float(event.payload["result"]["score"]),
        )
        for event in judged
    ]
    return sorted(found, key=lambda item: -item.score)[:most]


def compared(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, Any] | None:
    """How much faster `ours` is, judged by turns with `theirs`: ratio and 95 % interval over the pairs.

    None where nothing was judged twice.
    """
    logs = [math.log(one / other) for one, other in zip(ours, theirs, strict=False)]
    if len(logs) < 2:
        return None
    middle = statistics.fmean(logs)
    half = _T975[min(len(logs) - 2, len(_T975) - 1)] * statistics.stdev(logs) / math.sqrt(len(logs))
    low, high = math.exp(middle - half), math.exp(middle + half)
    said = "faster" if low > 1 else "slower" if high < 1 else "undecided"
    return {
        "pairs": len(logs),
        "ratio": round(math.exp(middle), 4),
        "ci95": [round(low, 4), round(high, 4)],
        "is": said,
    }


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """One line for each run, for people."""
    lines = ["| task | levers | seconds | decided | a minute | judged | best | at 60 s | at 120 s | look | judging |"]
    lines.append("|" + "---|" * 11)
    for item in records:
        judged = sum(count for name, count in item["told"].items() if name.startswith("judged"))
        look, judging = (item["seconds"].get(name, {}).get("median", "–") for name in ("screen", "judge"))
        cells = [item["task"], item["lever"], item["ran_s"], item["decided"], item["decided_per_minute"], judged]
        cells += [item["best"], item["at"].get("60", "–"), item["at"].get("120", "–"), look, judging]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {
        "count": len(values),
        "median": round(statistics.median(values), 2),
        "most": round(max(values), 2),
        "sum": round(sum(values), 1),
    }
