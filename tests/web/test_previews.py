"""Previews of links: what the tags of a page say, what the pictures show, and what has neither."""

import io
import re
import uuid
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from PIL import Image

from benchmarks.harness import SpeedupEstimate
from benchmarks.models import RecordedEntry, RuleSet
from benchmarks.moderation import decisions
from benchmarks.recorded.loading import load_bundle
from benchmarks.states import ActionKind
from benchmarks.views.parts.preview_image import EDGE_PX, HEIGHT_PX, WIDTH_PX, LinkPreview, png
from tests.recorded import bundle_file

from . import factories

BOARD = reverse("leaderboard", args=[*factories.TASK, "cpu-avx2"])
EMPTY = LinkPreview("task on device", "not judged yet", "/p.png", ("by olga",))
FULL = replace(EMPTY, score=SpeedupEstimate(2.0, 1.9, 2.1), times=(("this kernel", 1.0), ("PyTorch eager", 2.0)))


def tags(client: Client, url: str) -> dict[str, str]:
    """The tags of a page that speak to other sites."""
    page = client.get(url).content.decode()
    found = re.findall(r'<meta (?:property|name)="(og:[\w:]+|twitter:card)" content="([^"]*)">', page)
    return {name: unescape(text) for name, text in found}


def picture(client: Client, url: str) -> HttpResponse:
    """The answer with the picture that the tags of a page name."""
    host, path = tags(client, url)["og:image"].split("testserver")
    assert host == "http://"
    response = client.get(path)
    assert (response.status_code, response["Content-Type"]) == (200, "image/png")
    with Image.open(io.BytesIO(response.content)) as image:
        assert (image.format, image.size) == ("PNG", (1200, 630))
    return response


def pixels(preview: LinkPreview) -> Image.Image:
    return Image.open(io.BytesIO(png(preview)))


def test_a_board_previews_its_best_entry(visitor: Client) -> None:
    assert tags(visitor, BOARD)["og:description"] == "no verified entry yet, rule set rk-2"
    empty = picture(visitor, BOARD).content
    factories.judged(factories.passing(2.0, 0.02))
    found = tags(visitor, BOARD)
    assert found["og:title"] == "mnist_linear_relu/forward on cpu-avx2: leaderboard"
    assert found["og:description"].startswith(
        "2.00× as fast as the stronger of PyTorch eager and torch.compile (1.96× to 2.04×), best of cpu-avx2, "
        "timed by the judge's clock, rule set rk-2"
    )
    assert (found["og:url"], found["twitter:card"]) == (f"http://testserver{BOARD}", "summary_large_image")
    assert picture(visitor, BOARD).content != empty


def test_a_task_previews_its_best_entry_on_the_device_that_its_page_shows(visitor: Client) -> None:
    url = reverse("task", args=factories.TASK)
    assert tags(visitor, url)["og:description"].startswith("no verified entry yet")
    factories.judged(factories.passing(2.0, 0.02))
    found = tags(visitor, url)
    assert found["og:title"].startswith("mnist_linear_relu/forward: ")
    assert "(1.96× to 2.04×), best of cpu-avx2, timed by the judge's clock" in found["og:description"]
    assert found["og:image"].endswith("preview.png?device=cpu-avx2")
    picture(visitor, url)


def test_the_picture_of_a_task_on_an_unknown_device_shows_no_score(visitor: Client) -> None:
    factories.judged(factories.passing(2.0, 0.02))
    address = reverse("task-picture", args=factories.TASK)
    known, unknown = (visitor.get(address, {"device": name}) for name in ("cpu-avx2", "<b>no</b>"))
    assert (known.status_code, unknown.status_code) == (200, 200)
    assert known.content != unknown.content


def test_an_old_board_has_no_preview(visitor: Client) -> None:
    RuleSet.objects.create(name="rk-0", sha256="0" * 64, text="")
    assert tags(visitor, f"{BOARD}?rules=rk-0") == {}


def test_an_entry_previews_score_rank_and_author(visitor: Client, owner: Any) -> None:
    evaluation = factories.judged(factories.passing(2.0, 0.02), owner=owner)
    said = tags(visitor, evaluation.get_absolute_url())["og:description"]
    assert said.endswith("(1.96× to 2.04×), rank 1, timed by the judge's clock, by olga, cpp, rule set rk-2")
    picture(visitor, evaluation.get_absolute_url())


@pytest.mark.parametrize(
    ("report", "words"),
    [(None, "not judged yet"), (factories.failing, "not accepted: COMPILE_ERROR"), (factories.gated, "under review")],
)
def test_what_has_no_rank_says_what_it_has(visitor: Client, report: Any, words: str) -> None:
    evaluation = factories.judged(report()) if report else factories.queued()
    said = tags(visitor, evaluation.get_absolute_url())["og:description"]
    assert said == f"{words}, by anonymous, cpp, rule set rk-2"
    picture(visitor, evaluation.get_absolute_url())


def test_a_private_evaluation_has_no_preview_not_even_for_its_owner(as_owner: Client, owner: Any) -> None:
    evaluation = factories.judged(owner=owner, visibility="private")
    assert tags(as_owner, evaluation.get_absolute_url()) == {}
    general = as_owner.get(reverse("evaluation-picture", args=[uuid.uuid4()]))
    assert as_owner.get(reverse("evaluation-picture", args=[evaluation.code])).content == general.content


def test_what_staff_have_hidden_has_no_preview(as_owner: Client, owner: Any, staff: Any) -> None:
    evaluation = factories.judged(owner=owner)
    decisions.decide(evaluation.submission, ActionKind.HIDE, by=staff, reason="Not a kernel.", note="")
    assert tags(as_owner, evaluation.get_absolute_url()) == {}
    general = as_owner.get(reverse("evaluation-picture", args=[uuid.uuid4()]))
    assert as_owner.get(reverse("evaluation-picture", args=[evaluation.code])).content == general.content


def test_a_recorded_entry_says_when_it_was_recorded(visitor: Client, tmp_path: Path) -> None:
    load_bundle(bundle_file(tmp_path / "bundle.jsonl"))
    entry = RecordedEntry.objects.get()
    said = tags(visitor, entry.get_absolute_url())["og:description"]
    assert said.endswith("(1.47× to 1.53×), rank 1, bounded timing, by somebody, cuda, recorded 2026-11-21")
    picture(visitor, entry.get_absolute_url())
    assert tags(visitor, entry.board_url)["og:description"] == said


def test_a_picture_may_be_kept_and_shown_elsewhere(visitor: Client) -> None:
    response = picture(visitor, BOARD)
    assert response["Cache-Control"] == "public, max-age=300"
    assert response["Cross-Origin-Resource-Policy"] == "cross-origin"
    assert not response.cookies


def test_a_long_title_stays_inside_the_picture() -> None:
    with pixels(replace(FULL, title="w" * 120)) as image:
        right = image.crop((WIDTH_PX - EDGE_PX + 2, 0, WIDTH_PX, HEIGHT_PX))
        assert len(right.getcolors() or ()) == 1


def test_a_fact_in_letters_that_the_font_lacks_is_left_out() -> None:
    assert png(replace(FULL, facts=("by олга", "cpp"))) == png(replace(FULL, facts=("cpp",)))


def test_the_longest_bar_is_that_of_the_longest_time() -> None:
    row = 398 + 46 + 15
    with pixels(FULL) as both, pixels(replace(FULL, times=(("this kernel", 1.0), ("PyTorch eager", 1.0)))) as same:
        assert both.getpixel((900, row - 46)) != same.getpixel((900, row - 46))
        assert both.getpixel((900, row)) == same.getpixel((900, row))
