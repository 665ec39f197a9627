"""`manage.py prepare` a second time. What it leaves the first time is looked at by the tests of whole sites."""

import os
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from benchmarks.harness import SupervisorError
from kbench_site import builds_ahead
from kbench_site.management.commands import prepare


@pytest.mark.django_db
def test_a_database_is_migrated_only_where_a_migration_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    monkeypatch.setattr(prepare, "call_command", lambda *words, **_: called.append(words))
    prepare.migrate()
    assert called == []
    [newest] = MigrationLoader(connection).graph.leaf_nodes("benchmarks")
    MigrationRecorder(connection).record_unapplied(*newest)
    prepare.migrate()
    assert called == [("migrate",)]


@pytest.fixture
def file(settings: Any, tmp_path: Path) -> Path:
    """The only static file of a site."""
    settings.DATA_DIR, settings.STATIC_ROOT = tmp_path, tmp_path / "static"
    settings.STATICFILES_DIRS = [tmp_path / "files"]
    settings.STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    for folder in (settings.STATIC_ROOT, *settings.STATICFILES_DIRS):
        folder.mkdir()
    path = tmp_path / "files/a.css"
    path.write_text("a")
    return path


def test_static_files_are_collected_again_only_where_something_has_changed(
    file: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest, collected = settings.STATIC_ROOT / "staticfiles.json", []

    def collect(*words: str, **_: Any) -> None:
        collected.append(words)
        manifest.write_text("{}")

    monkeypatch.setattr(prepare, "call_command", collect)

    def times() -> int:
        prepare.collect_static()
        return len(collected)

    assert [times(), times()] == [1, 1]
    os.utime(file, (0, 0))
    assert times() == 1, "an older file with the same content is no change"
    file.write_text("longer")
    assert [times(), times()] == [2, 2]
    file.with_name("b.css").write_text("b")
    assert [times(), times()] == [3, 3]
    manifest.unlink()
    assert times() == 4


def test_builds_are_waited_for_and_one_that_fails_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []

    class Judge:
        def builds_ahead(self) -> tuple[Callable[[], None], ...]:
            return fails, compiles

    def fails() -> None:
        raise SupervisorError("there is no compiler")

    def compiles() -> None:
        time.sleep(0.1)
        built.append("headers")

    steps = ("migrate", "collect_static", "tasks_sync", "boards_complete", "load_shipped", "statistics_gather")
    for name in steps:
        monkeypatch.setattr(prepare, name, lambda: None)
    monkeypatch.setattr(builds_ahead, "site_judge", Judge)
    told = StringIO()
    call_command("prepare", builds=True, stderr=told)
    assert built == ["headers"]
    assert told.getvalue().strip() == "not compiled ahead: there is no compiler"
    call_command("prepare")
    assert built == ["headers"], "without the option nothing is compiled"
