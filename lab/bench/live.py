"""The live page under load: `python -m lab.bench.live`. Prints tables; everything goes to docs/results/live.json.

events   from an event's time stamp, taken before its commit, to its line in the page of a real browser, and to each of
         99 further readers of the stream, all of whom also fetch the drawn part of the page about once a second
opening  a run of 5,000 candidates: the answers of the server with a cold cache, and the page in a browser

The whole site runs on this machine, with a fake judge. Numbers from a busy machine are worth little: the load average
stands in the output.
"""

import asyncio
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from tests.stack import ROOT, Stack

READERS = 99
EVENTS = 150
PAUSE_S = 0.2
CANDIDATES = 5000
OPENINGS = 7
OUT = ROOT / "docs" / "results" / "live.json"
MAKE = """
import sys, time
import django; django.setup()
from django.db import transaction
from agents.models import Run
from agents.evolve.budget import Caps
from agents.evolve.events import Draft
from agents import services
from tests.agents import factories
what, count, pause_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
if what == "large":
    print(factories.large(count).code, flush=True)
else:
    with transaction.atomic():  # before a worker of the site can claim it
        run = factories.started(caps=Caps(judgings=count))
        holding = factories.claimed(run)
        Run.objects.filter(pk=run.pk).update(heartbeat=None)
    holding.log.append([Draft("run.started", None, {})])
    print(run.code, flush=True)
    sys.stdin.readline()
    for number in range(count):
        time.sleep(pause_s)
        holding.log.append([Draft("note", None, {"text": f"event {number}"})])
    holding.log.append([Draft("run.finished", None, {"reason": "budget", "text": "done"})])
"""
WATCH = """
() => {
  window.seen = [];
  const note = (lines) => lines.forEach((line) => {
    const found = line.dataset && line.dataset.seq;
    if (found) window.seen.push([Number(found), Date.now() / 1000]);
  });
  new MutationObserver((changes) => changes.forEach((change) => note(change.addedNodes)))
    .observe(document.getElementById("live"), { childList: true, subtree: true });
}
"""


class Reader:
    """One viewer without a screen: follows the stream and fetches the drawn part."""

    def __init__(self, port: int, code: str, number: int) -> None:
        self.port, self.code, self.number = port, code, number
        self.delays_s: list[float] = []
        self.seqs: list[int] = []
        self.fetches = 0
        self._news = asyncio.Event()

    async def follow(self) -> None:
        fetching = asyncio.create_task(self._fetch())
        reader, writer = await self._ask(f"/events/?topics=run:{self.code}&after=0")
        while (line := await reader.readline()) and line != b"event: end\n":
            if line.startswith(b'data: {"seq"'):
                event = json.loads(line[6:])
                self.delays_s.append(time.time() - event["at_s"])
                self.seqs.append(event["seq"])
                self._news.set()
        writer.close()
        fetching.cancel()

    async def _fetch(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            reader, writer = await self._ask(f"/runs/{self.code}/live/?x=judgings")
            await reader.read()
            writer.close()
            self.fetches += 1
            await asyncio.sleep(1)

    async def _ask(self, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        here = (f"127.0.0.{self.number + 2}", 0)  # one address may have only a few streams
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 22, local_addr=here)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        return reader, writer


def child(stack: Stack, *arguments: str) -> "subprocess.Popen[str]":
    environment = {**stack.environment, "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-c", MAKE, *arguments]
    return subprocess.Popen(argv, cwd=ROOT, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def events(stack: Stack, page: Page) -> dict[str, Any]:
    writer = child(stack, "events", str(EVENTS), str(PAUSE_S))
    code = writer.stdout.readline().strip() if writer.stdout else ""
    page.goto(f"http://127.0.0.1:{stack.port}/runs/{code}/")
    page.get_by_text("following live").wait_for()
    page.evaluate(WATCH)
    readers = [Reader(stack.port, code, number) for number in range(READERS)]
    with ThreadPoolExecutor(1) as pool:  # the browser's driver has the loop of this thread
        pool.submit(asyncio.run, _read(readers, writer)).result()
    page.get_by_text("Finished", exact=True).wait_for()
    stamps = dict(
        stack.rows(
            "select seq, at_s from agents_runevent e join agents_run r on r.id = e.run_id where r.code = ?",
            code.replace("-", ""),
        )
    )
    shown = [at_s - stamps[seq] for seq, at_s in page.evaluate("window.seen")]
    expected = sorted(stamps)
    return {
        "viewers": READERS + 1,
        "events": len(expected),
        "browser_ms": figures(shown),
        "readers_ms": figures([delay_s for reader in readers for delay_s in reader.delays_s[2:]]),  # two are replayed
        "fetches": sum(reader.fetches for reader in readers),
        "lost_or_doubled": sum(reader.seqs != expected for reader in readers),
    }


async def _read(readers: list[Reader], writer: "subprocess.Popen[str]") -> None:
    tasks = [asyncio.create_task(reader.follow()) for reader in readers]
    await asyncio.sleep(3)
    if writer.stdin:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    await asyncio.gather(*tasks)


def figures(delays_s: list[float]) -> dict[str, float]:
    values = sorted(delay_s * 1000 for delay_s in delays_s)
    return {
        "count": len(values),
        "median": round(statistics.median(values), 1),
        "p95": round(values[int(len(values) * 0.95)], 1),
        "max": round(values[-1], 1),
    }


def opening(stack: Stack, page: Page) -> dict[str, Any]:
    maker = child(stack, "large", str(CANDIDATES), "0")
    code = maker.communicate()[0].strip().splitlines()[-1]
    base = f"http://127.0.0.1:{stack.port}/runs/{code}/"
    found: dict[str, Any] = {"candidates": CANDIDATES}
    found["events"] = stack.rows(
        "select count(*) from agents_runevent e join agents_run r on r.id = e.run_id where r.code = ?",
        code.replace("-", ""),
    )[0][0]
    for name, path in {"run": "", "candidates": "candidates/", "log": "log/", "past": "?at=20000"}.items():
        found[f"{name}_ms"] = figures([_fetched_s(base + path) for _ in range(OPENINGS)])
    found["browser_ms"] = figures([_loaded_s(page, base) for _ in range(OPENINGS)])
    return found


def _fetched_s(url: str) -> float:
    time.sleep(2.2)  # what is drawn is kept for two seconds
    began = time.perf_counter()
    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - our own http address
        answer.read()
    return time.perf_counter() - began


def _loaded_s(page: Page, url: str) -> float:
    time.sleep(2.2)
    began = time.perf_counter()
    page.goto(url)
    page.locator("[data-part=lineage]").wait_for()
    return time.perf_counter() - began


def main() -> None:
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with tempfile.TemporaryDirectory(prefix="kb-live-") as folder, sync_playwright() as playwright:
        stack = Stack(Path(folder)).up()
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        try:
            page = browser.new_page()
            result = {"events": events(stack, page), "opening": opening(stack, page), "machine": machine()}
        finally:
            browser.close()
            stack.down()
    OUT.write_text(json.dumps(result, indent=1) + "\n")
    print(re.sub(r'[{}",]', "", json.dumps(result, indent=1)))
    print(json.dumps(result))


def machine() -> dict[str, Any]:
    load = [round(value, 1) for value in os.getloadavg()]
    return {
        "cores": len(os.sched_getaffinity(0)),
        "load_average": load,
        "shared": load[0] > len(os.sched_getaffinity(0)),
    }


if __name__ == "__main__":
    main()
