"""A world for runs without compilers: kernels whose text says how good they are, and plug-ins that obey a script.

Everything follows from the request, so that a run that is killed and resumed meets the same world.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

from agents.evolve.budget import Cost
from agents.evolve.config import RunConfig
from agents.evolve.events import Draft, EventLog, Live, LogEvent, Quiet
from agents.evolve.logs import MemoryLog
from agents.evolve.loop import RunOutcome, create, drive
from agents.evolve.model import JudgeResult, Meter, NoProposal, Proposal, ProposalRequest, Verifier, VerifierOpinion
from agents.evolve.rng import Rng
from agents.evolve.verifiers.screen import opinion_of
from benchmarks.harness import TaskSpec, default_suites, find_task

TASK = find_task(default_suites(), "mnist_linear_relu/forward")
CONFIGS = tuple(item.key for item in TASK.configs_for("cpu") if not item.hidden)[:3]


def kernel(*values: int, broken: bool = False) -> str:
    """A text that the static check lets pass. Its score follows from `values`."""
    genes = ",".join(map(str, values))
    state = "broken" if broken else "fine"
    module = 'PYBIND11_MODULE(k, m) { m.def("forward", f); }'
    return f'const char *state = "{state}";\nint genes[] = {{{genes}}};\n{module}\n'


def values_of(source: str) -> list[int]:
    return [int(item) for item in re.search(r"\{([\d,]*)\};", source)[1].split(",") if item]  # type: ignore[index]


def truth(source: str, seconds: float = 1.0) -> JudgeResult:
    """What the judge of this world finds: each configuration likes another gene to be near 50."""
    values = values_of(source)
    if "broken" in source:
        return JudgeResult("INCORRECT_VALUE", "it is broken", seconds=seconds)
    speedups = [2.0 / (1 + abs(value - 50) / 25) for value in values]
    configs = [
        {"key": key, "group": "multi", "speedup": speedup, "roofline_fraction": speedup / 2}
        for key, speedup in zip(CONFIGS, speedups, strict=True)
    ]
    score = (speedups[0] * speedups[1] * speedups[2]) ** (1 / 3)
    return JudgeResult(
        "PASS", "fine", score, (score * 0.99, score * 1.01), score, score, tuple(configs), seconds=seconds
    )


class Scripted:
    """Changes one gene of the fastest parent; now and then it is broken, repeats itself or says nothing useful."""

    name = "scripted"
    needs_key = False

    def __init__(self, price: Cost = Cost(), pause_s: float = 0.0) -> None:  # noqa: B008 - frozen
        self.price, self.pause_s, self.asked = price, pause_s, []  # type: ignore[var-annotated]

    def bound(self, request: ProposalRequest) -> Cost:
        return self.price

    async def propose(self, request: ProposalRequest, meter: Meter, live: Live) -> Proposal | NoProposal:
        self.asked.append(request.candidate)
        await asyncio.sleep(self.pause_s * request.rng.child("pause").random())
        return self.answer(request)

    def answer(self, request: ProposalRequest) -> Proposal | NoProposal:
        rng, parents = request.rng, request.parents
        if request.stage == "translate":
            return self._proposal(kernel(5, 5, 5, broken=request.generation == 0), "translate")
        if rng.random() < 0.05:
            return NoProposal("unparsable", "only prose")
        values = values_of(request.view.source(parents[-1]))
        if rng.random() < 0.9:
            place = rng.integers(3)
            values[place] = max(0, min(100, values[place] + rng.integers(41) - 20))
        return self._proposal(kernel(*values, broken=rng.random() < 0.1), "step", parents[-1].id)

    @staticmethod
    def _proposal(source: str, operator: str, *parents: str) -> Proposal:
        genes = {f"g{place}": value for place, value in enumerate(values_of(source))}
        return Proposal(source, "cpp", params=genes, template="genes", parents=parents, operator=operator)


class Steady(Scripted):
    """Every candidate is new and fine."""

    def answer(self, request: ProposalRequest) -> Proposal | NoProposal:
        return Proposal(kernel(request.generation, request.slot, 40), "cpp", params={})


class Judge:
    """An evaluator that remembers by key what it judged, in a file if it gets one, and counts every judging."""

    def __init__(self, file: Path | None = None, pause_s: float = 0.0, seconds: float = 1.0) -> None:
        self.file, self.pause_s, self.seconds = file, pause_s, seconds
        self.sources: dict[str, str] = {}
        self.judged: dict[str, int] = {}
        self.withdrawn: list[str] = []
        if file is not None and file.exists():
            for line in file.read_text().splitlines():
                entry = json.loads(line)
                self.sources[entry["key"]] = entry["source"]
                self.judged[entry["key"]] = self.judged.get(entry["key"], 0) + entry["judged"]

    async def submit(self, candidate_key: str, source: str, language: str) -> str:
        await asyncio.sleep(0)
        if candidate_key not in self.sources:
            self.sources[candidate_key] = source
            self._keep(candidate_key, judged=0)
        return f"ticket {candidate_key}"

    async def again(self, ticket: str, number: int, source: str, language: str) -> str:
        return await self.submit(f"{ticket.removeprefix('ticket ')} again {number}", source, language)

    async def wait(self, ticket: str, live: Live) -> JudgeResult:
        key = ticket.removeprefix("ticket ")
        await asyncio.sleep(self.pause_s * Rng(1, self.sources[key]).random())
        if key not in self.judged or not self.judged[key]:
            self.judged[key] = 1
            self._keep(key, judged=1)
        return truth(self.sources[key], self.seconds)

    async def withdraw(self, ticket: str) -> None:
        self.withdrawn.append(ticket)

    def _keep(self, key: str, judged: int) -> None:
        if self.file is not None:
            with self.file.open("a") as file:
                file.write(json.dumps({"key": key, "source": self.sources[key], "judged": judged}) + "\n")


class Recorded(MemoryLog):
    """Knows where its commits end."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[int] = []

    def append(self, drafts: Sequence[Draft]) -> list[LogEvent]:
        events = super().append(drafts)
        self.ends.append(events[-1].seq)
        return events

    def until(self, end: int) -> MemoryLog:
        log = MemoryLog()
        log._events, log._sources = self.read()[:end], dict(self._sources)
        return log


class Suspicious:
    """Rejects most broken kernels, and now and then a good one."""

    id, version = "suspicious", "1"

    async def judge(self, source: str, language: str, task: TaskSpec) -> VerifierOpinion:
        await asyncio.sleep(0)
        share = 0.6 if "broken" in source else 0.1
        rejects = Rng(7, source).random() < share
        return VerifierOpinion("reject" if rejects else "abstain", fault="hunch" if rejects else None, seconds=0.1)


class Racing:
    """Screening in this world: knows within 2 % how fast a kernel is. `asked`: for which sources."""

    id, version = "screen", "1"

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def judge(self, source: str, language: str, task: TaskSpec) -> VerifierOpinion:
        raise AssertionError("there is no kernel to compare with yet")

    async def race(
        self, source: str, language: str, task: TaskSpec, best_source: str, best_score: float
    ) -> VerifierOpinion:
        await asyncio.sleep(0)
        self.asked.append(source)
        shown = {item.key for item in task.configs_for("cpu")}
        return opinion_of(_timed(source, shown), _timed(best_source, shown), best_score)


def _timed(source: str, shown: set[str]) -> JudgeResult:
    """What screening measures: two of the three configurations, or the one that counts alone."""
    found = truth(source)
    known = [row for row in found.configs if row["key"] in shown]
    rows = [{**row, "ci95": (0.98 * row["speedup"], 1.02 * row["speedup"])} for row in known[:2]]
    return replace(found, configs=tuple(rows))


async def always_go() -> str:
    return "go"


def run(
    log: EventLog,
    config: RunConfig | None = None,
    *,
    proposer: Scripted | None = None,
    judge: Judge | None = None,
    verifiers: tuple[Verifier, ...] = (Suspicious(),),
    wishes: Callable[[], Awaitable[str]] = always_go,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> RunOutcome:
    """Begins the run if the log is empty, and drives it until it ends."""
    if not log.read():
        create(log, config or RunConfig(task=TASK.name))
    return asyncio.run(
        drive(
            log,
            proposer or Scripted(),
            verifiers,
            judge or Judge(),
            Quiet(),
            wishes,  # type: ignore[arg-type]
            task=TASK,
            sleep=sleep,
        )
    )


def of_type(events: list[LogEvent], *types: str) -> list[LogEvent]:
    return [event for event in events if event.type in types]
