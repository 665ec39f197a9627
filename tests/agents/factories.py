"""Runs for tests, made the way the site makes them: started through the service, their events from the real engine.

`driven` lets the engine search in a world without compilers, in memory, and writes what it found into the tables.
"""

import uuid
from typing import Any

from django.db import transaction

from agents import services
from agents.evolve.budget import Caps
from agents.evolve.config import RunConfig
from agents.evolve.events import Draft, LogEvent
from agents.evolve.logs import MemoryLog
from agents.models import Run
from agents.record.log import DbLog
from benchmarks.models import Evaluation
from benchmarks.states import Origin, State
from tests.evolve import world
from tests.rows import cpu_kind
from tests.web import factories


def config(**options: Any) -> RunConfig:
    return RunConfig(**{"task": "robust-kbench/mnist_linear_relu/forward", "caps": Caps(judgings=12), **options})


def started(owner: Any = None, **options: Any) -> Run:
    """A run that waits for a worker."""
    version, kind = factories.version(), cpu_kind()
    return services.run_start(services.RunRequest(version, kind, config(**options), owner))


def claimed(run: Run) -> services.RunHolding:
    holding = services.run_claim("test")
    assert holding is not None
    assert holding.run.pk == run.pk
    return holding


def searched(checks: tuple[Any, ...] = (world.Suspicious(),), **options: Any) -> tuple[list[LogEvent], MemoryLog]:
    """What the engine writes in a run that goes the whole way, with these verifiers."""
    log = MemoryLog()
    world.run(log, config(**options), verifiers=checks)
    return log.read(), log


def driven(run: Run | None = None, until: int | None = None, checks: tuple[Any, ...] = (), **options: Any) -> Run:
    """A run with the events of a whole search, or with those up to `until`."""
    run = run or started(**options)
    checks = checks or (world.Suspicious(),)
    claim = uuid.uuid4()
    Run.objects.filter(pk=run.pk).update(claim=claim)
    events, memory = searched(checks, **options)
    fill(DbLog(run, claim), events[1:until], memory)
    Run.objects.filter(pk=run.pk).update(claim=None)
    run.refresh_from_db()
    return run


def fill(log: DbLog, events: list[LogEvent], memory: MemoryLog) -> None:
    _judge([_here(event)["ticket"] for event in events if event.type == "evaluation.submitted"])
    for event in events:
        if event.type == "proposal.received":
            log.put_source(memory.get_source(event.payload["source_sha256"]))
    log.append([Draft(event.type, event.candidate, _here(event)) for event in events])


def _judge(tickets: list[str]) -> None:
    """Public judgings with these codes, of which nothing else is known: a candidate without one is withheld."""
    known = {str(code) for code in Evaluation.objects.filter(code__in=tickets).values_list("code", flat=True)}
    if not (new := [code for code in dict.fromkeys(tickets) if code not in known]):
        return
    names = ("submission", "task_version", "device_kind", "ruleset", "queued")
    with transaction.atomic():  # before any worker can take it
        made = factories.queued(origin=Origin.AGENT, title="")
        ended = {"state": State.CANCELLED, "reason_text": "a stand-in for a judging", "finished": made.queued}
        Evaluation.objects.filter(pk=made.pk).update(code=new[0], **ended)
        same = {name: getattr(made, name) for name in names}
        Evaluation.objects.bulk_create(Evaluation(code=code, **same, **ended) for code in new[1:])


def _here(event: LogEvent) -> dict[str, Any]:
    """Tickets are codes of evaluations on the site."""
    given = dict(event.payload)
    if "ticket" in given:
        given["ticket"] = str(uuid.uuid5(uuid.NAMESPACE_OID, given["ticket"]))
    return given


def remarked(run: Run, words: str, **submission: Any) -> tuple[Evaluation, int]:
    """The best of the run now says `words` wherever it can; its judging, and the number of the first such event."""
    judged = factories.queued(**submission)
    reason = {"text": words, "line": 1}
    config = {"key": "1x1", "group": "single", "failure": words}
    written = {
        "proposal.received": {"name": words, "thought": words, "params": {"GENE": words}},
        "verdict": {"reasons": [reason]},
        "evaluation.finished": {"result": {"verdict": "PASS", "reason": words, "log_tail": words, "configs": [config]}},
    }
    events = run.events.filter(candidate=run.best_key, type__in=written).order_by("seq")
    for event in events:
        event.payload = {**event.payload, **written[event.type]}
        event.save()
    row = run.candidates.get(key=run.best_key)
    row.ticket, row.name, row.thought, row.params = str(judged.code), words, words, {"GENE": words}
    row.verdict_text, row.configs = words, [config]
    row.save()
    row.opinions.update(reasons=[reason])
    return judged, events[0].seq


def large(candidates: int) -> Run:
    """A run whose log repeats a search until it has so many candidates."""
    claim = uuid.uuid4()
    with transaction.atomic():  # before any worker can take it
        run = started(caps=Caps(judgings=candidates))
        Run.objects.filter(pk=run.pk).update(claim=claim)
    events, memory = searched(caps=Caps(judgings=200))
    log = DbLog(run, claim)
    fill(log, events[1:-1], memory)
    generations = 1 + max(event.payload["number"] for event in events if event.type == "generation.opened")
    copies = -(-candidates // len({event.candidate for event in events if event.candidate}))
    for copy in range(1, copies):
        log.append([_later(event, copy, copy * generations) for event in events[2:-1]])
    log.append([Draft(event.type, None, event.payload) for event in events[-1:]])
    run.refresh_from_db()
    return run


def _later(event: LogEvent, copy: int, generations: int) -> Draft:
    """The same event of a later generation, under other names."""

    def moved(key: str) -> str:
        generation, _, slot = key.partition("-")
        return f"{int(generation) + generations}-{slot}"

    payload = _here(event)
    for name in ("number", "generation"):
        if name in payload:
            payload[name] += generations
    if "parents" in payload:
        payload["parents"] = [moved(key) for key in payload["parents"]]
    if "lease" in payload:
        payload["lease"] = f"{copy}:{payload['lease']}"
    return Draft(event.type, moved(event.candidate) if event.candidate else None, payload)
