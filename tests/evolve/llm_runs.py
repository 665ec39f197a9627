"""Whole runs against the hostile server: random caps, random faults, and what must hold of the log afterwards.

Used by the suite for some runs and by `lab/bench/llm_runs.py` for a thousand. The checks share no code with the
product: they add up the log and the server's own books.
"""

import asyncio
import random
from dataclasses import dataclass

from agents.evolve.budget import Caps
from agents.evolve.config import RunConfig
from agents.evolve.llm.arms import Arm
from agents.evolve.logs import MemoryLog
from agents.evolve.loop import create, drive
from agents.evolve.model import JudgeResult, VerifierOpinion
from agents.evolve.proposers.anthropic import Anthropic
from agents.evolve.proposers.hybrid import Hybrid
from agents.evolve.verifiers.critic import Critic
from tests.evolve.llm_kit import Clock, Watcher, calculated_usd, client_of
from tests.evolve.llm_requests import row
from tests.evolve.llm_server import Reply, error, serve

CURRENCIES = ("usd", "input_tokens", "output_tokens", "judgings", "judging_s", "wall_s")
ARMS = (
    Arm("claude-haiku-5-5", "low", "free", 2_000),
    Arm("claude-sonnet-5-5", "low", "memory", 2_000),
    Arm("claude-opus-5-5", "high", "algorithm", 3_000),
)
HEAD = "NAME: kernel\nTHOUGHT: because\nCODE:\n```cpp\n"
TEMPLATE = "// TEMPLATE t\n// GENE TILE: 1 2 4 8\n// GENE MODE: a b\n// NAIVE TILE=1 MODE=a\n// DEFAULT TILE=4 MODE=b\n"
BODY = "#include <torch/extension.h>\nint forward_{n}() {{ return {n} + TILE + MODE; }}\nPYBIND11_MODULE(x, m) {{}}\n"
PLAIN = BODY.replace(" + TILE + MODE", " * {n}")
FAULTS = ("error", "eof", "abort", "garbage", "reset")


def replies(rng, *, form, hangs):
    """One reply after the other: mostly kernels, and everything that can go wrong. `hangs`: some never end."""

    def decide(body, number):
        if hangs and rng.random() < 0.3:
            return Reply(text="x" * 40, fault="hang", before_start=rng.random() < 0.5)
        drawn = rng.random()
        if drawn < 0.55:
            return good(rng, number, form, body)
        if drawn < 0.75:
            return rng.choice(
                [
                    error(429, "rate_limit_error", retry_after="1"),
                    error(429, "rate_limit_error", retry_after="3600"),
                    error(529, "overloaded_error"),
                    error(500, "api_error"),
                ]
            )
        if drawn < 0.92:
            fault = rng.choice(FAULTS)
            before = rng.random() < 0.3
            return Reply(text="x" * 40, fault=fault, before_start=before, after_delta=rng.random() < 0.3)
        return rng.choice(
            [
                Reply(text="prose"),
                Reply(text="", output_tokens=1),
                Reply(text=HEAD + "half", stop_reason="max_tokens", output_tokens=body["max_tokens"]),
                Reply(text="no", stop_reason="refusal"),
                Reply(text="x" * (70 * body["max_tokens"]), piece_chars=20_000, output_tokens=body["max_tokens"]),
            ]
        )

    return decide


def good(rng, number, form, body):
    if "format" in body.get("output_config", {}):
        return Reply(text='{"decision": "accept", "confidence": 90, "reasons": []}')
    code = (TEMPLATE + BODY if form == "template" else PLAIN).format(n=number * 7919 + rng.randrange(1000))
    usage = {"inference_geo": "us"} if rng.random() < 0.2 else {}
    spike = rng.choice([None, None, rng.randrange(1, body["max_tokens"])])
    return Reply(text=f"{HEAD}{code}```\n", output_tokens=spike, usage=usage, piece_chars=400)


class Judge:
    """Judges by the length of the key and of the source: the same every time."""

    async def submit(self, key, source, _language):
        self.sources = {**getattr(self, "sources", {}), key: source}
        return key

    async def wait(self, ticket, _live):
        number = sum(map(ord, self.sources[ticket])) % 97
        if number < 30:
            return JudgeResult("INCORRECT_VALUE", "wrong", seconds=2.0)
        score = 0.5 + number / 40
        return JudgeResult("PASS", "fine", score, (score, score), configs=(row(speedup=score),), seconds=3.0)

    async def withdraw(self, _ticket):
        return None


class Shrug:
    """Abstains, so that the paid verifier is asked."""

    id, version = "shrug", "1"

    async def judge(self, _source, _language, _task):
        return VerifierOpinion("abstain")


@dataclass
class Finished:
    seed: int
    events: list
    served: list
    stopped: bool
    caps: Caps


async def simulate(seed):
    """One run with caps, faults and plug-ins drawn from `seed`."""
    rng = random.Random(seed)
    form = "template" if seed % 3 == 0 else "kernel"
    caps = Caps(
        usd=rng.choice([None, rng.uniform(0.0, 1.5)]),
        input_tokens=rng.choice([None, rng.randrange(400_000)]),
        output_tokens=rng.choice([None, rng.randrange(60_000)]),
        judgings=rng.randrange(1, 10),
    )
    config = RunConfig(
        "mnist_linear_relu/forward", proposer="anthropic", caps=caps, seed=seed, generation_size=rng.randrange(1, 6),
        concurrency=8, translate_attempts=4, judging_bound_s=5.0, plateau=4,
    )  # fmt: skip
    stop_after = 1 if rng.random() < 0.1 else None
    log, clock = MemoryLog(), Clock()
    create(log, config, {})
    async with serve(replies(rng, form=form, hangs=stop_after is not None)) as server:
        client = client_of(server, clock, silence_s=5.0)
        proposer = (Hybrid if form == "template" else Anthropic)(client, ARMS)
        verifiers = [Shrug(), Critic(client)] if seed % 4 == 1 else []
        async with asyncio.timeout(120):
            await drive(log, proposer, verifiers, Judge(), Watcher(), _wishes(stop_after), sleep=clock.sleep)
    return Finished(seed, log.read(), server.served, stop_after is not None, caps)


def _wishes(stop_after):
    asked = [0]

    async def wish():
        asked[0] += 1
        return "stop" if stop_after is not None and asked[0] > stop_after else "go"

    return wish


def problems(run):
    """What does not hold, in words; empty if all is well."""
    return [*_budget_problems(run), *_money_problems(run)]


def _budget_problems(run):
    spent, leases, found = dict.fromkeys(CURRENCIES, 0.0), {}, []
    for event in run.events:
        cost = event.payload.get("cost", {})
        if event.type == "budget.reserved":
            leases[event.payload["lease"]] = cost
        elif event.type == "budget.settled":
            reserved = leases.pop(event.payload["lease"])
            found += [
                f"#{event.seq} more than reserved: {name}" for name in cost if cost[name] > reserved.get(name, 0) + 1e-9
            ]
            for name, value in cost.items():
                spent[name] += value
        for name in CURRENCIES:
            cap = getattr(run.caps, name)
            used = spent[name] + sum(item.get(name, 0) for item in leases.values())
            if cap is not None and used > cap + 1e-9:
                found.append(f"#{event.seq} {name}: {used} of {cap}")
    if leases:
        found.append(f"open: {sorted(leases)}")
    if run.events[-1].type not in ("run.finished", "run.paused"):
        found.append(f"the run ended with {run.events[-1].type}")
    return found


def _money_problems(run):
    settled_usd = sum(e.payload["cost"].get("usd", 0.0) for e in run.events if e.type == "budget.settled")
    billed_usd = sum(calculated_usd(item.body["model"], item.billed) for item in run.served if item.billed)
    found = []
    if billed_usd > settled_usd + 1e-9:
        found.append(f"billed {billed_usd} and settled only {settled_usd}")
    exact = not run.stopped and not any(item.reply.fault == "reset" for item in run.served)
    expected_usd = sum(map(expected_usd_of, run.served))
    if exact and abs(expected_usd - settled_usd) > 1e-6:
        found.append(f"settled {settled_usd}, the calculator says {expected_usd}")
    return found


def expected_usd_of(served):
    """What one request costs by the rules: exact where the end was told, else with the longest answer."""
    reply, body, model = served.reply, served.body, served.body["model"]
    if reply.error is not None or (reply.fault == "error" and reply.before_start):
        return 0.0
    if reply.fault and reply.before_start:
        return bound_usd(body)
    flood = len(reply.text) > 64 * body["max_tokens"]
    if flood or (reply.fault and not reply.after_delta):
        return calculated_usd(model, {**served.billed, "output_tokens": body["max_tokens"]})
    return calculated_usd(model, served.billed)


def bound_usd(body):
    texts = [*(block["text"] for block in body["system"]), body["messages"][0]["content"]]
    schema = body.get("output_config", {}).get("format", {}).get("schema")
    prompt_bytes = sum(len(text.encode()) for text in texts) + (len(str(schema)) if schema else 0) + 1_000
    counts = {"cache_write_1h_tokens": prompt_bytes, "output_tokens": body["max_tokens"], "us": 1}
    return calculated_usd(body["model"], counts)
