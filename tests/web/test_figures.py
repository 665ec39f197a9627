"""Interactive figures: the numbers of charts and tables, names as text, and what is said where there is none."""

import re
from pathlib import Path
from typing import Any

import plotly
import pytest
from django.contrib.staticfiles import finders
from django.test import Client
from django.urls import reverse

from benchmarks import extensions
from benchmarks.boards.comparing import Mark, Share, fast, fast_over
from benchmarks.boards.figures import plain
from benchmarks.extensions import Extension, SearchCost
from benchmarks.models import Method
from kbench_site.static_packages import PlotlyFinder

from . import factories
from .test_compare import data, entry

FIGURE = reverse("compare-figure")
BOARD = [*factories.TASK, "cpu-avx2"]
HOSTILE = "<a href='https://elsewhere.example'>%{x}</a>"
TASKS = 4  # of the test catalogue that run on a CPU


def drawn(client: Client, address: str, **query: Any) -> Any:
    response = client.get(address, {"device": "cpu-avx2", **query})
    assert response.status_code == 200, response.content
    assert response["Content-Type"] == "application/json"
    return response.json()


def texts(value: Any) -> list[str]:
    """Every text of a figure."""
    if isinstance(value, dict):
        return [text for item in value.values() for text in texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    return [value] if isinstance(value, str) else []


def test_one_pass_over_the_marks_finds_what_asking_at_each_score_finds() -> None:
    marks = [Mark(score, score * 0.9, score * 1.2, 1, 0) for score in (0.5, 1.0, 1.0, 1.15, 3.0)]
    assert fast_over(marks, 7) == [(p, fast(marks, p, 7)) for p in (0.0, 0.5, 1.0, 1.15, 3.0)]
    assert fast_over([], 7) == [(0.0, Share(0, 0, 0, 7))]


def test_the_lines_of_a_comparison_are_its_curves(visitor: Client) -> None:
    entry(1.2, "broad")
    entry(2.5, "broad", "layernorm")
    entry(5.0, "deep")
    figure = drawn(visitor, FIGURE, methods="broad,deep", p="1.5")
    broad, deep = figure["data"]
    assert (broad["name"], deep["name"]) == ("Broad", "Deep")
    assert broad["x"] == [0, 1.2, 2.5, figure["layout"]["xaxis"]["range"][1]]
    assert broad["y"] == [50, 25, 0, 0]
    said = f"1 of {TASKS} tasks (25 %) faster than 1.2×<br>by 95 % intervals at least 1, at most 2"
    assert said in broad["hovertext"][1]
    assert broad["hovertext"][1].endswith("over the stronger baseline")
    assert broad["line"]["dash"] != deep["line"]["dash"]
    assert figure["layout"]["shapes"][0]["x0"] == 1.5


def test_what_it_cost_is_drawn_in_the_currency_that_is_asked_for(
    visitor: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry(2.0, "evo")
    spent = SearchCost(usd=3.5, judgings=40)
    told = Extension(costs=lambda scope: dict.fromkeys(scope.methods, spent))
    monkeypatch.setattr(extensions, "_extensions", {"test": told})
    chosen = {"methods": "evo", "chart": "cost"}
    (dollars,) = drawn(visitor, FIGURE, **chosen)["data"]
    (judgings,) = drawn(visitor, FIGURE, **chosen, cost="judgings")["data"]
    assert (dollars["x"], judgings["x"]) == ([3.5], [40])
    assert dollars["y"] == [100 / TASKS]
    assert "for $3.50" in dollars["hovertext"][0]


def test_the_history_of_a_record_has_the_scores_and_intervals_of_its_table(visitor: Client) -> None:
    entry(1.5)
    entry(2.5)
    (line,) = drawn(visitor, reverse("leaderboard-figure", args=BOARD))["data"]
    rows = data(visitor, "/leaderboards/record", task="mnist_linear_relu/forward")
    scores = sorted(row["score"]["speedup"] for row in rows)
    assert line["y"] == pytest.approx([*scores, scores[-1]])
    assert line["x"] == sorted(line["x"])
    assert len(line["error_y"]["array"]) == len(rows) == 2
    assert re.match(r"1\.50× over the stronger .*<br>95 % interval 1\.4\d× to 1\.5\d×<br>", line["hovertext"][0])


def test_time_and_error_are_two_series_the_unbeaten_entries_and_the_others(visitor: Client) -> None:
    entry(1.5)
    entry(2.5)
    address = reverse("leaderboard-figure", args=BOARD)
    unbeaten, beaten = drawn(visitor, address, chart="error")["data"]
    assert (unbeaten["x"], beaten["x"]) == (pytest.approx([40.0]), pytest.approx([100 / 1.5]))
    assert unbeaten["y"] == beaten["y"] == pytest.approx([2.0])
    assert unbeaten["marker"]["symbol"] != beaten["marker"]["symbol"]
    assert visitor.get(address, {"chart": "error", "author": "nobody"}).status_code == 404


def test_energies_are_drawn_with_their_intervals(visitor: Client) -> None:
    measured = factories.with_energy(factories.passing(2.5), 8.0, 0.1)
    factories.judged(measured, text=f"{factories.SOURCE}// measured")
    entry(1.5)
    address = reverse("leaderboard-figure", args=BOARD)
    (points,) = drawn(visitor, address, chart="energy")["data"]
    assert points["y"] == pytest.approx([8.0])
    assert points["error_y"]["array"][0] > 0
    assert visitor.get(address, {"chart": "weight"}).status_code == 404


def test_a_name_that_is_markup_stays_text(visitor: Client) -> None:
    entry(2.0, "evil")
    Method.objects.filter(slug="evil").update(title=HOSTILE)
    figures = [drawn(visitor, FIGURE, methods="evil"), drawn(visitor, reverse("leaderboard-figure", args=BOARD))]
    for figure in figures:
        said = texts(figure)
        assert any(plain(HOSTILE) in text for text in said)
        assert not any("<a" in text for text in said)
        assert not any("hovertemplate" in trace for trace in figure["data"])


@pytest.mark.parametrize("query", ["", "?methods=nobody", "?methods=a,b,c,d,e,f,g", "?methods=human&chart=cost"])
def test_where_the_page_has_no_chart_there_is_no_figure(visitor: Client, query: str) -> None:
    entry(2.0)
    assert visitor.get(FIGURE + query).status_code == 404


def test_an_empty_board_has_no_history(visitor: Client) -> None:
    assert visitor.get(reverse("leaderboard-figure", args=BOARD)).status_code == 404


def test_pages_ask_for_the_library_only_on_a_click(visitor: Client) -> None:
    entry(2.0)
    html = visitor.get(reverse("compare"), {"methods": "human", "device": "cpu-avx2"}).content.decode()
    assert 'data-library="/static/plotly/plotly.min.js"' in html
    assert not re.search(r"(src|href)=\"[^\"]*(plotly|figures\.css)", html)


def test_of_the_package_only_the_script_is_served(visitor: Client) -> None:
    assert finders.find("plotly/plotly.min.js").startswith(plotly.__path__[0])
    assert not finders.find("plotly/widgetbundle.js")
    assert [name for name, _ in PlotlyFinder().list(None)] == ["plotly.min.js"]
    assert list(PlotlyFinder().list(["*.js"])) == []


def test_the_script_is_the_one_that_can_do_without_styles_of_its_own(settings: Any) -> None:
    """What `figures.js` relies on in plotly.js; a new version may need other names there."""
    library = Path(finders.find("plotly/plotly.min.js")).read_text(encoding="utf-8")
    ours = (settings.BASE_DIR / "static/js/figures.js").read_text()
    styles, unused = re.findall(r'_ID = "([^"]+)"', ours)
    assert f'"{styles.removesuffix("global")}"+' in library
    assert f'if(!document.getElementById("{unused}"))' in library
    assert '.matches(".no-inline-styles")' in library
