"""Dollars to the last digit, bounds that hold, tables that an operator may change and cannot break silently."""

import random
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.evolve.llm.prices import PriceError, Usage, load_prices
from tests.evolve.llm_kit import PRICES, calculated_usd

MODELS = sorted(PRICES.models)
COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens")


def some_counts(rng):
    return {name: rng.choice([0, 1, 511, 40_000, 100_000, rng.randrange(1_000_000)]) for name in COUNTS}


def test_it_agrees_with_the_calculator_on_five_hundred_usages():
    rng = random.Random(5)
    for number in range(500):
        model, counts = rng.choice(MODELS), some_counts(rng)
        batch, us = number % 3 == 0, number % 5 == 0
        usd = PRICES.usd(model, Usage(**counts, batch=batch, us_inference=us))
        assert float(usd) == pytest.approx(calculated_usd(model, {**counts, "batch": batch, "us": us}), abs=1e-6)


@pytest.mark.parametrize(("prompt_tokens", "usd"), [(100_000, "0.01"), (100_001, "0.0500005")])
def test_a_long_prompt_makes_the_whole_call_dearer(prompt_tokens, usd):
    assert PRICES.usd("claude-haiku-5-5", Usage(input_tokens=prompt_tokens)) == Decimal(usd)


def test_the_cache_counts_towards_a_long_prompt():
    usage = Usage(input_tokens=1, cache_read_tokens=100_000)
    assert PRICES.usd("claude-haiku-5-5", usage) == (Decimal("0.5") + 100_000 * Decimal("0.05")) / 1_000_000


@given(
    model=st.sampled_from(MODELS),
    counts=st.fixed_dictionaries(dict.fromkeys(COUNTS, st.integers(0, 300_000))),
    us=st.booleans(),
    slack=st.integers(0, 200_000),
)
def test_no_call_costs_more_than_its_bound(model, counts, us, slack):
    usage = Usage(**counts, us_inference=us)
    bound = PRICES.bound_usd(model, usage.prompt_tokens + slack, usage.output_tokens)
    assert PRICES.usd(model, usage) <= bound


def test_a_model_without_a_price_is_refused():
    with pytest.raises(PriceError, match="no price for the model 'claude-fable-5-2'"):
        PRICES.usd("claude-fable-5-2", Usage())


OWN = """
dated = 2026-12-01
[models.claude-opus-5-5]
input = "3"
output = "15"
cache_write_5m = "3.75"
cache_write_1h = "6"
cache_read = "0.3"
context_tokens = 200_000
max_output_tokens = 64_000
"""


def test_an_operator_replaces_models_one_by_one(tmp_path):
    path = tmp_path / "prices.toml"
    path.write_text(OWN)
    table = load_prices(path)
    assert table.usd("claude-opus-5-5", Usage(input_tokens=1_000_000, us_inference=True)) == Decimal("3.3")
    assert table.models["claude-haiku-5-5"] == PRICES.models["claude-haiku-5-5"]
    assert table.to_json()["dated"] == "2026-12-01"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('input = "3"', 'input = "-3"', "is not a price"),
        ('input = "3"', 'input = "NaN"', "is not a price"),
        ('input = "3"', "input = 0.3", "in quotes"),
        ('input = "3"', 'input = "three"', "not a number"),
        ('input = "3"\n', "", "lack or misuse 'input'"),
        ("dated = 2026-12-01", 'dated = "today"', "not a date"),
        ("context_tokens = 200_000", "context_tokens = 0", "number of tokens"),
        ("[models", "models", "cannot read"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused_with_the_reason(tmp_path, old, new, said):
    path = tmp_path / "prices.toml"
    path.write_text(OWN.replace(old, new))
    with pytest.raises(PriceError, match=said):
        load_prices(path)


def test_a_missing_table_is_refused(tmp_path):
    with pytest.raises(PriceError, match=r"cannot read the model prices in none\.toml"):
        load_prices(tmp_path / "none.toml")
