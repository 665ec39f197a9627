"""Which entries no other one beats in time and error."""

from types import SimpleNamespace
from typing import Any

from benchmarks.boards.tradeoffs import Costs, trade_points


def entry(time_us: float | None, of_tolerance: float | None) -> Any:
    return SimpleNamespace(figures={"time_us": time_us, "of_tolerance": of_tolerance})


def unbeaten(*entries: Any) -> list[bool]:
    return [point.unbeaten for point in trade_points(entries)]


def test_an_entry_beats_one_that_is_better_in_nothing_and_worse_in_something() -> None:
    assert Costs(10.0, 0.1).beats(Costs(10.0, 0.2))
    assert Costs(9.0, 0.1).beats(Costs(10.0, 0.1))
    assert not Costs(9.0, 0.2).beats(Costs(10.0, 0.1))
    assert not Costs(10.0, 0.1).beats(Costs(10.0, 0.1))


def test_what_is_unknown_is_not_compared() -> None:
    assert Costs(9.0, None).beats(Costs(10.0, 0.1))
    assert not Costs(None, None).beats(Costs(10.0, 0.1))


def test_slow_and_exact_stands_beside_fast_and_rough() -> None:
    assert unbeaten(entry(10.0, 0.5), entry(20.0, 0.1), entry(21.0, 0.2)) == [True, True, False]


def test_one_entry_and_entries_without_a_time_show_no_trade() -> None:
    assert unbeaten(entry(10.0, 0.1)) == []
    assert unbeaten(entry(10.0, 0.1), entry(None, 0.1)) == []
