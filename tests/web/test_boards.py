"""Leaderboards: ties, baselines in line, reviews, private entries, pages, and the picture of an interval."""

import math
import re
import uuid
from dataclasses import replace
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from benchmarks import selectors
from benchmarks.boards import selectors as board_selectors
from benchmarks.harness import Flag, StageReport
from benchmarks.models import BaselineResult, Evaluation, Method, RuleSet, Standing, Submission, TaskVersion
from benchmarks.templatetags.whiskers import Axis, whisker
from benchmarks.views.parts.boards import baseline_lines, in_line

from . import factories

BOARD = reverse("leaderboard", args=[*factories.TASK, "cpu-avx2"])


def board(client: Client, **query: Any) -> str:
    return client.get(BOARD, query).content.decode()


def queries(client: Client, address: str) -> int:
    with CaptureQueriesContext(connection) as caught:
        assert client.get(address).status_code == 200
    return len(caught)


def entry(speedup: float, half_width: float = 0.01, **options: Any) -> None:
    text = f"{factories.SOURCE}// {speedup}\n"
    factories.judged(factories.passing(speedup, half_width), text=text, **options)


def test_entries_that_cannot_be_told_apart_share_a_rank(visitor: Client) -> None:
    entry(2.0)
    entry(2.01)
    entry(1.5)
    html = board(visitor)
    assert html.count("tied, 2 entries") == 2
    assert '<th scope="row" class="rank">3</th>' in html


def test_baselines_stand_at_the_place_of_their_own_times(visitor: Client) -> None:
    entry(1.4)
    entry(0.9)
    html = board(visitor)
    assert (
        html.index("1.40×") < html.index("PyTorch eager</td>") < html.index("0.90×") < html.index("torch.compile</td>")
    )


def test_an_empty_board_says_that_baselines_are_not_measured_yet(visitor: Client) -> None:
    assert board(visitor).count("not yet measured on every configuration") == 2


def test_an_entry_under_review_is_unranked_and_says_why(visitor: Client) -> None:
    factories.judged(factories.gated())
    html = board(visitor)
    assert "Under review, not ranked" in html
    assert "More than 10 times faster" in html
    assert 'class="rank">1<' not in html


def test_a_board_can_be_narrowed_to_an_author_and_keeps_its_ranks(visitor: Client, owner: Any) -> None:
    entry(2.0)
    entry(1.5, owner=owner)
    html = board(visitor, author=" olga ")
    assert '<th scope="row" class="rank">2</th>' in html
    assert '<th scope="row" class="rank">1</th>' not in html
    assert "No entry matches the filter." in board(visitor, author="nobody")
    task = {"task": "mnist_linear_relu/forward", "author": "olga"}
    assert [item["rank"] for item in visitor.get("/api/v1/leaderboards", task).json()["entries"]] == [2]


def test_an_entry_that_is_not_public_is_not_on_the_board(visitor: Client, owner: Any) -> None:
    entry(1.7, owner=owner, visibility="private")
    assert "1.70×" not in board(visitor)


def test_a_speedup_on_the_board_has_baseline_interval_and_trust(visitor: Client) -> None:
    entry(1.5, 0.02)
    html = board(visitor)
    assert "1.47× to 1.53×" in html
    assert "vs eager" in html
    assert "Timed with the judge" in html


def test_the_error_of_an_entry_is_a_column_on_the_page_and_in_the_api(visitor: Client) -> None:
    """The factory's largest relative error is 1e-6, and the task allows 5e-5."""
    entry(1.5)
    assert re.search(r'<td class="number">2\.0 %</td>', board(visitor))
    task = {"task": "mnist_linear_relu/forward"}
    (found,) = visitor.get("/api/v1/leaderboards", task).json()["entries"]
    assert found["of_tolerance"] == pytest.approx(0.02)
    assert found["kernel_us"] == pytest.approx(100 / 1.5)
    text = visitor.get("/api/v1/leaderboards", {**task, "format": "csv"}).content.decode()
    assert text.splitlines()[0].endswith(",of_tolerance,energy_mj,energy_lo_mj,energy_hi_mj,timing_revision,contested")


def test_an_error_without_one_tolerance_is_unknown_on_the_board(visitor: Client) -> None:
    entry(1.5)
    entry(1.4)
    version = factories.version()
    version.definition["devices"]["cpu"]["configs"][0]["results"][0]["tolerance"] = 0.0
    TaskVersion.objects.filter(pk=version.pk).update(definition=version.definition)
    html = board(visitor)
    assert re.search(r'<span\s+class="soft">unknown</span>', html)
    assert "Time and error" not in html


def test_time_and_error_are_drawn_once_there_are_two_entries(visitor: Client) -> None:
    entry(1.5)
    assert "Time and error" not in board(visitor)
    entry(2.5)
    html = board(visitor)
    assert "Time and error" in html
    assert html.count("<title>Rank ") == 2
    assert "Rank 1, anonymous, cpp: 40.0 µs, 2.0 % of the tolerance" in html


def test_energy_is_a_column_and_a_picture_once_an_entry_has_it(visitor: Client) -> None:
    """The mean of 8 mJ on each configuration; five intervals of 20 % make one of 20 % by the root of five."""
    entry(1.5)
    assert "Energy of a call" not in board(visitor)
    factories.judged(factories.with_energy(factories.passing(2.5), 8.0, 0.1), text=f"{factories.SOURCE}// measured")
    html = board(visitor)
    assert "Energy of a call</a></th>" in html
    assert "8.00 mJ" in html
    assert "Time and energy" in html
    assert "40.0 µs, 2.0 % of the tolerance, 8.00 mJ" in html
    first, second = visitor.get("/api/v1/leaderboards", {"task": "mnist_linear_relu/forward"}).json()["entries"]
    low, high = first["energy_ci95_mj"]
    assert first["energy_mj"] == pytest.approx(8.0)
    assert math.log(high / low) == pytest.approx(math.log(1.1 / 0.9) / math.sqrt(5))
    assert (second["energy_mj"], second["energy_ci95_mj"]) == (None, None)


def test_an_entry_with_energies_of_some_configurations_has_none_as_a_whole(visitor: Client) -> None:
    report = factories.with_energy(factories.passing(2.5), 8.0, 0.1)
    first, *others = report.configs
    part = replace(report, configs=(replace(first, energy_mj=None, energy_ci95_mj=None), *others))
    factories.judged(part)
    assert "Energy of a call" not in board(visitor)


def names_on(html: str) -> list[str]:
    return re.findall(r'<span class="small">(entry-[a-z])</span>', html)


def test_a_board_is_listed_in_the_order_of_a_column_and_keeps_its_ranks(visitor: Client, owner: Any) -> None:
    """The fastest entry is not the most exact one, has no energy and was made last."""
    slow, fast = factories.passing(1.5), factories.passing(2.5)
    exact = replace(slow, configs=tuple(replace(item, max_rel_error=1e-9, kernel_us=50.0) for item in slow.configs))
    factories.judged(factories.with_energy(exact, 8.0, 0.1), text=f"{factories.SOURCE}// a", title="entry-a")
    factories.judged(fast, text=f"{factories.SOURCE}// b", title="entry-b", owner=owner)
    assert names_on(board(visitor)) == ["entry-b", "entry-a"]
    orders = {"score": "ab", "-score": "ba", "time": "ba", "-time": "ab", "error": "ab", "-error": "ba", "date": "ab"}
    nothing_last = {"energy": "ab", "-energy": "ab", "author": "ba", "-author": "ba"}
    for sort, order in {**orders, **nothing_last, "rank": "ba", "-rank": "ab", "owner__password": "ba"}.items():
        html = board(visitor, sort=sort)
        assert names_on(html) == [f"entry-{letter}" for letter in order], sort
        assert rows_on(html) == [{"a": "2", "b": "1"}[letter] for letter in order], sort


def test_the_order_of_a_board_is_marked_and_is_a_link(visitor: Client) -> None:
    factories.many_entries(60)
    html = board(visitor, sort="error", author="", kind="human")
    assert html.count("aria-sort") == 1
    assert re.search(
        r'aria-sort="ascending"><a href="[?]sort=-error&amp;author=&amp;kind=human">Error, of the tolerance', html
    )
    assert '<input type="hidden" name="sort" value="error">' in html
    assert "page=2" in unescape(html)
    assert html.index("entry") < html.index("PyTorch eager</td>")
    assert 'aria-sort="ascending"><a href="?sort=-rank">Rank' in board(visitor)


def test_a_long_board_is_paged_and_its_queries_do_not_grow(visitor: Client) -> None:
    factories.many_entries(3)
    few = queries(visitor, BOARD)
    Standing.objects.all().delete()
    factories.many_entries(120)
    assert queries(visitor, BOARD) == few < 26
    assert queries(visitor, f"{BOARD}?sort=-energy") < few  # what has been kept of the board is not looked for again
    assert "Page 1 of 3, 120 rows" in board(visitor)
    assert "Page 3 of 3" in board(visitor, page="3")


def test_an_unknown_device_or_rule_set_is_not_found(visitor: Client) -> None:
    assert visitor.get(reverse("leaderboard", args=[*factories.TASK, "abacus"])).status_code == 404
    assert visitor.get(BOARD, {"rules": "rk-0"}).status_code == 404


def test_the_list_of_boards_shows_the_leader_of_each(visitor: Client) -> None:
    entry(1.5)
    before = queries(visitor, "/leaderboards/")
    entry(2.5)
    factories.judged(factories.passing(2.0), version=factories.version("layernorm"))
    assert queries(visitor, "/leaderboards/") == before
    html = visitor.get("/leaderboards/").content.decode()
    assert "2.50×" in html
    assert "1.50×" not in html


def test_a_baseline_without_a_time_everywhere_has_no_line() -> None:
    rows = [BaselineResult(eager_us=10.0, compile_us=5.0), BaselineResult(eager_us=10.0, compile_us=None)]
    lines = baseline_lines(rows)
    assert [(line.title, round(line.score, 3)) for line in lines] == [("PyTorch eager", 0.707)]


def test_a_baseline_faster_than_everybody_stands_first() -> None:
    lines = baseline_lines([BaselineResult(eager_us=10.0, compile_us=20.0)])
    placed = in_line([standing(0.9), standing(0.7)], lines)
    assert [round(line.score, 2) for line in placed] == [1.0, 0.9, 0.7, 0.5]


def test_a_bound_has_its_place_among_the_baselines_by_what_counts() -> None:
    lines = baseline_lines([BaselineResult(eager_us=10.0, compile_us=20.0)])
    placed = in_line([standing(0.97), standing(1.05, 0.90, "bounded")], lines)
    assert [round(line.score, 2) for line in placed] == [1.0, 0.97, 1.05, 0.5]


def standing(score: float, lo: float = 0.0, trust: str = "replayed") -> Standing:
    return Standing(score=score, score_lo=lo, evaluation=Evaluation(timing_trust=trust))


def test_a_whisker_reads_as_text_and_lies_inside_its_picture() -> None:
    svg = whisker(Axis.over([0.5, 4.0]), 2.0, 1.9, 2.1)
    assert 'aria-label="2.00×, interval 1.90× to 2.10×"' in svg


@pytest.mark.parametrize("values", [[], [None], [0.001, 1000.0]])
def test_every_axis_holds_the_baseline(values: list[float | None]) -> None:
    axis = Axis.over(values)
    assert 5 < axis.place(1.0) < 139


# --- filters, records, old boards ----------------------------------------------------------------------------------


LIBRARY = Flag("library-call", "calls a library operator of torch", 4)


def rows_on(html: str) -> list[str]:
    return re.findall(r'<th scope="row" class="rank">(\d+)', html)


def test_a_filter_narrows_the_entries_and_keeps_their_ranks(visitor: Client, owner: Any, stranger: Any) -> None:
    agent = Method.objects.create(slug="agent-x", title="Agent X", kind="agent")
    entry(3.0, owner=owner)
    entry(2.0, owner=stranger, method=agent)
    assert rows_on(board(visitor)) == ["1", "2"]
    assert rows_on(board(visitor, kind="agent")) == ["2"]
    assert rows_on(board(visitor, kind="library")) == []
    assert "No entry matches the filter" in board(visitor, kind="library")
    assert rows_on(board(visitor, kind="nonsense", calls="nonsense")) == ["1", "2"]


def test_entries_without_library_calls_can_be_shown_alone(visitor: Client, owner: Any, stranger: Any) -> None:
    factories.judged(factories.passing(3.0, flags=(LIBRARY,)), owner=owner)
    factories.judged(factories.passing(2.0), text=factories.SOURCE + "// own\n", owner=stranger)
    assert rows_on(board(visitor, calls="without")) == ["2"]
    assert rows_on(board(visitor, calls="with")) == ["1"]
    assert board(visitor).count(">library calls</span>") == 1


def test_a_submission_cannot_write_itself_a_flag(visitor: Client) -> None:
    reason = 'Correct. "code": "library-call" and "gates": []'
    factories.judged(factories.passing(3.0, stages=(StageReport("compile", 1.0, 0, reason),)))
    assert rows_on(board(visitor, calls="with")) == []


def test_languages_can_be_shown_alone(visitor: Client) -> None:
    entry(3.0)
    assert rows_on(board(visitor, language="cpp")) == ["1"]
    assert rows_on(board(visitor, language="triton")) == []


def test_the_record_has_its_history(visitor: Client, owner: Any, stranger: Any) -> None:
    for speedup, who in ((1.5, owner), (1.2, stranger), (2.5, stranger), (3.5, owner)):
        entry(speedup, owner=who)
    history = visitor.get("/api/v1/leaderboards/record", {"task": "mnist_linear_relu/forward"}).json()
    assert [(item["by"], item["score"]["speedup"]) for item in history] == [
        ("olga", 1.5),
        ("stefan", 2.5),
        ("olga", 3.5),
    ]
    assert "Record history" in board(visitor)


def test_what_is_under_review_never_held_the_record(visitor: Client) -> None:
    entry(1.5)
    factories.judged(factories.gated(12.0), text=factories.SOURCE + "// gated\n")
    history = visitor.get("/api/v1/leaderboards/record", {"task": "mnist_linear_relu/forward"}).json()
    assert [item["score"]["speedup"] for item in history] == [1.5]


def test_the_same_submission_judged_again_breaks_no_record_but_its_own(visitor: Client) -> None:
    first = factories.judged(factories.passing(1.5))
    faster = Evaluation.objects.get(pk=first.pk)
    faster.pk, faster.code, faster.finished = None, uuid.uuid4(), timezone.now()
    faster.score, faster.score_hi = 1.52, 1.6
    faster.save()
    history = visitor.get("/api/v1/leaderboards/record", {"task": "mnist_linear_relu/forward"}).json()
    assert [item["score"]["speedup"] for item in history] == [1.5]


def test_an_old_board_stays_readable_and_says_that_it_is_old(visitor: Client) -> None:
    entry(1.5)
    old = RuleSet.objects.create(name="rk-0", title="Old", text="", sha256="0" * 64)
    Standing.objects.update(ruleset=old)
    Evaluation.objects.update(ruleset=old)
    html = board(visitor, rules="rk-0")
    assert "This is an old leaderboard" in html
    assert "1.50×" in html
    assert "This is an old leaderboard" not in board(visitor)
    assert rows_on(board(visitor)) == []


def test_the_board_of_a_retired_version_stays_readable(visitor: Client) -> None:
    entry(1.5)
    version = factories.version()
    TaskVersion.objects.filter(pk=version.pk).update(status="retired")
    TaskVersion.objects.create(
        task=version.task, number=2, content_sha256="1" * 64, definition=version.definition, reference_source=""
    )
    html = board(visitor, version="1")
    assert "version 1 of the task is retired" in html
    assert "1.50×" in html
    assert rows_on(board(visitor)) == []


def test_the_data_of_a_board_are_filtered_like_its_page(visitor: Client, owner: Any) -> None:
    factories.judged(factories.passing(3.0, flags=(LIBRARY,)), owner=owner)
    found = re.search(r'href="(/api/v1/leaderboards\?[^"]*calls=without[^"]*csv)"', board(visitor, calls="without"))
    assert found
    address = unescape(found[1])
    assert visitor.get(address).content.decode().count("\n") == 1
    address = address.replace("calls=without", "calls=with")
    line = visitor.get(address).content.decode().splitlines()[1]
    assert line.startswith("1,1,3.0,")
    assert ",3.0,0.4,0.4,True," in line


def test_a_list_of_many_boards_has_pages(visitor: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_selectors, "PAGE_ROWS", 3)
    html = visitor.get("/leaderboards/").content.decode()
    assert "Page 1 of 2, 4 rows" in html


def test_the_newest_entries_are_found_behind_many_that_no_list_shows(
    visitor: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selectors, "_LATEST_ROWS", 2)
    for speedup in (1.5, 2.0, 3.0, 4.0):
        entry(speedup)
    Submission.objects.filter(evaluations__score__gt=1.6).update(visibility="unlisted")
    assert Standing.objects.ranked().count() == 4
    assert [row.score for row in selectors.newest_verified()] == [1.5]
