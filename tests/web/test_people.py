"""Pages of people: what everybody sees of an account, that nothing private leaks, and where names lead to them."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from benchmarks.boards import people
from benchmarks.models import Method, Standing
from benchmarks.moderation import decisions
from benchmarks.states import ActionKind
from tests.agents import factories as runs

from . import factories

PAGE = "/people/olga/"


def text(client: Client, url: str = PAGE) -> str:
    answer = client.get(url)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def figures(client: Client) -> list[str]:
    """Ranked entries, first ranks, tasks, public submissions."""
    said = text(client)
    titles = ("Ranked entries", "First ranks, ties included", "Tasks with a ranked entry", "Public submissions")
    return [said.split(f"<dt>{title}</dt><dd>")[1].split("</dd>")[0] for title in titles]


def entry(speedup: float, **options: Any) -> Any:
    """Each another program: of one owner, texts that differ in comments alone are pooled."""
    text = f'static const char* const name = "{speedup}";\n{factories.SOURCE}'
    return factories.judged(factories.passing(speedup, 0.02), text=text, **options)


def test_a_page_counts_entries_first_ranks_tasks_and_submissions(visitor: Client, owner: Any, stranger: Any) -> None:
    agent = Method.objects.create(slug="agent", title="An agent", kind="agent")
    entry(1.5, owner=owner)
    entry(2.0, owner=owner, method=agent)
    entry(1.2, owner=owner, version=factories.version("layernorm"))
    entry(1.3, owner=stranger, version=factories.version("layernorm"))
    factories.judged(factories.failing(), text="// fails\n", owner=owner)
    assert figures(visitor) == ["3", "1", "2", "4"]


def test_entries_have_rank_size_of_their_board_interval_and_method(visitor: Client, owner: Any) -> None:
    entry(2.0)
    entry(1.5, owner=owner)
    said = text(visitor)
    assert '2<span class="small">of 2</span>' in said
    for words in ("1.50×", "1.47× to 1.53×", "mnist_linear_relu/forward", "By hand", "Fused loop"):
        assert words in said


def test_an_entry_that_leaves_the_ranks_while_the_page_is_read_is_left_out(
    visitor: Client, owner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry(1.5, owner=owner)
    current = people._current

    def and_then_it_leaves(whose: dict[str, Any]) -> Any:
        mine = current(whose)
        Standing.objects.update(under_review=True, rank=None, review_reason="It is too fast.")
        return mine

    monkeypatch.setattr(people, "_current", and_then_it_leaves)
    assert "1.50×" not in text(visitor).split("<h2")[1]


@pytest.mark.parametrize("visibility", ["private", "unlisted"])
def test_what_is_not_public_makes_no_page_but_for_its_owner(
    as_stranger: Client, as_owner: Client, as_staff: Client, owner: Any, visibility: str
) -> None:
    entry(1.7, owner=owner, visibility=visibility)
    assert [client.get(PAGE).status_code for client in (Client(), as_stranger)] == [404, 404]
    assert figures(as_owner) == figures(as_staff) == ["0", "0", "0", "0"]
    assert "Only you can open this page" in text(as_owner)
    assert "1.70×" not in text(as_owner)


def test_a_name_that_nobody_has_answers_like_one_that_shows_nothing(visitor: Client, owner: Any) -> None:
    known, unknown = visitor.get(PAGE), visitor.get("/people/nobody/")
    assert known.status_code == unknown.status_code == 404
    assert known.content == unknown.content.replace(b"/people/nobody/", PAGE.encode())


@pytest.mark.parametrize("name", ["%00", "a%00", "%C3", "%E2%80%AE", "a" * 5000])
def test_a_name_that_no_account_can_have_is_missing(visitor: Client, name: str) -> None:
    assert visitor.get(f"/people/{name}/").status_code == 404


def test_what_staff_have_hidden_does_not_count(visitor: Client, owner: Any, staff: Any) -> None:
    entry(1.5, owner=owner)
    hidden = entry(2.5, owner=owner, version=factories.version("layernorm"))
    decisions.decide(hidden.submission, ActionKind.HIDE, by=staff, reason="Not a kernel.", note="")
    assert figures(visitor) == ["1", "1", "1", "1"]
    assert "2.50×" not in text(visitor)


def test_an_entry_under_review_has_no_rank_here_either(visitor: Client, owner: Any) -> None:
    factories.judged(factories.gated(12.0), owner=owner)
    assert figures(visitor) == ["0", "0", "0", "1"]


def test_a_run_makes_a_page_and_is_listed(visitor: Client, owner: Any) -> None:
    run = runs.started(owner)
    said = text(visitor)
    assert run.get_absolute_url() in said
    assert "/runs/?by=olga" in said
    assert str(run) in text(visitor, "/runs/?by=olga")
    assert str(run) not in text(visitor, "/runs/?by=stefan")


def test_names_lead_to_pages(visitor: Client, owner: Any) -> None:
    public = entry(1.5, owner=owner)
    unlisted = entry(1.6, owner=owner, visibility="unlisted")
    link = f'<a href="{PAGE}">olga</a>'
    board = f"/leaderboards/{'/'.join(factories.TASK)}/cpu-avx2/"
    runs.started(owner)
    for url in ("/", "/leaderboards/", board, "/runs/", public.get_absolute_url()):
        assert link in text(visitor, url), url
    assert link not in text(visitor, unlisted.get_absolute_url())


def test_an_account_finds_its_own_page(as_owner: Client) -> None:
    assert f'href="{PAGE}"' in text(as_owner, "/accounts/submissions/")


def test_a_name_with_odd_characters_has_a_page(visitor: Client) -> None:
    odd = factories.user("ol?g#+@.")
    entry(1.5, owner=odd)
    page = reverse("person", args=[odd.username])
    assert f"<h1>{odd.username}</h1>" in text(visitor, page)
    assert f'href="{page}"' in text(visitor, "/")


def test_a_page_makes_the_same_queries_for_one_entry_and_for_three(visitor: Client, owner: Any) -> None:
    counts = []
    for speedups in ((1.1,), (1.3, 1.5)):
        for speedup in speedups:
            method = Method.objects.create(slug=f"m{speedup}".replace(".", "-"), title="M", kind="agent")
            entry(speedup, owner=owner, method=method)
        with CaptureQueriesContext(connection) as caught:
            text(visitor)
        counts.append(len(caught))
    assert counts[0] == counts[1]
