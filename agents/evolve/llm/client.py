"""Calls to the vendor with bounded waits, a circuit breaker and a meter: none hangs, loops or exceeds its reservation.

The SDK's own retries are off: they are invisible and sleep as long as a header tells them to. Not covered: what is
asked (`prompting.py`) and what an answer means (`answers.py`). The SDK is imported with the first call, here and in the
modules beside this one: its import takes a second of processor time, and most processes of a site never call.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import httpx2

from ..budget import Cost
from ..events import Live
from ..model import Meter
from .breaker import FAILURES, Breaker
from .deltas import Deltas
from .outcomes import Completion, Failure, Kind
from .prices import PriceTable, Usage
from .stream import Account, Listener, Sleep, StreamRequest, fetch
from .warmup import Turn, Warmup

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

VENDOR_URL = "https://api.anthropic.com"


@dataclass(frozen=True)
class Patience:
    """How long one call is tried. What may be billed is asked again `reissues` times, what was free more often."""

    waits_s: float = 600.0  # all waits of a call together
    first_wait_s: float = 1.0  # doubled from one failure to the next
    longest_wait_s: float = 60.0  # of our own choice; the vendor may ask for more
    reissues: int = 1
    silence_s: float = 120.0  # without a byte, after which a stream counts as dead
    connect_s: float = 10.0


@dataclass(frozen=True)
class Access:
    """Who calls, where, and through what. `http_client` is for operators and tests with a transport of their own."""

    api_key: str = field(repr=False)
    base_url: str = VENDOR_URL
    http_client: Callable[[], httpx2.AsyncClient] | None = None

    async def fetch(
        self,
        patience: Patience,
        request: StreamRequest,
        account: Account,
        say: Listener,
        started: Callable[[], None],
    ) -> Completion:
        """One attempt, as `stream.fetch`."""
        async with self.client(patience) as client:
            return await fetch(client, request, account, say, started)

    def client(self, patience: Patience) -> "AsyncAnthropic":
        """One per attempt, closed after it: nothing stays open when a run ends.

        It follows no redirect. The SDK does by default, and the headers that it sends on can hold the key.
        """
        import anthropic

        http_client = self.http_client() if self.http_client else anthropic.DefaultAsyncHttpxClient()
        http_client.follow_redirects = False
        return anthropic.AsyncAnthropic(
            api_key=self.api_key,
            base_url=self.base_url,
            max_retries=0,
            timeout=httpx2.Timeout(patience.silence_s, connect=patience.connect_s),
            open_telemetry=False,
            http_client=http_client,
        )


class ModelAccess(Protocol):
    """A way to a model: `Access`, or `compatible.CompatibleAccess`."""

    @property
    def api_key(self) -> str: ...

    async def fetch(
        self,
        patience: Patience,
        request: StreamRequest,
        account: Account,
        say: Listener,
        started: Callable[[], None],
    ) -> Completion:
        """One attempt. Raises Failure for whatever is no whole answer."""


class LlmClient:
    """Shared by all calls of a run. Time comes from `clock` and passes in `sleep`."""

    def __init__(
        self,
        access: ModelAccess,
        prices: PriceTable,
        patience: Patience | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.prices = prices
        self.patience = patience or Patience()
        self._access, self._clock, self._sleep = access, clock, sleep
        self._breaker = Breaker(clock)
        self._warmup = Warmup(clock)

    def bound(self, request: StreamRequest) -> Cost:
        """The most that `call` can cost, whatever is asked for again included."""
        one = self._bound_of_one(request)
        return sum((one for _ in range(self.patience.reissues)), one)

    async def call(self, request: StreamRequest, meter: Meter, live: Live) -> Completion:
        """One answer. Raises Failure when patience, reissues or hope are at an end."""
        tries = _Tries(self.patience)
        while True:
            await self._admitted(request.model, tries)
            account = Account()
            try:
                completion = await self._in_turn(request, account, meter, Deltas(live, self._clock))
            except Failure as failure:
                meter.attempt(request.role, request.model, failure.status, self._clean(failure), failure.retry_after_s)
                await self._pause(tries, tries.wait_s(failure, billed=account.sent), failure)
            else:
                meter.attempt(request.role, request.model, 200)
                return completion

    async def _in_turn(self, request: StreamRequest, account: Account, meter: Meter, deltas: Deltas) -> Completion:
        """One attempt, which the breaker hears of."""
        try:
            with await self._warmup.turn((request.model, request.effort, request.system)) as turn:
                completion = await self._attempt(request, account, meter, deltas, turn)
            self._breaker.passed(request.model)
            return completion
        except Failure as failure:
            (self._breaker.failed if failure.outage else self._breaker.passed)(request.model)
            raise
        finally:
            self._breaker.left(request.model)

    async def _attempt(
        self, request: StreamRequest, account: Account, meter: Meter, deltas: Deltas, turn: Turn
    ) -> Completion:
        """Whatever happens, a cancellation included, the meter is told what it cost."""
        meter.open(self._bound_of_one(request))
        try:
            return await self._access.fetch(self.patience, request, account, deltas.say, turn.begun)
        finally:
            deltas.flush()
            self._settle(request, account, meter)

    def _settle(self, request: StreamRequest, account: Account, meter: Meter) -> None:
        if not account.sent:
            meter.free()
        elif not account.started:
            meter.usage(request.role, request.model, {"assumed": "all"}, self._bound_of_one(request))
        else:
            usage = account.usage(request.max_tokens)
            told = {**_told(usage), **({} if account.ended else {"assumed": "output_tokens"})}
            meter.usage(request.role, request.model, told, self._cost(request.model, usage))

    def _cost(self, model: str, usage: Usage) -> Cost:
        """What was read from a cache is in the dollars and not in the tokens."""
        fresh = usage.prompt_tokens - usage.cache_read_tokens
        return Cost(float(self.prices.usd(model, usage)), input_tokens=fresh, output_tokens=usage.output_tokens)

    async def _admitted(self, model: str, tries: "_Tries") -> None:
        while (wait_s := self._breaker.wait_s(model)) > 0:
            failure = Failure(Kind.PAUSED_BY_BREAKER, f"{model} has failed {FAILURES} times and more in a row")
            await self._pause(tries, tries.within(wait_s), failure)

    async def _pause(self, tries: "_Tries", wait_s: float | None, failure: Failure) -> None:
        """Raises `failure` where there is no wait that patience allows."""
        if wait_s is None:
            failure.text = self._clean(failure)
            raise failure
        tries.waited_s += wait_s
        await self._sleep(wait_s)

    def _clean(self, failure: Failure) -> str:
        """A server that repeats the key must not bring it into a log."""
        key = self._access.api_key
        return failure.text.replace(key, "(key)") if key else failure.text

    def _bound_of_one(self, request: StreamRequest) -> Cost:
        usd = self.prices.bound_usd(request.model, request.prompt_tokens_bound, request.max_tokens)
        return Cost(float(usd), input_tokens=request.prompt_tokens_bound, output_tokens=request.max_tokens)


@dataclass
class _Tries:
    """How often and how long one call has been tried."""

    patience: Patience
    failures: int = 0
    billed: int = 0
    waited_s: float = 0.0

    def wait_s(self, failure: Failure, *, billed: bool) -> float | None:
        """How long to wait before the next attempt; None if there is to be none."""
        self.failures += 1
        self.billed += billed
        if not failure.transient or self.billed > self.patience.reissues:
            return None
        own_s = min(self.patience.first_wait_s * 2.0 ** (self.failures - 1), self.patience.longest_wait_s)
        return self.within(max(own_s, failure.retry_after_s or 0.0))

    def within(self, wait_s: float) -> float | None:
        return wait_s if self.waited_s + wait_s <= self.patience.waits_s else None


def _told(usage: Usage) -> dict[str, Any]:
    return {name: value for name, value in asdict(usage).items() if value}
