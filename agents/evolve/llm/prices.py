"""The price of a call: exact dollars from its usage, and an upper bound before it is made.

Prices come from `prices.toml`; an operator's file replaces models one by one. A model without a price is refused.
Not covered: server tools, priority and fast service, which kbench never asks for.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

SHIPPED = Path(__file__).with_name("prices.toml")
_MTOK = Decimal(1_000_000)


class PriceError(Exception):
    """A price table that cannot be used, or a model that it does not name."""


@dataclass(frozen=True)
class Usage:
    """The tokens of one call as the vendor counts them; `input_tokens` are those that no cache was involved in."""

    input_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    cache_read_tokens: int = 0
    output_tokens: int = 0
    us_inference: bool = False
    batch: bool = False

    @property
    def prompt_tokens(self) -> int:
        written = self.cache_write_5m_tokens + self.cache_write_1h_tokens
        return self.input_tokens + written + self.cache_read_tokens


@dataclass(frozen=True)
class Rates:
    """US dollars per million tokens."""

    input: Decimal
    output: Decimal
    cache_write_5m: Decimal
    cache_write_1h: Decimal
    cache_read: Decimal

    def usd(self, usage: Usage) -> Decimal:
        return (
            self.input * usage.input_tokens
            + self.output * usage.output_tokens
            + self.cache_write_5m * usage.cache_write_5m_tokens
            + self.cache_write_1h * usage.cache_write_1h_tokens
            + self.cache_read * usage.cache_read_tokens
        ) / _MTOK

    def bound_usd(self, prompt_tokens: int, output_tokens: int) -> Decimal:
        """Every token of the prompt at the dearest rate, and the whole answer."""
        dearest = max(self.input, self.cache_write_5m, self.cache_write_1h, self.cache_read)
        return (dearest * prompt_tokens + self.output * output_tokens) / _MTOK


@dataclass(frozen=True)
class Model:
    """One model: its limits and rates, and those of prompts above `long_above_tokens` where they differ."""

    id: str
    context_tokens: int
    max_output_tokens: int
    rates: Rates
    long_above_tokens: int | None = None
    long_rates: Rates | None = None

    def rates_for(self, prompt_tokens: int) -> Rates:
        """The tier of the whole call, which the length of its prompt decides."""
        if self.long_rates and self.long_above_tokens is not None and prompt_tokens > self.long_above_tokens:
            return self.long_rates
        return self.rates


@dataclass(frozen=True)
class PriceTable:
    """Every model that may be called, as of `dated`."""

    dated: date
    models: Mapping[str, Model]
    us_inference_factor: Decimal
    batch_factor: Decimal

    def model(self, name: str) -> Model:
        """Raises PriceError for a model that has no price: it is never called."""
        if name not in self.models:
            raise PriceError(f"there is no price for the model {name!r}; known: {', '.join(sorted(self.models))}")
        return self.models[name]

    def usd(self, name: str, usage: Usage) -> Decimal:
        """The exact price of a call."""
        usd = self.model(name).rates_for(usage.prompt_tokens).usd(usage)
        usd *= self.us_inference_factor if usage.us_inference else 1
        return usd * (self.batch_factor if usage.batch else 1)

    def bound_usd(self, name: str, prompt_tokens: int, max_output_tokens: int) -> Decimal:
        """The most that a call can cost. `prompt_tokens` is itself a bound: every tier that it allows counts."""
        model = self.model(name)
        tiers = (model.rates, model.rates_for(prompt_tokens))
        usd = max(tier.bound_usd(prompt_tokens, max_output_tokens) for tier in tiers)
        return usd * max(self.us_inference_factor, Decimal(1))

    def to_json(self) -> dict[str, Any]:
        """For the log of a run: the prices that it was made with."""
        return {"dated": self.dated.isoformat(), "models": {name: _plain(item) for name, item in self.models.items()}}


def load_prices(override: Path | None = None) -> PriceTable:
    """The table that comes with kbench, with the models of `override` in place of its own. Raises PriceError."""
    table = _read(SHIPPED)
    if override is None:
        return table
    own = _read(override, table)
    return PriceTable(own.dated, {**table.models, **own.models}, own.us_inference_factor, own.batch_factor)


def _read(path: Path, fallback: PriceTable | None = None) -> PriceTable:
    try:
        data = tomllib.loads(path.read_text())
        return PriceTable(
            dated=_date(data["dated"]),
            models={name: _model(name, item) for name, item in data.get("models", {}).items()},
            us_inference_factor=_factor(data, "us_inference_factor", fallback),
            batch_factor=_factor(data, "batch_factor", fallback),
        )
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PriceError(f"cannot read the model prices in {path.name}: {error}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise PriceError(f"the model prices in {path.name} lack or misuse {error}") from error


def _factor(data: Mapping[str, Any], key: str, fallback: PriceTable | None) -> Decimal:
    if key not in data and fallback is not None:
        value: Decimal = getattr(fallback, key)
        return value
    return _decimal(data[key], key)


def _date(value: object) -> date:
    if not isinstance(value, date):
        raise PriceError(f"`dated` is not a date: {value!r}")
    return value


def _model(name: str, item: Mapping[str, Any]) -> Model:
    long = item.get("long_prompt")
    return Model(
        id=name,
        context_tokens=_count(item["context_tokens"], name),
        max_output_tokens=_count(item["max_output_tokens"], name),
        rates=_rates(item),
        long_above_tokens=_count(long["above_tokens"], name) if long else None,
        long_rates=_rates(long) if long else None,
    )


def _rates(item: Mapping[str, Any]) -> Rates:
    return Rates(**{name: _decimal(item[name], name) for name in Rates.__dataclass_fields__})


def _decimal(value: object, name: str) -> Decimal:
    """Prices are written as strings, so that none goes through binary fractions."""
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise PriceError(f"{name} must be written in quotes or as a whole number, not {value!r}")
    try:
        price = Decimal(value)
    except InvalidOperation as error:
        raise PriceError(f"{name} is not a number: {value!r}") from error
    if not price.is_finite() or price < 0:
        raise PriceError(f"{name} is not a price: {value!r}")
    return price


def _count(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise PriceError(f"{name} has an invalid number of tokens: {value!r}")
    return value


def _plain(model: Model) -> dict[str, Any]:
    rates = {name: str(getattr(model.rates, name)) for name in Rates.__dataclass_fields__}
    if model.long_rates is None:
        return rates
    long = {name: str(getattr(model.long_rates, name)) for name in Rates.__dataclass_fields__}
    return {**rates, "long_prompt": {"above_tokens": model.long_above_tokens, **long}}
