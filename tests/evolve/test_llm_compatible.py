"""Local models through OpenAI's own client: a server on a real socket that answers, errs, and breaks off."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agents.evolve.budget import Caps, Cost
from agents.evolve.config import ConfigError, RunConfig
from agents.evolve.llm.client import LlmClient
from agents.evolve.llm.compatible import CompatibleAccess
from agents.evolve.llm.outcomes import Completion, Failure, Kind
from agents.evolve.llm.prices import PriceTable, load_prices
from agents.evolve.llm.stream import StreamRequest
from agents.evolve.logs import MemoryLog
from agents.evolve.proposers import find_proposer
from agents.evolve.proposers.compatible import Compatible
from agents.evolve.state import RunState
from tests.evolve import world
from tests.evolve.llm_kit import Clock, Ledger, Watcher

pytest.importorskip("openai")
PRICES = """
dated = 2026-11-25
[models.local]
input = "1"
output = "2"
cache_write_5m = "1"
cache_write_1h = "1"
cache_read = "0.5"
context_tokens = 32_000
max_output_tokens = 8_000
"""
KEY = "local-key-123456"
ASKED = StreamRequest("propose", "local", ("the rules", "the task"), "a kernel, please", 400)


@dataclass(frozen=True)
class Said:
    """One answer. `breaks`: the connection is closed after the text."""

    text: str = "hello"
    finish: str | None = "stop"
    usage: dict[str, Any] | None = field(default_factory=lambda: {"prompt_tokens": 100, "completion_tokens": 20})
    status: int = 200
    error: dict[str, Any] = field(default_factory=dict)
    breaks: bool = False
    location: str = ""


@contextmanager
def serving(*answers: Said) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The address, and the bodies of the requests with their `Authorization`. The last answer is repeated."""
    seen: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            said = answers[min(len(seen), len(answers) - 1)]
            seen.append({**body, "authorization": self.headers["Authorization"]})
            self.send_response(said.status)
            if said.location:
                self.send_header("Location", said.location)
            self.send_header("Content-Type", "text/event-stream" if said.status == 200 else "application/json")
            self.end_headers()
            if said.status != 200:
                self.wfile.write(json.dumps({"error": said.error}).encode())
                return
            for line in lines(said):
                self.wfile.write(line)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def lines(said: Said) -> Iterator[bytes]:
    def chunk(choices: list[dict[str, Any]], **more: Any) -> bytes:
        data = {
            "id": "c1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "local",
            "choices": choices,
            **more,
        }
        return f"data: {json.dumps(data)}\n\n".encode()

    for start in range(0, len(said.text), 5):
        yield chunk([{"index": 0, "delta": {"content": said.text[start : start + 5]}, "finish_reason": None}])
    if said.breaks:
        return
    yield chunk([{"index": 0, "delta": {}, "finish_reason": said.finish}])
    if said.usage is not None:
        yield chunk([], usage={**said.usage, "total_tokens": 0})
    yield b"data: [DONE]\n\n"


@pytest.fixture
def prices(tmp_path: Path) -> PriceTable:
    (tmp_path / "prices.toml").write_text(PRICES)
    return load_prices(tmp_path / "prices.toml")


def plain() -> httpx2.AsyncClient:
    return httpx2.AsyncClient(trust_env=False)


@dataclass
class Called:
    """The outcome of one call and what was written down of it."""

    outcome: Completion | Failure
    ledger: Ledger
    seen: list[dict[str, Any]]
    clock: Clock


@pytest.fixture
def called(prices: PriceTable) -> Callable[..., Called]:
    def call(*answers: Said, asked: StreamRequest = ASKED) -> Called:
        clock, ledger = Clock(), Ledger(Cost(usd=10.0, input_tokens=10**6, output_tokens=10**6))
        with serving(*answers) as (url, seen):
            client = LlmClient(CompatibleAccess(url, KEY, plain), prices, clock=clock, sleep=clock.sleep)
            try:
                outcome: Completion | Failure = asyncio.run(client.call(asked, ledger, Watcher()))
            except Failure as failure:
                outcome = failure
        return Called(outcome, ledger, seen, clock)

    return call


def test_an_answer_comes_whole_and_costs_what_the_server_tells(called: Callable[..., Called]) -> None:
    told = {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 40}}
    found = called(Said("a whole answer", usage=told))
    assert isinstance(found.outcome, Completion)
    assert found.outcome.text == "a whole answer"
    [(usage, cost)] = found.ledger.usages
    assert usage == {"input_tokens": 60, "cache_read_tokens": 40, "output_tokens": 20}
    assert cost == Cost(usd=pytest.approx((60 + 20 + 40) / 1e6), input_tokens=60, output_tokens=20)  # type: ignore[arg-type]
    [body] = found.seen
    assert body["authorization"] == f"Bearer {KEY}"
    assert (body["model"], body["max_tokens"], body["stream"]) == ("local", 400, True)
    assert [item["role"] for item in body["messages"]] == ["system", "user"]


@pytest.mark.parametrize(
    ("said", "kind", "charged"),
    [
        (Said(finish="length"), Kind.MAX_TOKENS, True),
        (Said(finish="content_filter"), Kind.REFUSAL, True),
        (Said("x" * 400 * 70), Kind.FLOOD, True),
        (Said(status=401, error={"message": f"bad key {KEY}"}), Kind.KEY_REFUSED, False),
        (Said(status=404, error={"message": "no such model"}), Kind.MODEL_UNKNOWN, False),
        (Said(status=400, error={"message": "no"}), Kind.BAD_REQUEST, False),
        (Said(status=429, error={"message": "no money", "code": "insufficient_quota"}), Kind.UNPAID, False),
    ],
)
def test_what_is_no_answer_is_not_asked_for_again(
    called: Callable[..., Called], said: Said, kind: Kind, charged: bool
) -> None:
    found = called(said)
    assert isinstance(found.outcome, Failure)
    assert found.outcome.kind is kind
    assert KEY not in found.outcome.text
    assert len(found.seen) == 1
    assert bool(found.ledger.usages) is charged
    assert found.ledger.open_bound is None


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_that_is_busy_is_asked_again_and_costs_nothing(called: Callable[..., Called], status: int) -> None:
    found = called(Said(status=status, error={"message": "busy"}), Said("now"))
    assert isinstance(found.outcome, Completion)
    assert len(found.seen) == 2
    assert found.clock.slept_s == [1.0]
    assert (found.ledger.freed, len(found.ledger.usages)) == (1, 1)


def test_an_answer_that_breaks_off_is_charged_in_full_and_asked_for_once_more(called: Callable[..., Called]) -> None:
    found = called(Said("half of an", breaks=True))
    assert isinstance(found.outcome, Failure)
    assert found.outcome.kind is Kind.CUT
    assert len(found.seen) == 2
    assert [usage for usage, _ in found.ledger.usages] == [{"assumed": "all"}] * 2


def test_a_server_that_tells_no_tokens_is_charged_in_full(called: Callable[..., Called]) -> None:
    found = called(Said("an answer", usage=None))
    assert isinstance(found.outcome, Completion)
    assert found.ledger.usages[0][0] == {"assumed": "all"}


def test_the_key_goes_to_no_other_address(called: Callable[..., Called]) -> None:
    with serving(Said()) as (elsewhere, others):
        found = called(Said(status=307, location=f"{elsewhere}/chat/completions"))
    assert isinstance(found.outcome, Failure)
    assert others == []


def test_nobody_at_the_address(prices: PriceTable) -> None:
    clock = Clock()
    client = LlmClient(CompatibleAccess("http://127.0.0.1:9/v1", KEY, plain), prices, clock=clock, sleep=clock.sleep)
    ledger = Ledger(Cost(usd=10.0, input_tokens=10**6, output_tokens=10**6))
    with pytest.raises(Failure) as failed:
        asyncio.run(client.call(ASKED, ledger, Watcher()))
    assert failed.value.kind is Kind.PAUSED_BY_BREAKER
    assert all("cannot be reached" in text for _, text, _ in ledger.attempts)
    assert (ledger.freed, ledger.usages) == (len(ledger.attempts), [])


def test_it_is_offered_only_where_an_address_a_model_and_a_price_are_set(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(PRICES)
    config = RunConfig(task=world.TASK.name, proposer="compatible")
    here = {"openai_base_url": "http://127.0.0.1:9/v1", "openai_model": "local", "prices": tmp_path / "prices.toml"}
    assert find_proposer(config, here).name == "compatible"
    for missing in ("openai_base_url", "openai_model"):
        with pytest.raises(ConfigError, match="OPENAI_BASE_URL, OPENAI_MODEL"):
            find_proposer(config, {**here, missing: None})
    with pytest.raises(ConfigError, match="a price of 0 is allowed"):
        find_proposer(config, {**here, "prices": None})


def test_a_run_is_led_by_a_local_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop with a real socket: prose first, then a kernel."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (tmp_path / "prices.toml").write_text(PRICES)
    kernel = f"NAME: plain\nTHOUGHT: first\nCODE:\n```cpp\n{world.kernel(3, 3, 3)}\n```\n"
    config = RunConfig(
        task=world.TASK.name, proposer="compatible", seed=1, caps=Caps(judgings=1, usd=1.0), generation_size=1
    )
    with serving(Said("only words"), Said(kernel)) as (url, seen):
        here = {"openai_base_url": url, "openai_model": "local", "prices": tmp_path / "prices.toml"}
        log = MemoryLog()
        world.run(log, config, proposer=Compatible.from_config(config, here), verifiers=())
    state = RunState.fold(log.read(), log.get_source)
    assert [item.state for item in state.archive.candidates.values()] == ["refused", "judged"]
    assert "no fenced block" in seen[1]["messages"][1]["content"]
    assert state.budget.spent.usd == pytest.approx(2 * 140 / 1e6)
