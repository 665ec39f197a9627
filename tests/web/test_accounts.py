"""Signing up, logging in and out, and the list of one's own submissions."""

import html
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

from . import factories

PASSWORD = "a-password-nobody-has"
OWN = "/accounts/submissions/"


def sign_up(client: Client, **fields: str) -> Any:
    return client.post(
        "/accounts/signup/", {"username": "nora", "password1": PASSWORD, "password2": PASSWORD, **fields}
    )


def test_signing_up_logs_in(visitor: Client) -> None:
    sign_up(visitor)
    assert b"nora" in visitor.get("/").content


def test_signing_up_returns_to_where_one_came_from(visitor: Client) -> None:
    assert sign_up(visitor, next="/tasks/")["Location"] == "/tasks/"


def test_signing_up_never_leads_to_another_site(visitor: Client) -> None:
    assert sign_up(visitor, next="https://elsewhere.example/")["Location"] == "/"


def test_a_taken_name_is_explained(visitor: Client, owner: Any) -> None:
    assert b"already exists" in sign_up(visitor, username=owner.username).content
    assert get_user_model().objects.count() == 1


def test_logging_in_and_out(visitor: Client, owner: Any) -> None:
    visitor.post("/accounts/login/", {"login": "olga", "password": "olga-has-a-long-password"})
    assert b"Log out" in visitor.get("/").content
    visitor.post("/accounts/logout/")
    assert b"Log in" in visitor.get("/").content


def test_the_own_list_holds_private_ones_and_nobody_elses(as_owner: Client, owner: Any, stranger: Any) -> None:
    mine = factories.queued(owner=owner, visibility="private")
    other = factories.queued(owner=stranger, text=factories.SOURCE + "// other\n")
    html = as_owner.get(OWN).content.decode()
    assert mine.get_absolute_url() in html
    assert other.get_absolute_url() not in html


def test_a_browser_without_an_account_finds_its_submissions_again(visitor: Client) -> None:
    response = visitor.post(reverse("submit", args=factories.TASK), {"text": factories.SOURCE, "language": "cpp"})
    assert response["Location"] in visitor.get(OWN).content.decode()
    assert response["Location"] not in Client().get(OWN).content.decode()


def test_the_theme_of_a_returning_browser_needs_no_script(visitor: Client) -> None:
    visitor.cookies["theme"] = "dark"
    assert b'<html lang="en" data-theme="dark">' in visitor.get("/").content
    visitor.cookies["theme"] = "'><script>"
    assert b'<html lang="en">' in visitor.get("/").content


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("vict\u0456m", "of one script, because others can look the same; these are Cyrillic and Latin"),
        ("kbench", "reserved"),
        ("KBench", "reserved"),
        ("k.bench", "reserved"),
        ("anonymous", "reserved"),
        ("admin", "reserved"),
        ("adm1n", "reserved"),
        ("\uff41dmin", "reserved"),
        ("r00t", "reserved"),
        ("\u0430\u0434\u043c\u0456\u043d\u200b", "zero width space"),
        (".", "at least one letter or digit"),
        ("..", "at least one letter or digit"),
        ("-_-", "at least one letter or digit"),
        ("ann\u0301\u0301", "combining"),
        ("a\u0663", "arabic-indic"),
    ],
)
def test_a_name_that_speaks_for_others_is_refused(visitor: Client, name: str, words: str) -> None:
    password = "a-long-password-of-nobody"
    fields = {"username": name, "password1": password, "password2": password}
    text = html.unescape(visitor.post(reverse("account_signup"), fields).content.decode())
    assert words in text or "Enter a valid username" in text
    assert not get_user_model().objects.exists()


@pytest.mark.parametrize(
    ("known", "name"),
    [
        ("victim", "Victim"),
        ("victim", "v1ctim"),
        ("victim", "v\u00edctim"),
        ("linda", "Iinda"),
        ("coco", "\u0441\u043e\u0441\u043e"),
        ("fine", "\ufb01ne"),
        ("modern", "modem"),
        ("bob", "b0b"),
    ],
)
def test_a_name_that_looks_like_another_is_taken(known: str, name: str, visitor: Client) -> None:
    get_user_model().objects.create_user(known)
    assert b"already exists" in sign_up(visitor, username=name).content


@pytest.mark.parametrize(
    "name",
    [
        "ann",
        "ann-2",
        "\u00c4nne",
        "\u043e\u043b\u044c\u0433\u0430",
        "\u7528\u6237",
        "\u6771\u4eac\u30ab\u30ca",
        "x@y.z",
    ],
)
def test_names_of_people_are_taken(name: str, visitor: Client) -> None:
    assert sign_up(visitor, username=name).status_code == 302
    assert get_user_model().objects.get().username == name


def test_a_name_is_kept_in_its_normal_form(visitor: Client) -> None:
    sign_up(visitor, username="\uff41nna")
    assert get_user_model().objects.get().username == "anna"
    visitor.post("/accounts/logout/")
    assert visitor.post("/accounts/login/", {"login": "\uff41nna", "password": PASSWORD}).status_code == 302
