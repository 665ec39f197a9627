"""Rows that a site has once it is started: its catalogue and the kind of the processor that its fake workers have.

What `tasks_sync` writes is kept for the next test that begins with empty tables, as the statements that write it: to
read the suites and ask for every row takes longer than most tests, and so does Django to compile the statements on
PostgreSQL. Does NOT know what a room needs beside these: each has its own factories.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.cache import caches
from django.db import connection, transaction
from django.db.models import Model

from benchmarks.catalogue import devices, folders
from benchmarks.harness import default_suites
from benchmarks.models import DeviceKind, Method, RuleSet, Suite
from tests.fakes import CPU

Statement = tuple[str, Any]
_kept: dict[tuple[str, ...], list[list[Model]]] = {}
_written: dict[tuple[str, ...], list[Statement]] = {}


def cpu_kind() -> DeviceKind:
    """As a worker registers it."""
    return devices.register(CPU)


def synced(suites: Path | None = None) -> None:
    """The tables of a site whose workers have reported. Its boards have the marks of those that other tests had."""
    for name in ("pages", "boards"):
        caches[name].clear()
    if any(model.objects.exists() for model in (Suite, Method, RuleSet, DeviceKind)):
        return _sync(suites)
    key = _all_that_counts(suites or default_suites())
    if key not in _kept:
        before = {row for rows in _all_rows() for row in rows}
        _sync(suites)
        _kept[key] = [[row for row in rows if row not in before] for rows in _all_rows()]
        return None
    with transaction.atomic():
        if key in _written:
            _write_again(_written[key])
        else:
            _written[key] = _write(_kept[key])
    return None


def _write(tables: list[list[Model]]) -> list[Statement]:
    """Returns what it told the database; a PostgreSQL hears it as one text the next time."""
    told: list[Statement] = []
    on_postgres = connection.vendor == "postgresql"

    def note(execute: Callable[..., Any], text: str, values: Any, many: bool, context: dict[str, Any]) -> Any:
        told.append((context["cursor"].mogrify(text, values), None) if on_postgres else (text, values))
        return execute(text, values, many, context)

    with connection.execute_wrapper(note):
        for rows in filter(None, tables):
            type(rows[0])._base_manager.bulk_create(rows)
    return [(";".join(text for text, _ in told), None)] if on_postgres else told


def _write_again(statements: list[Statement]) -> None:
    with connection.cursor() as cursor:
        for text, values in statements:
            cursor.execute(text, values)


def _all_rows() -> list[list[Model]]:
    return [list(model._base_manager.all()) for model in apps.get_app_config("benchmarks").get_models()]


def _sync(suites: Path | None) -> None:
    folders.tasks_sync(suites)
    cpu_kind()


def _all_that_counts(suites: Path) -> tuple[str, ...]:
    files = sorted(path for name in ("task.toml", "reference.py") for path in suites.glob(f"*/*/{name}"))
    named = (text for path in files for text in (str(path.relative_to(suites)), path.read_text()))
    return (settings.KBENCH_RULESET, str(folders.rules_folder()), *named)
