"""An evaluator that judges on this machine, one candidate at a time, without a site.

Results lie beside the log under the candidate's key, so that a key is judged once, however often its run is resumed.
Not covered: queues and fairness; a run of the site is judged by the site.
"""

import asyncio
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.harness import (
    Cancelled,
    Device,
    HarnessError,
    Paths,
    Report,
    Rules,
    Source,
    Step,
    TaskSpec,
    Verdict,
    Watcher,
    default_rules,
    judge,
)

from .archive import result_from_json
from .events import Live
from .logs import write_file
from .model import JudgeResult
from .slots import result_to_json

_LOG_CHARS = 4000


@dataclass
class LocalEvaluator:
    """`results` is the folder of what was judged; the key of a candidate is its ticket.

    One thread judges: it waits for no compilation, and processes that wait for the next judging end with the thread
    that started them. No energy is measured on a GPU, as the search needs none and other candidates wait.
    """

    results: Path
    task: TaskSpec
    device: Device
    paths: Paths
    quick: bool = False
    rules: Rules = field(default_factory=default_rules)

    def __post_init__(self) -> None:
        self.results.mkdir(parents=True, exist_ok=True)
        self._sources: dict[str, Source] = {}
        self._cancels: dict[str, threading.Event] = {}
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "judge")

    async def submit(self, candidate_key: str, source: str, language: str) -> str:
        self._sources[candidate_key] = Source(source, language)
        return candidate_key

    async def again(self, ticket: str, number: int, source: str, language: str) -> str:
        return await self.submit(f"{ticket}.again-{number}", source, language)

    async def wait(self, ticket: str, live: Live) -> JudgeResult:
        file = self.results / f"{ticket}.json"
        if not file.exists():
            async with self._turn:
                result = await self._judged(ticket, live)
            _keep(file, result)
        return result_from_json(json.loads(file.read_bytes()))

    async def withdraw(self, ticket: str) -> None:
        """The judge looks up between two calls of the kernel and then ends."""
        if ticket in self._cancels:
            self._cancels[ticket].set()

    async def _judged(self, ticket: str, live: Live) -> JudgeResult:
        loop, cancel = asyncio.get_running_loop(), threading.Event()
        self._cancels[ticket] = cancel

        def tell(step: Step) -> None:
            payload = {"stage": step.stage, "state": step.state, "done": step.done, "total": step.total}
            loop.call_soon_threadsafe(live.say, "evaluation", {**payload, "text": step.text})

        try:
            return await loop.run_in_executor(self._thread, self._blocking, self._sources[ticket], tell, cancel)
        except asyncio.CancelledError:
            cancel.set()
            raise
        finally:
            del self._cancels[ticket]

    def _blocking(self, source: Source, tell: Callable[[Step], None], cancel: threading.Event) -> JudgeResult:
        """What is our own fault is tried once more."""
        result = self._once(source, tell, cancel)
        if not result.ours or cancel.is_set():
            return result
        again = self._once(source, tell, cancel)
        return replace(again, seconds=result.seconds + again.seconds)

    def _once(self, source: Source, tell: Callable[[Step], None], cancel: threading.Event) -> JudgeResult:
        try:
            report = judge(
                source,
                self.task,
                self.rules,
                self.paths,
                device=self.device.name,
                quick=self.quick,
                watcher=Watcher(tell, cancel.is_set, lambda: self.device.device_class == "cuda"),
            )
        except Cancelled:
            return JudgeResult(Verdict.INTERNAL_ERROR.value, "the judging was withdrawn")
        except HarnessError as error:
            return JudgeResult(Verdict.INTERNAL_ERROR.value, f"{type(error).__name__}: {error}")
        return result_of(report)


def result_of(report: Report) -> JudgeResult:
    """What the search needs of a report."""
    score, data = report.score, report.to_json()
    failed = [stage.log_tail for stage in report.stages if stage.log_tail]
    return JudgeResult(
        verdict=report.verdict.value,
        reason=report.reason,
        score=score.speedup if score else None,
        ci95=score.ci95 if score else None,
        vs_eager=score.vs_eager if score else None,
        vs_compile=score.vs_compile if score else None,
        configs=tuple(data["configs"]),
        timing_trust=score.timing_trust if score else None,
        seconds=sum(stage.seconds for stage in report.stages),
        log_tail=failed[-1][-_LOG_CHARS:] if failed and score is None else "",
    )


def _keep(file: Path, result: JudgeResult) -> None:
    """What a cancelled judging said is not kept."""
    fresh = file.with_suffix(".new")
    write_file(fresh, json.dumps(result_to_json(result)).encode())
    fresh.rename(file)
