"""Whole runs through the real loop and the real SDK: no cap exceeded, no reservation left open, exact dollars."""

import asyncio
import itertools

import pytest

from agents.evolve.budget import Caps
from agents.evolve.config import RunConfig
from agents.evolve.llm import prompting
from agents.evolve.logs import MemoryLog
from agents.evolve.loop import create, drive
from agents.evolve.proposers.anthropic import Anthropic
from tests.evolve.llm_kit import Clock, Watcher, client_of
from tests.evolve.llm_runs import ARMS, PLAIN, Judge, problems, simulate
from tests.evolve.llm_server import Reply, error, script, serve


@pytest.mark.parametrize("first", range(0, 100, 25))
async def test_hostile_runs_keep_every_cap_and_every_cent(first):
    runs = [await simulate(seed) for seed in range(first, first + 25)]
    assert {run.seed: problems(run) for run in runs if problems(run)} == {}
    assert sum(len(run.served) for run in runs) > 50


GOOD = "NAME: k\nTHOUGHT: t\nCODE:\n```cpp\n" + PLAIN + "```"


async def run_with(decide, *, clock=None, wishes=None, config=None):
    """The log and the server of one run with the shipped prompts."""
    clock = clock or Clock()
    config = config or RunConfig("mnist_linear_relu/forward", proposer="anthropic", caps=Caps(judgings=24))
    log = MemoryLog()
    create(log, config, {})
    async with serve(decide, clock) as server:
        proposer = Anthropic(client_of(server, clock), ARMS[:1])
        await drive(log, proposer, [], Judge(), Watcher(), wishes or _always_go, sleep=clock.sleep)
        while any(item.open for item in server.served):
            await asyncio.sleep(0.005)
    return log.read(), server


async def _always_go():
    return "go"


def kernels(_body, number):
    return Reply(text=GOOD.format(n=number * 7919), piece_chars=400)


def read_share(server):
    billed = [item.billed for item in server.served]
    read = sum(item["cache_read_tokens"] for item in billed)
    return read / sum(sum(item.values()) - item["output_tokens"] for item in billed)


async def test_most_of_the_input_of_a_run_comes_from_the_cache():
    _, server = await run_with(kernels)
    assert len(server.served) == 24
    assert read_share(server) > 0.7


async def test_a_time_in_the_prefix_would_be_noticed(monkeypatch):
    number = itertools.count()
    original = prompting.task_text
    monkeypatch.setattr(prompting, "task_text", lambda *args: f"It is second {next(number)}.\n{original(*args)}")
    _, server = await run_with(kernels)
    assert read_share(server) < 0.7


async def test_an_hour_without_the_vendor_is_survived():
    clock = Clock()

    def decide(body, number):
        return error(529, "overloaded_error") if clock() < 3600 else kernels(body, number)

    events, server = await run_with(decide, clock=clock)
    assert events[-1].payload["reason"] == "budget"
    assert sum(event.type == "evaluation.finished" for event in events) == 24
    assert len(server.served) < 24 + 120  # asked about once in half a minute while it was down


async def test_a_spend_limit_pauses_the_run_with_words_for_a_person():
    events, server = await run_with(script(error(429, "rate_limit_error", code="enforced_spend_limit_reached")))
    assert (events[-1].type, len(server.served)) == ("run.paused", 1)
    assert "spend limit" in events[-1].payload["text"]


@pytest.mark.parametrize("end", ["stop", "wall"])
async def test_a_stream_is_left_when_the_run_has_to_stop(end):
    asked = []

    async def wishes():
        asked.append(1)
        return "stop" if end == "stop" and len(asked) > 1 else "go"

    caps = Caps(judgings=24, wall_s=1.5 if end == "wall" else None)
    config = RunConfig("mnist_linear_relu/forward", proposer="anthropic", caps=caps)
    events, server = await run_with(script(Reply(text="x" * 5_000, pause_s=0.02)), wishes=wishes, config=config)
    assert events[-1].payload["reason"] == ("stopped" if end == "stop" else "budget")
    assert server.served[0].disconnected
    leases = {event.payload["lease"] for event in events if event.type == "budget.reserved"}
    assert leases == {event.payload["lease"] for event in events if event.type == "budget.settled"}
