"""Every page answers everybody who may read it, is well formed for assistive tools, and obeys the site's own policy."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from . import factories

BOARD = reverse("leaderboard", args=[*factories.TASK, "cpu-avx2"])
PAGES = [
    "/",
    "/tasks/",
    reverse("task", args=factories.TASK),
    reverse("submit", args=factories.TASK),
    "/leaderboards/",
    BOARD,
    "/rules/",
    "/rules/attacks/",
    "/status/",
    "/accounts/login/",
    "/accounts/signup/",
    "/accounts/submissions/",
]


@pytest.mark.parametrize("url", PAGES)
def test_an_empty_site_shows_every_page(visitor: Client, url: str) -> None:
    response = visitor.get(url)
    assert response.status_code == 200
    assert response.content.count(b"<h1") == 1


@pytest.mark.parametrize("url", PAGES)
def test_a_site_in_use_shows_every_page(visitor: Client, url: str) -> None:
    factories.judged()
    factories.judged(factories.gated(), text=factories.SOURCE + "// other\n")
    factories.queued()
    assert visitor.get(url).status_code == 200


@pytest.mark.parametrize("url", PAGES)
def test_no_page_carries_inline_scripts_or_styles(visitor: Client, url: str) -> None:
    factories.judged()
    html = visitor.get(url).content.decode()
    assert not re.search(r'<script(?![^>]*\b(?:src=|type="application/json"))', html)  # data is not run
    assert not re.search(r"\sstyle=|<style|\son\w+=|hx-on", html)
    assert "//cdn" not in html


@pytest.mark.parametrize("url", PAGES)
def test_every_table_header_has_a_scope(visitor: Client, url: str) -> None:
    factories.judged()
    html = visitor.get(url).content.decode()
    assert all("scope=" in header for header in re.findall(r"<th\b[^>]*>", html))


@pytest.mark.parametrize("url", PAGES)
def test_every_form_control_has_a_label(visitor: Client, url: str) -> None:
    html = visitor.get(url).content.decode()
    controls = re.findall(r"<(?:input|select|textarea)\b[^>]*>", html)
    ids = [re.search(r'id="([^"]+)"', tag) for tag in controls if 'type="hidden"' not in tag]
    assert all(found and f'for="{found[1]}"' in html for found in ids)


def test_an_unknown_page_says_so(visitor: Client) -> None:
    response = visitor.get("/tasks/robust-kbench/no_such_operation/forward/")
    assert response.status_code == 404
    assert b"Page not found" in response.content
