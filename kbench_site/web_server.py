"""The web server: uvicorn on an address of its own, or on the socket that systemd holds for all web processes.

It stops without losing a request: it reads what connections have sent, ends event streams and waiting requests, whose
clients come back, and answers everything else. It tells systemd when it is ready. Does NOT speak TLS: a proxy does.
"""

import asyncio
import os
import socket
import time

import uvicorn
from django.conf import settings

SETTLE_S = 2.0  # at most; a proxy sends its request within milliseconds of connecting
STOP_S = 25  # for answers that take long; systemd waits longer
FIRST_FD = 3  # systemd's convention


class WebServer(uvicorn.Server):  # type: ignore[misc]
    """uvicorn closes connections that have sent nothing yet as soon as it is asked to stop; this one waits for them."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        tell_systemd("READY=1")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        from benchmarks.views.streams import end_all  # Django is set up by now

        tell_systemd("STOPPING=1")
        await self._accept_no_more()
        end_all()
        await self._settle()
        await super().shutdown(sockets)

    async def _accept_no_more(self) -> None:
        """asyncio drops connections that it accepts in the same turn in which their server is closed."""
        loop = asyncio.get_running_loop()
        for server in self.servers:
            for listening in server.sockets:
                loop.remove_reader(listening.fileno())
        await asyncio.sleep(0)
        for server in self.servers:
            server.close()

    async def _settle(self) -> None:
        """Waits for the requests of connections that have sent none."""
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline and any(item.cycle is None for item in self.server_state.connections):
            await asyncio.sleep(0.02)


def tell_systemd(text: str) -> None:
    """Does nothing if systemd did not ask for it."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.sendto(text.encode(), f"\0{address[1:]}" if address.startswith("@") else address)


def inherited_sockets() -> list[socket.socket] | None:
    """The listening sockets that systemd passed to this process; None if there are none."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return None
    return [socket.socket(fileno=FIRST_FD + number) for number in range(int(os.environ["LISTEN_FDS"]))]


def main() -> None:
    config = uvicorn.Config(
        "kbench_site.asgi:application",
        host=settings.HOST,
        port=settings.PORT,
        lifespan="off",
        access_log=False,
        log_level="warning",
        proxy_headers=False,  # whom to believe is KBENCH_TRUSTED_PROXIES' to say
        timeout_graceful_shutdown=STOP_S,
    )
    WebServer(config).run(inherited_sockets())


if __name__ == "__main__":
    main()
