"""Drives one run in this process, with the site's log, queue and viewers.

A watcher keeps the claim alive meanwhile and reads the wishes of the owner (pause, stop). A worker that is asked to
end releases the run; its log is complete at every moment. Does NOT decide anything about the search.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from django.conf import settings

from benchmarks import events as signals
from benchmarks.catalogue.folders import spec_of
from benchmarks.harness import Cancelled, HarnessError, TaskSpec, Watcher, default_rules
from benchmarks.judgings.judge import site_judge
from benchmarks.models import TaskVersion
from benchmarks.states import TaskVersionStatus

from .. import services
from ..evolve.config import ConfigError, RunConfig
from ..evolve.events import Draft
from ..evolve.llm.prices import PriceError
from ..evolve.loop import DriveWish, drive
from ..evolve.proposers import find_proposer
from ..evolve.state import BrokenLog
from ..evolve.verifiers import opened_verifiers
from ..models import Run
from ..record.log import RunClaimLost
from ..services import RunHolding
from ..states import Wish
from .desk import Desk, DeskLog
from .evaluator import SiteEvaluator

logger = logging.getLogger(__name__)
LOOK_EVERY_S = 0.5
ENGINE_WISHES: dict[Wish, DriveWish] = {Wish.GO: "go", Wish.PAUSE: "pause", Wish.STOP: "stop"}
draining = threading.Event()  # set when the worker is asked to end


class SiteLive:
    """Sends progress to the viewers of the run."""

    def __init__(self, run: Run) -> None:
        self.topic = run.topic

    def say(self, topic: str, payload: Mapping[str, Any]) -> None:
        signals.say(self.topic, f"{topic}:{payload.get('candidate', '')}", {"subject": topic, **payload})


class RunWatch:
    """Reads what people have requested for the run; ends the search when another worker owns it."""

    def __init__(self, holding: RunHolding, desk: Desk) -> None:
        self.holding, self.desk = holding, desk
        self.wish = Wish(holding.run.wish)
        self.lost = False

    async def wishes(self) -> DriveWish:
        return ENGINE_WISHES[self.wish]

    async def until_lost(self, search: "asyncio.Task[Any]") -> None:
        while not (draining.is_set() or self.lost):
            await asyncio.sleep(LOOK_EVERY_S)
            await self.look()
        search.cancel()

    async def look(self) -> None:
        wish = await self.desk.call(services.run_heartbeat, self.holding)
        self.lost = wish is None
        if wish is not None:
            self.wish = wish if await self.desk.call(_is_judged, self.holding.run) else Wish.STOP


def _is_judged(run: Run) -> bool:
    """Runs on a task version that was retired stop, because it is no longer judged."""
    return TaskVersion.objects.filter(pk=run.task_version_id, status=TaskVersionStatus.ACTIVE).exists()


def drive_run(holding: RunHolding) -> None:
    """Drives a run until it ends, is paused or must be released."""
    try:
        asyncio.run(_drive(holding))
    except RunClaimLost:
        logger.info("run %s was taken away", holding.run.code)
    except Exception as error:  # the edge of a job: whatever broke is our fault and must be seen on the page
        logger.exception("run %s failed", holding.run.code)
        _put_aside(holding, error)
    else:
        services.run_release(holding)


async def _drive(holding: RunHolding) -> None:
    with Desk() as desk:
        watch = RunWatch(holding, desk)
        search = asyncio.create_task(_search(holding, desk, watch))
        watcher = asyncio.create_task(watch.until_lost(search))
        try:
            await search
        except asyncio.CancelledError:
            if watch.lost:
                raise RunClaimLost from None
        finally:
            watcher.cancel()
            with suppress(asyncio.CancelledError):
                await watcher


async def _search(holding: RunHolding, desk: Desk, watch: RunWatch) -> None:
    run = holding.run
    config = RunConfig.from_json(run.config)
    device, task = await desk.call(_device_here, run), await desk.call(_task_of, run)
    means = engine_settings(device)
    async with _preparing(task, device), opened_verifiers(_verifiable(config, device), means) as verifiers:
        await drive(
            DeskLog(holding.log, desk),
            find_proposer(config, means),
            verifiers,
            SiteEvaluator(run, desk),
            SiteLive(run),
            watch.wishes,
            task=task,
        )


@asynccontextmanager
async def _preparing(task: TaskSpec, device: str) -> AsyncIterator[None]:
    """Compiles the baselines of the task while the first candidates are made, so that their judging need not wait."""
    given_up = threading.Event()
    preparing = asyncio.create_task(asyncio.to_thread(_prepare, task, device, given_up)) if device else None
    try:
        yield
    finally:
        given_up.set()
        if preparing is not None:
            await preparing


def _prepare(task: TaskSpec, device: str, given_up: threading.Event) -> None:
    rules = default_rules(settings.KBENCH_RULESET)
    try:
        site_judge().prepare(task, rules, device=device, watcher=Watcher(cancelled=given_up.is_set))
    except Cancelled:
        return
    except HarnessError as error:
        logger.warning("the baselines of %s are left to the judge: %s", task.name, error)


def _task_of(run: Run) -> TaskSpec:
    return spec_of(run.task_version)


def _device_here(run: Run) -> str:
    """A device of this machine of the kind that the run is for; empty where it has none."""
    return next((device.name for device in site_judge().devices() if device.kind == run.device_kind.slug), "")


def _verifiable(config: RunConfig, device: str) -> RunConfig:
    """Where there is no such device there may be no compiler for it either: then only the judge compiles and times."""
    needs_device = ("compile", "screen")
    return replace(config, verifiers=tuple(name for name in config.verifiers if device or name not in needs_device))


def engine_settings(device: str) -> dict[str, Any]:
    """The settings of this installation for the engine's plug-ins."""
    return {
        "api_key": settings.ANTHROPIC_API_KEY,
        "base_url": settings.ANTHROPIC_BASE_URL,
        "openai_api_key": settings.OPENAI_API_KEY,
        "openai_base_url": settings.OPENAI_BASE_URL,
        "openai_model": settings.OPENAI_MODEL,
        "prices": settings.KBENCH_MODEL_PRICES,
        "data": settings.DATA_DIR,
        "device": device or "cpu",
        "elsewhere": not device,
    }


def _put_aside(holding: RunHolding, error: Exception) -> None:
    """Pauses the run with the reason on its page, because continuing would fail again."""
    designed = isinstance(error, BrokenLog | ConfigError | PriceError | HarnessError)
    what = str(error) if designed else f"{type(error).__name__}; it has been logged."
    text = f"Our side failed: {what}"
    Run.objects.filter(pk=holding.run.pk, claim=holding.claim).update(wish=Wish.PAUSE)
    with suppress(RunClaimLost):
        holding.log.append([Draft("error", None, {"text": text}), Draft("run.paused", None, {"text": text})])
    services.run_release(holding, text)
