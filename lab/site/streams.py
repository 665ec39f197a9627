"""Five hundred viewers of one evaluation: how long from an event's commit to each of them, and that none missed any.

The event carries when it was written, a moment before its commit, by the clock of this machine. Viewers read the
stream alone: what a page fetches when it is told to look again is measured by `pages.py` and `lab/bench/live.py`.
"""

import asyncio
import json
import statistics
import subprocess
import time
from contextlib import suppress
from typing import Any

from lab.site.serving import Site

VIEWERS = 500
PER_ADDRESS = 20  # streams that one reader may have open
EVENTS = 60
PAUSE_S = 0.5
CONNECT_AT_ONCE = 25
AIM_MS = 500.0
WRITE = """
import sys, time
from django.db import transaction
from benchmarks import events
from benchmarks.models import Evaluation
evaluation = Evaluation.objects.get(code=sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[2])):
    time.sleep(float(sys.argv[3]))
    with transaction.atomic():
        events.emit(evaluation.topic, "bench", number=number, sent_s=time.time())
"""


class Viewer:
    """One open stream; `delays_s` by event."""

    def __init__(self, site: Site, number: int) -> None:
        self.site, self.number = site, number
        self.delays_s: dict[int, float] = {}
        self.opened = asyncio.Event()

    async def follow(self, gate: asyncio.Semaphore) -> None:
        here = (f"127.0.0.{self.number // PER_ADDRESS + 2}", 0)
        async with gate:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.site.port, local_addr=here)
            path = f"/events/?topics=evaluation:{self.site.names['queued']}"
            writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            status = await reader.readline()
            if b" 200 " not in status:
                raise SystemExit(f"viewer {self.number} was answered {status.decode().strip()}")
            await reader.readuntil(b"retry:")
        self.opened.set()
        while len(self.delays_s) < EVENTS:
            self._note(await reader.readline())
        writer.close()

    def _note(self, line: bytes) -> None:
        now_s = time.time()
        if line.startswith(b"data: ") and b'"sent_s"' in line:
            event = json.loads(line[6:])
            self.delays_s[event["number"]] = now_s - event["sent_s"]


def measure(site: Site, viewers: int = VIEWERS) -> dict[str, Any]:
    writer = site.python(WRITE, site.names["queued"], str(EVENTS), str(PAUSE_S))
    if writer.stdout is None or writer.stdout.readline() != "ready\n":
        raise SystemExit("the writer of events did not start")
    found = asyncio.run(_followed(site, writer, viewers))
    writer.wait()
    return found


async def _followed(site: Site, writer: "subprocess.Popen[str]", count: int) -> dict[str, Any]:
    gate = asyncio.Semaphore(CONNECT_AT_ONCE)
    viewers = [Viewer(site, number) for number in range(count)]
    started_s = time.monotonic()
    following = asyncio.gather(*(viewer.follow(gate) for viewer in viewers))
    opening = asyncio.gather(*(viewer.opened.wait() for viewer in viewers))
    await asyncio.wait([following, opening], return_when=asyncio.FIRST_COMPLETED)
    opened_s = time.monotonic() - started_s
    if writer.stdin:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    with suppress(TimeoutError):  # what is missing then is counted
        await asyncio.wait_for(following, 60 + EVENTS * PAUSE_S)
    return {"viewers": count, "events": EVENTS, "opened_s": round(opened_s, 2), **_figures(viewers)}


def _figures(viewers: list[Viewer]) -> dict[str, Any]:
    delays_ms = sorted(1000 * delay_s for viewer in viewers for delay_s in viewer.delays_s.values())
    return {
        "missed": sum(EVENTS - len(viewer.delays_s) for viewer in viewers),
        "median_ms": round(statistics.median(delays_ms), 1),
        "p95_ms": round(delays_ms[int(0.95 * len(delays_ms))], 1),
        "max_ms": round(delays_ms[-1], 1),
    }
