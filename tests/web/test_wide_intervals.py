"""Whoever makes one code fast at one time and slow at another gets a wide interval: it makes nobody else equal."""

import pytest

from benchmarks.boards import selectors
from benchmarks.models import Standing

from . import factories
from .test_bounds import board, enter, found, key, replayed
from .test_timing_revisions import SAME, by, hidden, on


@pytest.mark.parametrize("how", ["with an accomplice", "without an account", "alone", "slowest first"])
def test_a_doubtful_entry_does_not_make_others_equal(how: str) -> None:
    for name, score in (("first", 1.1), ("slow", 1.3), ("fast", 2.0)):
        enter(name, replayed(score))
    assert [(name, rank) for name, rank, _ in board()] == [("fast", 1), ("slow", 2), ("first", 3)]
    if how == "with an accomplice":
        enter("eve", on(replayed(9.0), "2.11"), SAME)
        hidden("other", on(replayed(1.2), "2.11"))
    elif how == "without an account":
        for score in (9.0, 1.2):
            factories.judged_on_gpu(replayed(score), text=SAME)
    elif how == "alone":  # too close to be a contradiction
        for score in (2.05, 2.54):
            enter("eve", replayed(score), SAME)
    else:  # an interval that reaches the fastest from below, and the slower one from above
        enter("eve", found(1.6, 1.25, 2.04, "replayed"), SAME)
    ranks = dict(Standing.objects.values_list("evaluation__submission__owner__username", "rank"))
    assert ranks["fast"] < ranks["slow"] < ranks["first"], ranks


def test_a_contested_entry_leads_nobody_by_its_interval() -> None:
    enter("eve", on(replayed(2.3), "2.11"), SAME)
    hidden("other", on(replayed(1.5), "2.11"))
    enter("honest", replayed(2.0))
    row = by("eve")
    assert (row.is_contested, row.score < 1.9, row.score_hi > 2.0) == (True, True, True)
    assert [(name, rank) for name, rank, _ in board()] == [("honest", 1), ("eve", 2)]
    assert selectors.leader(key()) == by("honest")
