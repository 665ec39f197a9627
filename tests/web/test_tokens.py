"""API tokens on the site: shown once, listed without their text, revoked by their owner alone."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchmarks.accounts import tokens
from benchmarks.accounts.tokens import token_create, token_find
from benchmarks.models import ApiToken

from .test_second_factor import PASSWORD

URL = reverse("tokens")
AGAIN = "/accounts/reauthenticate/"


@pytest.fixture
def as_owner(as_owner: Client) -> Client:
    """Somebody who has just typed the password again."""
    as_owner.post(AGAIN, {"password": PASSWORD})
    return as_owner


def make(client: Client, **fields: Any) -> str:
    return client.post(URL, {"name": "laptop", "scope": "submit", **fields}).content.decode()


def test_a_token_is_shown_once_and_works(as_owner: Client, owner: Any) -> None:
    text = re.search(r'<code id="token">(kb_[\w-]+)</code>', make(as_owner))
    assert text is not None
    found = token_find(text[1])
    assert found is not None
    assert found.owner == owner
    assert text[1] not in as_owner.get(URL).content.decode()


def test_a_session_alone_makes_no_token(owner: Any) -> None:
    """A token outlives a session that was left open; the form is sent on when the password is right."""
    client = Client()
    client.force_login(owner)
    asked = client.post(URL, {"name": "laptop", "scope": "submit"})
    assert asked["Location"] == f"{AGAIN}?next={URL.replace('/', '%2F')}"
    assert b"Wrong password" in client.post(AGAIN, {"password": "a guess", "next": URL}).content
    assert not ApiToken.objects.exists()
    shown = client.post(AGAIN, {"password": PASSWORD, "next": URL}).content
    assert b'<code id="token">kb_' in shown
    assert ApiToken.objects.get().name == "laptop"


def test_a_token_may_expire(as_owner: Client) -> None:
    make(as_owner, days=30)
    assert ApiToken.objects.get().expires is not None
    assert "Ensure this value is greater than or equal to 1" in make(as_owner, days=0)


def test_an_account_has_only_so_many(as_owner: Client, owner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Revoking them does not make room for more on the same day, or the table would grow without end."""
    monkeypatch.setattr(tokens, "TOKENS_MAX", 2)
    for _ in range(2):
        as_owner.post(reverse("token-end", args=[token_create(owner, "old").row.pk]))
    assert "at most 2 tokens" in make(as_owner)
    ApiToken.objects.update(created=timezone.now() - timedelta(days=2))
    assert "at most 2 tokens" not in make(as_owner)
    assert ApiToken.objects.count() == 3


def test_its_owner_revokes_a_token(as_owner: Client, owner: Any) -> None:
    token = token_create(owner, "old")
    as_owner.post(reverse("token-end", args=[token.row.pk]))
    assert token_find(token.text) is None
    assert "revoked" in as_owner.get(URL).content.decode()


def test_nobody_revokes_the_token_of_somebody_else(as_stranger: Client, owner: Any) -> None:
    token = token_create(owner, "mine")
    as_stranger.post(reverse("token-end", args=[token.row.pk]))
    assert token_find(token.text) is not None
    assert "mine" not in as_stranger.get(URL).content.decode()


def test_without_an_account_there_are_no_tokens(visitor: Client) -> None:
    assert visitor.get(URL)["Location"].startswith(reverse("account_login"))
