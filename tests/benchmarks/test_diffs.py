"""Two sources line by line: numbers, columns, and an end to what takes too long."""

import time

import pytest

from benchmarks.submissions import diffs
from benchmarks.submissions.diffs import DiffLine, Pair, line_diff, side_by_side


def test_a_changed_line_stands_between_its_neighbours():
    assert line_diff("a\nb\nc\n", "a\nB\nc\n") == [
        DiffLine("same", "a", 1, 1),
        DiffLine("gone", "b", 2, None),
        DiffLine("new", "B", None, 2),
        DiffLine("same", "c", 3, 3),
    ]


def test_what_is_far_from_a_change_is_left_out():
    numbers = [str(n) for n in range(40)]
    changed = ["first", *numbers[1:39], "last"]
    lines = line_diff("\n".join(numbers), "\n".join(changed))
    assert [line.kind for line in lines].count("gap") == 1
    assert len(lines) == 2 * (2 + diffs.CONTEXT_LINES) + 1


def test_the_same_source_has_no_lines():
    assert line_diff("a\n", "a\n") == []


def test_two_columns_set_what_is_gone_beside_what_came():
    pairs = side_by_side(line_diff("a\nb\nc\nd\n", "a\nB\nd\n"))
    shown = [(pair.left and pair.left.text, pair.right and pair.right.text) for pair in pairs]
    assert shown == [("a", "a"), ("b", "B"), ("c", None), ("d", "d")]
    assert pairs[0] == Pair(DiffLine("same", "a", 1, 1), DiffLine("same", "a", 1, 1))


def test_two_columns_end_with_what_changed_last():
    assert side_by_side(line_diff("a\n", "a\nb\n"))[-1].right == DiffLine("new", "b", None, 2)


def test_a_source_of_too_many_lines_is_not_compared():
    assert line_diff("x\n" * (diffs.LINES_MAX + 1), "x\n") is None
    assert line_diff("x\n" * diffs.LINES_MAX, "x\n") is not None


@pytest.mark.alone
@pytest.mark.parametrize("own", [1, 7])
def test_sources_written_to_take_for_ever_are_given_up(own, monkeypatch):
    monkeypatch.setattr(diffs, "SECONDS_MAX", 0.3)
    old = [line for n in range(2500) for line in (f"x{n // own}", f"y{n}")]
    new = [line for n in range(2500) for line in (f"x{n // own}", f"z{n}")]
    started = time.monotonic()
    assert line_diff("\n".join(old), "\n".join(new)) is None
    assert time.monotonic() - started < 3
