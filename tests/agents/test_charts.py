"""The pictures of a run as numbers: steps and band of the best, marks and lanes of the lineage. Needs no database."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.drawing import charts
from agents.drawing.charts import DOTS_MAX, RunChart, chart
from agents.drawing.lineage import GENERATIONS_MAX, lineage, mark_of, words_of
from agents.models import Candidate, Run
from agents.record.snapshots import Scene, outcome_counts
from agents.states import CandidateState


def candidate(number: int, score: float | None, **more: Any) -> Candidate:
    """The candidate that was judged as the one of this number; a wrong one where `score` is None."""
    found = {"verdict": "PASS", "score_lo": score * 0.9, "score_hi": score * 1.1} if score else {"verdict": "TIMEOUT"}
    place = {"key": f"{number}-0", "generation": number, "position": number, "slot": 0, "judged_as": number}
    return Candidate(**{**place, "state": CandidateState.DONE, "score": score, **found, **more})


def scene(rows: list[Candidate], **run: Any) -> Scene:
    return Scene(Run(**{"config": {}, **run}), rows)


GROWING = [candidate(1, None), candidate(2, 0.5, improved=True), candidate(3, 0.4), candidate(4, 2.0, improved=True)]


def drawn(*scenes: Scene, axis: str = "judgings") -> RunChart:
    found = chart(scenes, axis)
    assert found is not None
    return found


def corners(path: str) -> list[tuple[float, float]]:
    """The corners of a path of horizontal and vertical lines."""
    places: list[tuple[float, float]] = []
    for letter, numbers in re.findall(r"([MHVZ])([^MHVZ]*)", path):
        values = [float(value) for value in numbers.split()]
        if letter == "M":
            places.append((values[0], values[1]))
        elif letter != "Z":
            x, y = places[-1]
            places.append((values[0], y) if letter == "H" else (x, values[0]))
    return places


def test_while_nothing_was_judged_there_is_no_chart() -> None:
    waiting = Candidate(key="1-0", generation=1, position=1, slot=0, state=CandidateState.QUEUED)
    assert chart([scene([waiting])]) is None
    assert chart([scene([])]) is None


def test_the_best_is_a_staircase_to_the_end_of_the_run() -> None:
    found = drawn(scene([*GROWING, candidate(5, 1.0)]))
    (curve,) = found.curves
    (first_x, first_y), *_, (last_x, last_y) = corners(curve.steps)
    assert first_x < last_x == max(x for x, _ in corners(curve.steps))
    assert first_y > last_y  # upwards on a page is a smaller y
    assert len(corners(curve.steps)) == 4
    assert (len(found.dots), len(found.failures)) == (4, 1)
    assert [dot.css for dot in found.dots] == ["better", "", "better", ""]


def test_the_band_encloses_the_staircase() -> None:
    (curve,) = drawn(scene(GROWING)).curves
    band = corners(curve.band)
    assert curve.band.endswith("Z")
    for x, y in corners(curve.steps):
        ys = [other for at, other in band if at == x]
        assert min(ys) < y < max(ys)


def test_twice_as_fast_is_as_far_from_the_baseline_as_half_as_fast() -> None:
    found = drawn(scene([candidate(1, 0.5, improved=True), candidate(2, 2.0, improved=True)]))
    slow, fast = (dot.y for dot in found.dots)
    assert slow - found.one == pytest.approx(found.one - fast, abs=0.2)


def test_a_run_without_a_correct_kernel_has_marks_and_no_curve() -> None:
    found = drawn(scene([candidate(1, None), candidate(2, None)]))
    assert (found.curves, found.dots, len(found.failures)) == ([], [], 2)


def test_two_runs_are_two_curves_without_dots() -> None:
    found = drawn(scene(GROWING), scene([candidate(1, 1.5, improved=True)]))
    assert [curve.css for curve in found.curves] == ["curve-0", "curve-1"]
    assert (found.dots, found.failures) == ([], [])


def test_axes_measure_what_their_titles_say() -> None:
    started = datetime(2026, 11, 1, tzinfo=UTC)
    rows = [candidate(n, 1.0 + n, judged_at_s=started.timestamp() + 90.0 * n, judged_at_usd=0.5 * n) for n in (1, 2)]
    whole = scene(rows, started=started)
    ends = {name: [charts.measure_of(whole, charts.axis_named(name))(row) for row in rows] for name in charts.AXES}
    assert ends == {"judgings": [1.0, 2.0], "minutes": [1.5, 3.0], "usd": [0.5, 1.0]}


def test_an_axis_that_nobody_knows_is_that_of_judgings() -> None:
    assert drawn(scene(GROWING), axis="<script>").axis.name == "judgings"


def test_what_was_not_measured_lies_at_the_beginning() -> None:
    """A run from before costs were noted, and one whose first event is later than a clock that was set back."""
    later = scene([candidate(1, 2.0, judged_at_s=1.0)], started=datetime(2026, 11, 1, tzinfo=UTC))
    for axis in ("minutes", "usd"):
        assert drawn(later, axis=axis).dots[0].x == charts.LEFT


@pytest.mark.parametrize(("target", "shown"), [(1.5, True), (50.0, False), (0.0, False), (None, False)])
def test_a_target_is_drawn_where_it_lies_on_the_chart(target: float | None, shown: bool) -> None:
    assert (drawn(scene(GROWING, config={"target": target})).target is not None) is shown


def test_a_long_run_keeps_every_improvement_and_few_others() -> None:
    rows = [candidate(n, 1.0 + n / 1e4, improved=n % 100 == 1) for n in range(1, 3_001)]
    kept = charts.thinned(rows)
    assert {row.key for row in rows if row.improved} <= {row.key for row in kept}
    assert len(kept) <= DOTS_MAX + 30


@given(st.floats(1e-3, 1.0), st.floats(1.0, 1e3))
def test_the_ticks_of_scores_are_few_and_on_the_chart(low: float, high: float) -> None:
    ticks = charts._score_ticks(low / 1.1, high * 1.1)
    assert 1 <= len(ticks) <= 8
    assert all(low / 1.1 <= tick <= high * 1.1 for tick in ticks)
    assert ticks == sorted(set(ticks))


# --- lineage ---


@pytest.mark.parametrize(
    ("row", "mark", "words"),
    [
        (candidate(1, 2.0, improved=True), "better", "2.000×"),
        (candidate(1, 2.0), "accepted", "2.000×"),
        (candidate(1, None), "failed", "TIMEOUT"),
        (Candidate(state=CandidateState.DROPPED, drop_reason="too_long"), "dropped", "not judged, too long"),
        (Candidate(state=CandidateState.QUEUED), "flying", "in judging"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_outcome_has_its_mark_and_its_words(row: Candidate, mark: str, words: str) -> None:
    assert (mark_of(row), words_of(row)) == (mark, words)


def test_islands_are_lanes_that_do_not_touch() -> None:
    rows = [candidate(n, 1.0, island=n % 3, slot=n // 3, generation=0, key=f"0-{n}") for n in range(9)]
    found = lineage(scene(rows))
    assert found is not None
    assert [lane.title for lane in found.lanes] == ["Island 0", "Island 1", "Island 2"]
    for upper, lower in zip(found.lanes, found.lanes[1:], strict=False):
        assert upper.y + upper.height < lower.y
    for node in found.nodes:
        lane = found.lanes[int(node.key[-1]) % 3]
        assert lane.y < node.y < lane.y + lane.height
    assert all(0 < node.x < found.width and node.y < found.height for node in found.nodes)


def test_the_way_to_the_best_is_drawn_over_all_others() -> None:
    rows = [candidate(0, 1.0), candidate(1, 1.1, parents=["0-0"]), candidate(2, 1.5, parents=["0-0", "1-0"])]
    found = lineage(scene([*rows, candidate(3, 1.2, parents=["2-0"])], best_key="2-0"))
    assert found is not None
    assert [edge.css for edge in found.edges] == ["plain", "path", "path", "path"]
    assert [node.css for node in found.nodes if node.css.endswith(" best")] == ["accepted best"]


def test_parents_that_are_not_there_and_a_parent_of_itself_have_no_line() -> None:
    found = lineage(scene([candidate(1, 1.0, parents=["1-0", "9-9"])]))
    assert found is not None
    assert found.edges == []


def test_of_a_long_run_the_last_generations_and_the_way_to_the_best_are_drawn() -> None:
    rows = [candidate(n, 1.0, parents=[f"{n - 1}-0"] if n == 3 else []) for n in range(1, 101)]
    found = lineage(scene(rows, best_key="3-0"))
    assert found is not None
    assert {node.key for node in found.nodes} == {"2-0", "3-0", *(f"{n}-0" for n in range(71, 101))}
    assert found.hidden == 100 - GENERATIONS_MAX - 2


def test_a_run_without_candidates_has_no_lineage() -> None:
    assert lineage(scene([])) is None


# --- scenes ---


def test_parents_in_a_circle_end_the_way_to_the_best() -> None:
    """An agent of its own names parents as it likes."""
    rows = [candidate(1, 1.0, parents=["2-0"]), candidate(2, 2.0, parents=["1-0", "gone"])]
    assert scene(rows, best_key="2-0").path_to_best == {"1-0", "2-0"}
    assert scene(rows, best_key="7-7").path_to_best == set()


def test_outcomes_are_counted_the_frequent_first_and_accepted_ones_not_at_all() -> None:
    dropped = [Candidate(key=f"d{n}", state=CandidateState.DROPPED, drop_reason="duplicate") for n in range(2)]
    rows = [*dropped, candidate(1, None), candidate(2, 1.0), Candidate(key="q", state=CandidateState.QUEUED)]
    assert outcome_counts(scene(rows)) == [("duplicate", 2), ("TIMEOUT", 1)]
