"""Amounts, caps and the fold of reservations."""

import pytest

from agents.evolve.budget import CURRENCIES, Budget, Caps, Cost
from agents.evolve.config import ConfigError, RunConfig
from agents.evolve.events import LogEvent
from agents.evolve.rng import Rng


def test_a_cost_counts_in_every_currency() -> None:
    one = Cost(usd=1.5, input_tokens=10, output_tokens=3, judgings=1, judging_s=2.0, wall_s=4.0)
    assert one + one - one == one
    assert Cost.from_json(one.to_json()) == one
    assert Cost().to_json() == {}


@pytest.mark.parametrize("currency", CURRENCIES)
def test_what_is_reserved_is_not_there_twice(currency: str) -> None:
    budget = Budget(Caps(**{currency: 10}))
    half = Cost(**{currency: 6})
    assert budget.fits(half) is None
    budget.reserve("one", half)
    assert budget.fits(half) == currency
    assert getattr(budget.left(), currency) == 4
    budget.apply(LogEvent(1, 0.0, "budget.settled", None, {"lease": "one", "cost": {currency: 1}}))
    assert budget.fits(half) is None
    assert getattr(budget.spent, currency) == 1
    assert budget.reserved == Cost()


def test_no_cap_is_no_limit() -> None:
    assert Budget(Caps()).fits(Cost(usd=1e9, judgings=10**9)) is None
    assert Budget(Caps(judgings=0)).fits(Cost(judgings=1)) == "judgings"


def test_a_lease_is_open_once() -> None:
    budget = Budget(Caps())
    budget.reserve("one", Cost(usd=1))
    with pytest.raises(ValueError, match="open already"):
        budget.reserve("one", Cost(usd=1))


def test_random_reservations_never_pass_a_cap() -> None:
    rng, caps = Rng(5, "budget"), Caps(usd=3.0, judgings=20)
    budget, open_leases = Budget(caps), []
    for step in range(2000):
        cost = Cost(usd=rng.random(), judgings=rng.integers(4))
        if budget.fits(cost) is None:
            budget.reserve(str(step), cost)
            open_leases.append((str(step), cost))
        elif open_leases:
            lease, bound = open_leases.pop(rng.integers(len(open_leases)))
            actual = Cost(usd=bound.usd * rng.random() * 0.01).to_json()
            budget.apply(LogEvent(1, 0.0, "budget.settled", None, {"lease": lease, "cost": actual}))
        assert caps.exceeded_by(budget.spent + budget.reserved) is None
    assert budget.spent.usd > 0


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("generation_size", 0),
        ("concurrency", 0),
        ("judgings_at_once", 0),
        ("islands", 0),
        ("audit_fraction", 1.5),
        ("target", -1),
        ("caps", {}),
        ("colour", "red"),
    ],
)
def test_a_run_that_makes_no_sense_names_the_setting(setting: str, value: object) -> None:
    with pytest.raises(ConfigError, match="cap" if setting == "caps" else setting):
        RunConfig.from_json({"task": "mnist_pool/forward", setting: value})


def test_a_config_survives_the_log() -> None:
    config = RunConfig("mnist_pool/forward", caps=Caps(usd=1.0), options={"arms": ["x"]}, verifiers=("static",))
    assert RunConfig.from_json(config.to_json()) == config
