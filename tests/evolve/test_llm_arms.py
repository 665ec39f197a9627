"""The bandit: a fold over the archive, keyed draws, gain per dollar; and what arms an operator may not ask for."""

import math
from collections import Counter

import pytest

from agents.evolve.budget import Cost
from agents.evolve.config import ConfigError
from agents.evolve.llm.arms import DEFAULT_ARMS, FIRST_CORRECT_GAIN, Arm, Bandit, probabilities, read_arms
from agents.evolve.rng import Rng
from tests.evolve.llm_kit import PRICES
from tests.evolve.llm_requests import candidate, refused, view_of

HAIKU, OPUS = Arm("claude-haiku-5-5"), Arm("claude-opus-5-5")
BANDIT = Bandit((HAIKU, OPUS), PRICES)


def played(name, score, arm, usd, parents=()):
    return candidate(name, score, arm=arm.name, cost=Cost(usd), parents=parents)


def test_gain_is_the_log_of_the_speedup_over_the_best_parent():
    history = [
        played("0-0", 1.0, HAIKU, 0.001),
        played("1-0", 2.0, HAIKU, 0.001, ("0-0",)),
        played("2-0", 1.5, OPUS, 0.2, ("0-0", "1-0")),
    ]
    start = BANDIT.standings([], 1)
    stands = BANDIT.standings(history, 1)
    assert stands[HAIKU.name].plays == 2
    gained = stands[HAIKU.name].gain - start[HAIKU.name].gain
    assert gained == pytest.approx(FIRST_CORRECT_GAIN + math.log(2))
    assert stands[OPUS.name].gain == start[OPUS.name].gain
    assert stands[OPUS.name].usd == pytest.approx(start[OPUS.name].usd + 0.2)


def test_before_anything_is_known_the_cheap_arm_goes_first_and_the_dear_one_is_tried():
    draws = Counter(BANDIT.choose(view_of([]), Rng(seed, "propose", 1, 0)).model for seed in range(300))
    assert draws["claude-haiku-5-5"] > draws["claude-opus-5-5"] > 0


def test_an_arm_that_pays_is_preferred_even_if_it_is_dear():
    history = [played("0-0", 1.0, HAIKU, 0.01)]
    for number in range(1, 8):
        history.append(played(f"{number}-0", 1.0, HAIKU, 0.05, ("0-0",)))
        history.append(played(f"{number}-1", 1.0 + number, OPUS, 0.05, ("0-0",)))
    chances = probabilities(BANDIT.standings(history, 1))
    assert chances[OPUS.name] > 0.8


def test_the_choice_is_keyed_and_knows_only_earlier_generations():
    history = [played("0-0", 1.0, HAIKU, 0.001), played("1-0", 3.0, OPUS, 0.1, ("0-0",))]
    rng = Rng(3, "propose", 1, 2)
    assert BANDIT.choose(view_of(history), rng) == BANDIT.choose(view_of(history[:1]), Rng(3, "propose", 1, 2))


def test_a_refused_answer_counts_against_the_arm_that_was_asked():
    for seed in range(20):
        asked = BANDIT.choose(view_of([]), Rng(seed, "propose", 0, 0))
        stands = BANDIT.standings([refused("0-0", usd=0.3)], seed)
        assert stands[asked.name].plays == 1
        assert sum(item.plays for item in stands.values()) == 1


def test_an_arm_whose_vendor_is_ill_loses_its_chances():
    history = [played("0-0", 1.0, HAIKU, 0.001)]
    seed = 4
    for number in range(1, 30):
        asked = BANDIT.choose(view_of(history), Rng(seed, "propose", number, 0))
        gone = refused(f"{number}-0") if asked is OPUS else played(f"{number}-0", 1.0 + number / 10, HAIKU, 0.001)
        history.append(gone)
    stands = BANDIT.standings(history, seed)
    assert stands[HAIKU.name].plays > stands[OPUS.name].plays > 0


def test_what_a_search_proposed_belongs_to_no_arm():
    stands = BANDIT.standings([candidate("0-0", 2.0), refused("1-0", "duplicate")], 1)
    assert [item.plays for item in stands.values()] == [0, 0]


def test_the_default_arms_are_in_order():
    assert read_arms(None, PRICES) == DEFAULT_ARMS


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "at least one arm"),
        ([{"model": "claude-fable-5-2"}], "no price for the model"),
        ([{"model": "claude-haiku-5-5", "temperature": 1}], "temperature"),
        ([{"effort": "low"}], "needs a model"),
        (["claude-haiku-5-5"], "an arm is a table"),
        ([{"model": "claude-haiku-5-5", "effort": "extreme"}], "no effort"),
        ([{"model": "claude-haiku-5-5", "hint": "magic"}], "no hint"),
        ([{"model": "claude-haiku-5-5", "max_tokens": 0}], "max_tokens"),
        ([{"model": "claude-haiku-5-5", "max_tokens": 999_999}], "max_tokens"),
        ([{"model": "claude-haiku-5-5"}] * 2, "the same"),
    ],
)
def test_arms_that_make_no_sense_are_refused_with_the_reason(data, said):
    with pytest.raises(ConfigError, match=said):
        read_arms(data, PRICES)
