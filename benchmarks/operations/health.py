"""The health of the site: database, migrations, broker, housekeeping and a judge per device kind.

Down means that requests cannot be answered; degraded means that pages work and submissions are kept, but something
else does not work. Texts contain no address and no password. Does NOT show figures (`load.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import cache

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from ..models import DeviceKind, Worker
from ..states import DEVICELESS, WorkerRole, WorkerState

BROKER_TIMEOUT_S = 1


class Level(StrEnum):
    """How well a component works, best first."""

    OK = "ok"
    DEGRADED = "degraded"
    DOWN = "down"


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    level: Level
    text: str


def checks() -> list[Check]:
    """Everything in order; what needs the database is left out where there is none."""
    database = _database()
    if database.level is not Level.OK:
        return [database, broker()]
    migrations = _migrations()
    if migrations.level is not Level.OK:
        return [database, migrations, broker()]
    return [database, migrations, broker(), *_workers()]


def worst(found: Sequence[Check]) -> Level:
    return max((check.level for check in found), key=list(Level).index)


def _database() -> Check:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError as error:
        return Check("database", Level.DOWN, f"The database does not answer ({type(error).__name__}).")
    return Check("database", Level.OK, "The database answers.")


def _migrations() -> Check:
    missing = _known_migrations().difference(MigrationRecorder(connection).applied_migrations())
    if missing:
        return Check("migrations", Level.DOWN, f"{len(missing)} migrations are not applied: run manage.py migrate.")
    return Check("migrations", Level.OK, "All migrations are applied.")


@cache
def _known_migrations() -> frozenset[tuple[str, str]]:
    """App and name of each; a process has read its code once, so what it knows does not change."""
    return frozenset(MigrationLoader(None).graph.nodes)


def broker() -> Check:
    """Without it pages work and submissions are kept, but no worker is woken for them."""
    try:
        with redis.Redis.from_url(
            settings.REDIS_URL, socket_timeout=BROKER_TIMEOUT_S, socket_connect_timeout=BROKER_TIMEOUT_S
        ) as client:
            client.ping()
    except (redis.RedisError, OSError) as error:
        return Check("broker", Level.DEGRADED, f"Redis does not answer ({type(error).__name__}).")
    return Check("broker", Level.OK, "Redis answers.")


def _workers() -> list[Check]:
    """One worker for housekeeping, one for agent runs, and a judge and a compiler for each device kind."""
    since = timezone.now() - timedelta(seconds=settings.KBENCH_HEARTBEAT_TIMEOUT_S)
    alive = set(Worker.objects.alive(since).values_list("role", "device_kind__slug"))
    begun = Worker.objects.filter(state=WorkerState.STARTING, heartbeat__gte=since)
    starting = set(begun.values_list("role", "device_kind__slug"))
    wanted: list[tuple[WorkerRole, str | None]] = [(role, None) for role in DEVICELESS]
    kinds = DeviceKind.objects.usable().order_by("slug").values_list("slug", flat=True)
    wanted += [(role, kind) for kind in kinds for role in (WorkerRole.JUDGE, WorkerRole.COMPILE)]
    return [
        _worker(role, kind, there=(role, kind) in alive, starting=(role, kind) in starting) for role, kind in wanted
    ]


def _worker(role: WorkerRole, kind: str | None, *, there: bool, starting: bool) -> Check:
    name = f"{role.value}.{kind}" if kind else role.value
    if there:
        return Check(name, Level.OK, "A worker is online.")
    what = role.label.lower() + (f" on {kind}" if kind else "")
    if starting:
        return Check(name, Level.DEGRADED, f"The worker for {what} is starting and testing itself.")
    return Check(name, Level.DEGRADED, f"No worker is online for {what}.")
