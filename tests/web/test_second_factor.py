"""A second factor: switched on with the password, asked for at every log-in, replaced by a recovery code once."""

import re
import time
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal import auth
from django.test import Client

PASSWORD = "olga-has-a-long-password"
FACTOR, CODES = "/accounts/2fa/totp/activate/", "/accounts/2fa/recovery-codes/"


def log_in(client: Client, **fields: str) -> Any:
    return client.post("/accounts/login/", {"login": "olga", "password": PASSWORD, **fields})


def confirm(client: Client, path: str) -> Any:
    """The page behind the question for the password."""
    asked = client.get(path)
    assert asked["Location"].startswith("/accounts/reauthenticate/"), asked["Location"]
    return client.post("/accounts/reauthenticate/", {"password": PASSWORD, "next": path}, follow=True)


def code_now(secret: str, monkeypatch: pytest.MonkeyPatch, step: int = 0) -> str:
    """What an app shows; a code counts once, so tests go on by steps of 30 s."""
    now = time.time() + 30 * step
    monkeypatch.setattr("allauth.mfa.totp.internal.auth.time.time", lambda: now)
    return auth.format_hotp_value(auth.hotp_value(secret, int(now) // 30))


def is_in(client: Client) -> bool:
    return client.get("/accounts/tokens/").status_code == 200


@pytest.fixture
def secret(owner: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of an account that has switched it on."""
    client = Client()
    log_in(client)
    page = confirm(client, FACTOR).content.decode()
    assert 'src="data:image/svg+xml' in page
    found = re.search(r'id="authenticator_secret"[^>]*value="(\w+)"', page)
    assert found, page
    assert b"Incorrect" in client.post(FACTOR, {"code": "abcdef"}).content
    client.post(FACTOR, {"code": code_now(found[1], monkeypatch)})
    assert Authenticator.objects.filter(user=owner, type="totp").exists()
    return found[1]


def test_a_log_in_needs_the_code(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    assert log_in(client, next="/tasks/")["Location"].startswith("/accounts/2fa/authenticate/")
    assert not is_in(client)
    assert b"Incorrect" in client.post("/accounts/2fa/authenticate/", {"code": "abcdef"}).content
    assert not is_in(client)
    code = code_now(secret, monkeypatch, step=2)
    assert client.post("/accounts/2fa/authenticate/", {"code": code})["Location"] == "/tasks/"
    assert is_in(client)


def test_a_code_counts_once(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code = code_now(secret, monkeypatch, step=2)
    first, second = Client(), Client()
    for client in (first, second):
        log_in(client)
        client.post("/accounts/2fa/authenticate/", {"code": code})
    assert (is_in(first), is_in(second)) == (True, False)


def test_a_recovery_code_replaces_it_once(secret: str, owner: Any) -> None:
    code = Authenticator.objects.get(user=owner, type="recovery_codes").wrap().get_unused_codes()[0]
    first, second = Client(), Client()
    for client in (first, second):
        log_in(client)
        client.post("/accounts/2fa/authenticate/", {"code": code})
    assert (is_in(first), is_in(second)) == (True, False)


def test_guessing_codes_is_slowed_down(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    log_in(client)
    for _ in range(10):
        client.post("/accounts/2fa/authenticate/", {"code": "abcdef"})
    code = code_now(secret, monkeypatch, step=2)
    assert b"Too many failed attempts" in client.post("/accounts/2fa/authenticate/", {"code": code}).content
    assert not is_in(client)


def test_a_stranger_with_the_session_does_not_take_it_off(as_owner: Client, secret: str) -> None:
    """An old session alone is not enough: the password or a code is asked for first."""
    assert as_owner.post("/accounts/2fa/totp/deactivate/")["Location"].startswith("/accounts/reauthenticate/")
    assert Authenticator.objects.filter(type="totp").exists()
    confirm(as_owner, "/accounts/2fa/totp/deactivate/")
    as_owner.post("/accounts/2fa/totp/deactivate/")
    assert not Authenticator.objects.exists()


def test_recovery_codes_are_shown_after_the_password(as_owner: Client, secret: str, owner: Any) -> None:
    codes = Authenticator.objects.get(user=owner, type="recovery_codes").wrap().get_unused_codes()
    shown = confirm(as_owner, CODES).content.decode()
    assert all(code in shown for code in codes)
    assert as_owner.get(f"{CODES}download/").content.decode().split()[-1] in codes
