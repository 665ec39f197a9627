"""The breaker: five failures in a row, a pause that grows, one call that finds out."""

from agents.evolve.llm.breaker import COOL_MAX_S, COOL_S, FAILURES, Breaker
from tests.evolve.llm_kit import Clock

MODEL = "claude-haiku-5-5"


def opened(clock):
    breaker = Breaker(clock)
    for _ in range(FAILURES):
        assert breaker.wait_s(MODEL) == 0
        breaker.failed(MODEL)
    return breaker


def test_it_closes_one_model_and_no_other():
    breaker = opened(Clock())
    assert breaker.wait_s(MODEL) == COOL_S
    assert breaker.wait_s("claude-opus-5-5") == 0


def test_a_success_in_between_starts_the_count_anew():
    breaker = Breaker(Clock())
    for _ in range(3 * FAILURES):
        assert breaker.wait_s(MODEL) == 0
        breaker.failed(MODEL)
        assert breaker.wait_s(MODEL) == 0
        breaker.passed(MODEL)


def test_after_the_pause_one_call_finds_out_while_the_others_wait():
    clock = Clock()
    breaker = opened(clock)
    clock.now_s += COOL_S
    assert breaker.wait_s(MODEL) == 0
    assert breaker.wait_s(MODEL) > 0
    breaker.passed(MODEL)
    assert breaker.wait_s(MODEL) == 0


def test_the_pause_doubles_up_to_a_bound():
    clock = Clock()
    breaker, waits_s = opened(clock), []
    for _ in range(6):
        waits_s.append(breaker.wait_s(MODEL))
        clock.now_s += waits_s[-1]
        assert breaker.wait_s(MODEL) == 0
        breaker.failed(MODEL)
    assert waits_s == [15.0, 30.0, 60.0, 120.0, 240.0, COOL_MAX_S]


def test_a_call_that_is_given_up_lets_the_next_one_find_out():
    clock = Clock()
    breaker = opened(clock)
    clock.now_s += COOL_S
    assert breaker.wait_s(MODEL) == 0
    breaker.left(MODEL)
    assert breaker.wait_s(MODEL) == 0
