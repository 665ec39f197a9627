"""The best so far of runs as an interactive figure: the same numbers as the table of candidates."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from agents.drawing.lineage import NODES_MAX, lineage
from agents.models import Candidate, Run
from agents.record.snapshots import Scene

from . import factories


@pytest.fixture
def run() -> Run:
    return factories.driven()


def drawn(client: Client, address: str, **query: Any) -> Any:
    response = client.get(address, query)
    assert response.status_code == 200, response.content
    return response.json()


def traces(figure: Any) -> dict[str, Any]:
    """What the legend names."""
    return {trace["name"]: trace for trace in figure["data"] if trace.get("showlegend", True)}


def address(run: Run) -> str:
    return reverse("run-figure", args=[run.code])


def test_a_lineage_draws_a_limited_number_of_candidates() -> None:
    """An external agent may put thousands into one generation, each with sixteen parents that lead to the best."""
    rows = [
        Candidate(key=str(n), position=n, slot=n, parents=[str(max(n - back, 0)) for back in range(1, 17)])
        for n in range(2_000)
    ]
    drawn = lineage(Scene(Run(best_key="1000"), rows))
    assert drawn is not None
    assert len(drawn.nodes) <= 2 * NODES_MAX
    assert len(drawn.edges) <= 16 * len(drawn.nodes)
    assert {"1000", "1999"} <= {node.key for node in drawn.nodes}


def test_every_judged_candidate_is_on_the_figure_once(visitor: Client, run: Run) -> None:
    found = traces(drawn(visitor, address(run)))
    judged = Candidate.objects.filter(run=run, judged_as__isnull=False)
    best = list(judged.filter(improved=True).order_by("judged_as"))
    steps = found[f"run {run}"]
    assert steps["x"][:-1] == [row.judged_as for row in best]
    assert steps["y"][:-1] == [row.score for row in best]
    assert len(found["not better"]["x"]) == judged.filter(improved=False, score__isnull=False).count() > 0
    assert len(found["failed"]["x"]) == judged.filter(score__isnull=True).count() > 0
    assert f"candidate {best[0].key}, judging {best[0].judged_as}" in steps["hovertext"][0]
    assert "95 % interval" in steps["hovertext"][0]
    assert "over the stronger baseline" in steps["hovertext"][0]


def test_the_axis_and_the_event_are_those_of_the_page(visitor: Client, run: Run) -> None:
    minutes = drawn(visitor, address(run), x="minutes")
    assert minutes["layout"]["xaxis"]["title"]["text"] == "Minutes since the start"
    seq = Candidate.objects.filter(run=run, improved=True).order_by("judged_as")[0].last_seq
    earlier = traces(drawn(visitor, address(run), at=seq))[f"run {run}"]
    assert len(set(earlier["y"])) == 1
    assert drawn(visitor, address(run), at="") == drawn(visitor, address(run), x="nonsense")


def test_two_runs_share_a_figure_and_differ_by_more_than_colour(visitor: Client, run: Run) -> None:
    other = factories.driven(seed=5)
    figure = drawn(visitor, reverse("run-compare-figure"), a=run.code, b=other.code)
    lines = traces(figure)
    assert set(lines) == {f"run {run}", f"run {other}"}
    assert len({line["line"]["dash"] for line in lines.values()}) == 2
    assert figure["layout"]["yaxis"]["title"]["text"] == "Speedup over the stronger baseline"
    assert figure["layout"]["shapes"][0]["label"]["text"] == "the stronger baseline, 1×"


def test_before_the_first_judging_there_is_nothing_to_draw(visitor: Client) -> None:
    assert visitor.get(address(factories.started())).status_code == 404
    assert visitor.get(reverse("run-compare-figure")).status_code == 404


def test_the_page_of_a_run_names_its_figure_with_axis_and_event(visitor: Client, run: Run) -> None:
    html = visitor.get(run.get_absolute_url(), {"x": "minutes", "at": run.last_seq - 3}).content.decode()
    assert f'data-figure="{address(run)}?x=minutes&amp;at={run.last_seq - 3}"' in html
