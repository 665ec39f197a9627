"""Signing up, logging in and out, and the list of one's own submissions."""

from typing import Any

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
    visitor.post("/accounts/login/", {"username": "olga", "password": "olga-has-a-long-password"})
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
