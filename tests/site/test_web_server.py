"""How the web process starts and stops: it says when it is ready and answers whatever reached it before the stop."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from kbench_site import web_server
from tests.stack import ROOT, free_port

REQUEST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
# what systemd does for a process that gets a socket: number 3, and the number of the process
AS_SYSTEMD = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def told(tmp_path: Path) -> Iterator[socket.socket]:
    """Where the processes say that they are ready, as systemd listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        channel.settimeout(60)
        yield channel


@pytest.fixture
def start(tmp_path: Path, told: socket.socket) -> Iterator[Start]:
    """Starts a web process and returns once it is ready, on a port or on a socket that is handed to it."""
    processes = []

    def run(port: int = 0, listening: socket.socket | None = None) -> "subprocess.Popen[bytes]":
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("KBENCH_", "DJANGO_"))},
            "KBENCH_DATA_DIR": str(tmp_path / "data"),
            "DJANGO_SETTINGS_MODULE": "kbench_site.settings",
            "NOTIFY_SOCKET": told.getsockname(),
            "PORT": str(port or free_port()),
        }
        argv = [sys.executable, "manage.py", "serve", "web"]
        given = {}
        if listening is not None:
            argv = [sys.executable, "-c", AS_SYSTEMD, str(listening.fileno()), *argv]
            given = {"pass_fds": [listening.fileno()]}
        processes.append(subprocess.Popen(argv, cwd=ROOT, env=environment, **given))
        assert told.recv(100) == b"READY=1"
        return processes[-1]

    yield run
    for process in processes:
        process.kill()
        process.wait()


def answer(connection: socket.socket) -> bytes:
    connection.settimeout(60)
    return b"".join(iter(lambda: connection.recv(65536), b""))


async def pong(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
    await send({"type": "http.response.body", "body": b"pong"})


async def test_what_connected_before_the_stop_is_answered_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "SETTLE_S", 60)
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        server = web_server.WebServer(uvicorn.Config(pong, lifespan="off", log_config=None))
        serving = asyncio.create_task(server._serve([listening]))
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        async with asyncio.timeout(60):
            while not (server.started and server.server_state.connections):
                await asyncio.sleep(0.01)
            server.should_exit = True
            while server.servers[0].is_serving():
                await asyncio.sleep(0.01)
            writer.write(REQUEST)
            assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
            await serving
        writer.close()


async def test_a_connection_that_sends_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "SETTLE_S", 0.1)
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        server = web_server.WebServer(uvicorn.Config(pong, lifespan="off", log_config=None))
        serving = asyncio.create_task(server._serve([listening]))
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        async with asyncio.timeout(60):
            while not (server.started and server.server_state.connections):
                await asyncio.sleep(0.01)
            server.should_exit = True
            assert await reader.read() == b""
            await serving
        writer.close()


def test_a_request_waits_on_the_socket_that_systemd_holds(start: Start, told: socket.socket) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        listening.setblocking(False)
        first = start(listening=listening)
        first.send_signal(signal.SIGTERM)
        first.wait(60)
        assert told.recv(100) == b"STOPPING=1"
        with closing(socket.create_connection(listening.getsockname())) as connection:
            connection.send(REQUEST)
            start(listening=listening)
            assert answer(connection).startswith(b"HTTP/1.1 200 OK")


def test_two_processes_share_the_socket(start: Start) -> None:
    """While one starts or stops, the other one answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        listening.setblocking(False)
        first, _ = start(listening=listening), start(listening=listening)
        first.send_signal(signal.SIGSTOP)
        for _ in range(5):
            with closing(socket.create_connection(listening.getsockname())) as connection:
                connection.send(REQUEST)
                assert answer(connection).startswith(b"HTTP/1.1 200 OK")
