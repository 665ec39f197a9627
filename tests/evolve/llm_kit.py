"""What the tests of calls share: a meter that keeps everything, a clock that only sleeping moves, a calculator.

The calculator knows the price list by heart and shares no code with the product.
"""

import httpx2

from agents.evolve.budget import Cost
from agents.evolve.llm.client import Access, LlmClient, Patience
from agents.evolve.llm.prices import load_prices
from agents.evolve.llm.stream import StreamRequest

KEY = "sk-test-0123456789"
PRICES = load_prices()


class Clock:
    def __init__(self):
        self.now_s = 0.0
        self.slept_s = []

    def __call__(self):
        return self.now_s

    async def sleep(self, seconds):
        self.slept_s.append(seconds)
        self.now_s += seconds


class Ledger:
    """A meter with a reservation, in memory. Never more than one call is open, and never more than `left` spent."""

    def __init__(self, reserved):
        self.reserved, self.spent, self.open_bound = reserved, Cost(), None
        self.attempts, self.usages, self.freed, self.tools = [], [], 0, []

    @property
    def left(self):
        return self.reserved - self.spent - (self.open_bound or Cost())

    def open(self, bound):
        if any(value < -1e-12 for value in (self.left - bound).to_json().values()):
            raise ValueError("more than is left")
        assert self.open_bound is None
        self.open_bound = bound

    def attempt(self, role, model, status, text="", retry_after_s=None):
        self.attempts.append((status, text, retry_after_s))

    def free(self):
        assert self.open_bound is not None
        self.open_bound, self.freed = None, self.freed + 1

    def tool(self, said, source, cost):
        assert self.open_bound is not None
        self.open_bound = None
        self.tools.append((dict(said), source))
        self.spent += cost

    def usage(self, role, model, usage, cost):
        assert self.open_bound is not None
        self.open_bound = None
        self.usages.append((dict(usage), cost))
        self.spent += cost


class Watcher:
    def __init__(self):
        self.said = []

    def say(self, topic, payload):
        self.said.append((topic, dict(payload)))


def access(url):
    """Through no proxy, whatever the environment says: the server is on this machine and has no certificate."""
    return Access(KEY, url, http_client=lambda: httpx2.AsyncClient(trust_env=False, verify=False))


def client_of(server, clock=None, **patience):
    clock = clock or Clock()
    return LlmClient(access(server.url), PRICES, Patience(**patience), clock, clock.sleep)


def ask(**changes):
    values = {"role": "propose", "model": "claude-sonnet-5-5", "system": ("be brief",), "prompt": "a kernel, please"}
    return StreamRequest(**{**values, "max_tokens": 1_000, **changes})


_PRICES_USD_PER_MTOK = {  # in, out, written for 5 minutes, for an hour, read
    "claude-haiku-5-5": (0.10, 0.50, 0.125, 0.20, 0.01),
    "claude-haiku-5-5 long": (0.50, 2.50, 0.625, 1.00, 0.05),
    "claude-sonnet-5-5": (2, 10, 2.50, 4, 0.10),
    "claude-opus-5-5": (4, 20, 5, 8, 0.20),
    "claude-opus-5": (5, 25, 6.25, 10, 0.50),
    "claude-fable-5-1": (10, 50, 12.50, 20, 0.25),
}


def calculated_usd(model, counts):
    """`counts` as the server wrote them down."""
    names = ("input_tokens", "output_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens", "cache_read_tokens")
    tokens = [counts.get(name, 0) for name in names]
    long = model == "claude-haiku-5-5" and sum(tokens) - tokens[1] > 100_000
    rates = _PRICES_USD_PER_MTOK[f"{model} long" if long else model]
    usd = sum(rate * count for rate, count in zip(rates, tokens, strict=True)) / 1e6
    return usd * (1.1 if counts.get("us") else 1) * (0.5 if counts.get("batch") else 1)
