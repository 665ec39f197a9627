"""Writes to a run that do not come from the search: start, claims, wishes of the owner, forks.

A worker claims a run and gets a secret, without which nothing can be appended to the log. Changes made by the search
are events and reach the table through `record/log.py`. Does NOT drive a run (`driving/` does).
"""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction
from django.db.models import QuerySet, Sum
from django.utils import timezone

from benchmarks import events as signals
from benchmarks.models import DeviceKind, Method, TaskVersion
from benchmarks.services import Refused
from benchmarks.states import MethodKind, Switch, TaskVersionStatus
from benchmarks.switches import paused

from . import queue
from .evolve.begin import create, fork
from .evolve.budget import Caps
from .evolve.config import ConfigError, RunConfig
from .evolve.events import Draft
from .evolve.llm.prices import load_prices
from .evolve.state import BrokenLog
from .library import remembered
from .models import Run
from .proposals import BY_NAME, CRITIC, EXTERNAL, asks_models, problem_of, screened_at_once
from .record.log import DbLog
from .record.withheld import tells_hidden
from .states import OPEN, RunStatus, Wish, sources

__all__ = [
    "NoLimit",
    "Refused",
    "RunBusy",
    "RunHolding",
    "RunRequest",
    "SiteIsFull",
    "log_of",
    "run_claim",
    "run_fork",
    "run_heartbeat",
    "run_release",
    "run_start",
    "run_wish",
    "runs_stop",
    "tend",
    "worker_begins",
]


RUNS_PER_DAY_MAX = 200  # of one account: a run that is stopped at once costs nothing, but is in every list
FORKED_EVENTS_PER_DAY = 50_000  # that forks of one account begin with: copying a thousand takes a second


class RunBusy(Refused):
    """The log of the run cannot be written now."""


class NoLimit(Refused):
    """The run has no limit of the kind that its proposer needs."""


class SiteIsFull(Refused):
    """As many runs as the site may have are unfinished, without those that are paused."""


@dataclass(frozen=True)
class RunHolding:
    """A claimed run and the secret that allows to write its log."""

    run: Run
    claim: uuid.UUID

    @property
    def log(self) -> DbLog:
        return DbLog(self.run, self.claim)


@dataclass(frozen=True)
class RunRequest:
    """A requested run."""

    version: TaskVersion
    device_kind: DeviceKind
    config: RunConfig
    owner: User | None = None
    remember: bool = False  # tell it of related tasks and of earlier runs


def run_start(order: RunRequest) -> Run:
    """Creates a waiting run with its first event. Raises Refused."""
    with transaction.atomic():
        _refuse_if_not_now(order)
        run = _create(order)
        with log_of(run) as log:
            create(log, _informed(order, log), _prices(order.config))
        if run.proposer != EXTERNAL:
            queue.wake()
    return run


def _informed(order: RunRequest, log: DbLog) -> RunConfig:
    """The configuration with what the library knows for the run, which thus is in the run's first event."""
    if not order.remember:
        return order.config
    memory = remembered(order.config, order.version, order.device_kind, log).to_json()
    return replace(order.config, options={**order.config.options, "memory": memory}) if memory else order.config


def _create(order: RunRequest, forked_from: Run | None = None) -> Run:
    return Run.objects.create(
        task_version=order.version,
        device_kind=order.device_kind,
        method=_method(order.config.proposer),
        owner=order.owner,
        language=order.config.language,
        proposer=order.config.proposer,
        seed=order.config.seed,
        config=order.config.to_json(),
        forked_from=forked_from,
    )


def _prices(config: RunConfig) -> Mapping[str, Any]:
    """The prices of the models, if the proposer asks any."""
    return load_prices(settings.KBENCH_MODEL_PRICES).to_json() if BY_NAME[config.proposer].paid else {}


def _method(proposer: str) -> Method:
    choice = BY_NAME[proposer]
    return Method.objects.get_or_create(
        slug=choice.method_slug,
        defaults={"title": f"Agent: {proposer}", "kind": MethodKind.AGENT, "description": choice.text},
    )[0]


@contextmanager
def log_of(run: Run) -> Iterator[DbLog]:
    """The log of a run that no worker holds, in one transaction. Raises RunBusy if one does or the run has ended."""
    claim = uuid.uuid4()
    with transaction.atomic():
        free = Run.objects.filter(pk=run.pk, claim=None).exclude(state=RunStatus.FINISHED)
        if not free.update(claim=claim):
            raise RunBusy("The run has ended, or another process is writing its log.")
        yield DbLog(run, claim)
        Run.objects.filter(pk=run.pk, claim=claim).update(claim=None)
    run.refresh_from_db()


def run_claim(worker: str) -> RunHolding | None:
    """Claims the run that has waited longest, for `worker` to drive. None if no run waits."""
    for pk in _to_drive().order_by("pk").values_list("pk", flat=True):
        claim, now = uuid.uuid4(), timezone.now()
        free = Run.objects.filter(pk=pk, state__in=OPEN, claim=None)
        if free.update(claim=claim, worker=worker, heartbeat=now):
            run = Run.objects.select_related("task_version__task__suite", "device_kind", "method", "owner").get(pk=pk)
            return RunHolding(run, claim)
    return None


def _to_drive() -> QuerySet[Run]:
    """Runs that want a worker and have none."""
    return Run.objects.filter(state__in=OPEN, claim=None).exclude(proposer=EXTERNAL)


def run_heartbeat(holding: RunHolding) -> Wish | None:
    """Records a heartbeat and returns what people want of the run; None if another worker has it now."""
    held = Run.objects.filter(pk=holding.run.pk, claim=holding.claim)
    if not held.update(heartbeat=timezone.now()):
        return None
    return Wish(held.values_list("wish", flat=True)[0])


def run_release(holding: RunHolding, why: str = "") -> None:
    """Releases a run; if it is open, the next worker continues it. Without `why` the log has the reason."""
    held = Run.objects.filter(pk=holding.run.pk, claim=holding.claim)
    said = {"reason_text": why} if why else {}
    if (
        held.update(claim=None, worker="", heartbeat=None, **said)
        and Run.objects.filter(pk=holding.run.pk, state__in=OPEN).exists()
    ):
        queue.wake()


def run_wish(run: Run, wish: Wish, who: str) -> None:
    """Asks a run to pause, go on or stop. Raises Refused if it has ended or is being stopped.

    One that is paused takes no place of the site, so it needs one to go on. Raises SiteIsFull. The log keeps `who` for
    ever, so it is no name.
    """
    if run.is_finished:
        raise Refused("The run has ended. Fork it to continue.")
    if run.state == RunStatus.STOPPING:
        raise Refused("The run is being stopped.")
    with transaction.atomic():
        Run.objects.filter(pk=run.pk).update(wish=wish)
        if wish == Wish.GO and Run.objects.filter(pk=run.pk, state=RunStatus.PAUSED).exists():
            _refuse_if_full()
        if wish == Wish.GO and _move(run, RunStatus.WAITING):
            queue.wake()
        elif wish != Wish.GO:
            _settle_unclaimed(run, wish, who)
        signals.wake(run.topic)


def runs_stop(owner: User, who: str) -> None:
    """Stops all runs of an account that is deleted or suspended."""
    for run in Run.objects.filter(owner=owner).exclude(state__in=(RunStatus.FINISHED, RunStatus.STOPPING)):
        run_wish(run, Wish.STOP, who)


def _settle_unclaimed(run: Run, wish: Wish, who: str) -> None:
    """Pauses or stops a run without a worker at once. If it has open reservations, a worker must settle them first."""
    settled = (RunStatus.RUNNING, RunStatus.FINISHED)  # it may have ended since it was read
    idle = Run.objects.filter(pk=run.pk, claim=None).exclude(state__in=settled).first()
    if idle is None:
        return
    if idle.leases:
        if wish == Wish.STOP and _move(idle, RunStatus.WAITING):
            queue.wake()
        return
    with log_of(idle) as log:
        log.append([Draft("human.action", None, {"who": who, "action": wish}), _end_of(wish, who)])


def _end_of(wish: Wish, who: str) -> Draft:
    if wish == Wish.PAUSE:
        return Draft("run.paused", None, {"text": f"Paused by {who}."})
    return Draft("run.finished", None, {"reason": "stopped", "text": f"Stopped by {who}."})


def _move(run: Run, target: RunStatus) -> bool:
    return Run.objects.filter(pk=run.pk, state__in=sources(target)).update(state=target) == 1


def tend() -> int:
    """Releases the runs of lost workers, and wakes workers for waiting runs. Returns how many runs were released."""
    limit = timezone.now() - timedelta(seconds=settings.KBENCH_HEARTBEAT_TIMEOUT_S)
    count = _free(Run.objects.filter(heartbeat__lt=limit))
    queue.resend(_to_drive().count())
    return count


def worker_begins(worker: str) -> int:
    """Releases the runs held by an earlier process of that name and returns their number."""
    return _free(Run.objects.filter(worker=worker))


def _free(runs: QuerySet[Run]) -> int:
    held = runs.exclude(claim=None)
    return held.update(claim=None, heartbeat=None, reason_text="Its worker was lost; another worker continues the run.")


def run_fork(parent: Run, *, owner: User | None, seed: int, more: Caps) -> Run:
    """A new run that begins with all that `parent` has found and may spend `more`. Raises Refused.

    Its owner may read what it proposes, and that may repeat sources of `parent`. So the owner must be allowed to read
    all candidates of `parent`.
    """
    if tells_hidden(owner or AnonymousUser(), parent):
        raise Refused("The run has candidates that are private or withheld. Only those who may read them can fork it.")
    try:
        config = _of_fork(RunConfig.from_json(parent.config), parent, owner)
        size = screened_at_once(more) if "finalists" in config.options else config.generation_size
        config = replace(config, seed=seed, caps=more, generation_size=min(size, config.generation_size))
    except ConfigError as error:
        raise Refused(str(error)) from error
    order = RunRequest(parent.task_version, parent.device_kind, config, owner)
    try:
        with transaction.atomic():
            _refuse_if_not_now(order)
            _refuse_if_hidden(parent)
            _refuse_if_copied_much(owner, parent)
            run = _create(order, forked_from=parent)
            with log_of(run) as log:
                fork(DbLog(parent, uuid.uuid4()), parent.last_seq, log, seed, config)
            queue.wake()
    except BrokenLog as error:
        raise Refused(f"The log of this run is broken, so it cannot be forked. {error}") from error
    return run


def _of_fork(config: RunConfig, parent: Run, owner: User | None) -> RunConfig:
    """Leaves out the name of the external agent if somebody else forks the run."""
    if config.proposer != EXTERNAL or (owner is not None and owner.pk == parent.owner_id):
        return config
    return replace(config, options={name: value for name, value in config.options.items() if name != "agent"})


def _refuse_if_not_now(order: RunRequest) -> None:
    """Inside the transaction that makes the run."""
    _refuse_if_endless(order.config)
    _refuse_if_closed(order)
    if order.owner is not None:  # two requests at once cannot both take the last place
        User.objects.select_for_update(no_key=True).get(pk=order.owner.pk)
    _refuse_if_many(order.owner, order.config.proposer)
    _refuse_if_costly(order)


def _refuse_if_closed(order: RunRequest) -> None:
    if reason := paused(Switch.RUNS):
        raise Refused(reason)
    if order.version.status != TaskVersionStatus.ACTIVE:
        raise Refused("This version of the task is no longer judged.")


def _refuse_if_many(owner: User | None, proposer: str) -> None:
    day = Run.objects.filter(owner=owner, created__gte=timezone.now() - timedelta(days=1))
    if day.count() >= RUNS_PER_DAY_MAX:
        raise Refused(f"{_whose(owner)} started {RUNS_PER_DAY_MAX} runs within 24 hours, which is the limit.")
    unfinished = Run.objects.exclude(state=RunStatus.FINISHED)
    if owner is None:  # whoever pauses one and does not come back would keep out all who have no account
        unfinished = unfinished.exclude(state=RunStatus.PAUSED)
    external_max = settings.KBENCH_EXTERNAL_RUNS_PER_OWNER_MAX
    if proposer == EXTERNAL and unfinished.filter(owner=owner, proposer=EXTERNAL).count() >= external_max:
        raise Refused(f"You have {external_max} unfinished external runs, which is the limit. Close or stop one.")
    limit = settings.KBENCH_RUNS_PER_OWNER_MAX
    if unfinished.filter(owner=owner).count() >= limit:
        raise Refused(f"{_whose(owner)} {limit} unfinished runs, which is the limit. Stop one.")
    _refuse_if_full()


def _refuse_if_full() -> None:
    """Paused runs do not count: nobody but their owner ends them."""
    limit = settings.KBENCH_RUNS_MAX
    if Run.objects.exclude(state__in=(RunStatus.FINISHED, RunStatus.PAUSED)).count() >= limit:
        raise SiteIsFull(f"{limit} runs are unfinished on this site, which is the limit. Come back later.")


def _refuse_if_hidden(parent: Run) -> None:
    """Also for its owner and staff, who read it: a fork has all its words, and everybody reads the fork."""
    if Run.objects.filter(pk=parent.pk, hidden=True).exists():
        raise Refused("Staff have hidden this run, so it cannot be forked.")


def _refuse_if_copied_much(owner: User | None, parent: Run) -> None:
    """The first fork of a day may be of any run: copying and folding a long log keeps the site busy for seconds."""
    day = Run.objects.filter(owner=owner, forked_from__isnull=False, created__gte=timezone.now() - timedelta(days=1))
    copied = day.aggregate(events=Sum("forked_from__last_seq"))["events"] or 0
    if copied and copied + parent.last_seq > FORKED_EVENTS_PER_DAY:
        raise Refused(
            f"{_whose(owner)} forked runs with {copied} events within 24 hours, and this one has {parent.last_seq}. "
            f"The limit is {FORKED_EVENTS_PER_DAY}: fork it later."
        )


def _whose(owner: User | None) -> str:
    return "You have" if owner else "Visitors without an account have"


def _refuse_if_endless(config: RunConfig) -> None:
    """An external agent reports its dollars and tokens itself, so limits on these would end nothing."""
    if config.proposer == EXTERNAL and config.caps.judgings is None and config.caps.wall_s is None:
        raise NoLimit("Give an external run a limit of judgings or minutes.")


def _refuse_if_costly(order: RunRequest) -> None:
    """A paid run needs a limit in dollars. The limits of all runs that an owner starts within a day are added up.

    A fork has the verifiers of its parent, so its owner is asked about here.
    """
    config = order.config
    if not asks_models(config.proposer, config.verifiers):
        return
    if CRITIC in config.verifiers and (problem := problem_of(order.owner or AnonymousUser())):
        raise Refused(problem)
    wanted = config.caps.usd
    if wanted is None:
        raise Refused("A run that asks a language model needs a limit in dollars.")
    day = timezone.now() - timedelta(days=1)
    today = Run.objects.filter(owner=order.owner, created__gte=day).values_list("config", flat=True)
    given = sum(earlier.get("caps", {}).get("usd") or 0.0 for earlier in today)
    if given + wanted > settings.KBENCH_USD_PER_DAY:
        raise Refused(
            f"That would make ${given + wanted:.2f} within a day; the limit is ${settings.KBENCH_USD_PER_DAY}."
        )
