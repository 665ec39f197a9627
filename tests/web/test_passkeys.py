"""Passkeys without a browser: whose they are, how many there may be, and answers that no authenticator wrote.

That they log anybody in is a test with a browser (`tests/browser/test_passkeys.py`).
"""

import json
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.test import Client

from benchmarks.accounts import passkeys

from .test_second_factor import confirm, is_in

KEYS = "/accounts/2fa/webauthn/"
ADD, LOG_IN = f"{KEYS}add/", f"{KEYS}login/"
LETTERS = "QUJD"
MALFORMED = [
    "",
    "null",
    "[]",
    '"text"',
    "1",
    "{}",
    "{" * 500,
    "[" * 9_000,
    json.dumps({"response": None}),
    json.dumps({"response": {"userHandle": 1}}),
    json.dumps({"response": {"userHandle": "x"}}),
    json.dumps({"id": LETTERS, "rawId": LETTERS, "type": "public-key", "response": {}}),
    *(
        json.dumps({"id": LETTERS, "rawId": LETTERS, "type": "public-key", "response": dict.fromkeys(names, value)})
        for names in (
            ("clientDataJSON", "attestationObject"),
            ("clientDataJSON", "authenticatorData", "signature", "userHandle"),
        )
        for value in (None, 1, [], {}, "", LETTERS, "not base64 \u00fc", "A" * 3_000)
    ),
]


def key_of(owner: Any, name: str = "of Olga") -> Authenticator:
    return Authenticator.objects.create(user=owner, type="webauthn", data={"name": name, "credential": {}})


def begun(client: Client) -> str:
    """A session that has asked for a challenge."""
    return str(
        client.get(LOG_IN, headers={"accept": "application/json"}).json()["request_options"]["publicKey"]["rpId"]
    )


def test_a_challenge_names_this_host() -> None:
    assert begun(Client(headers={"host": "localhost:8000"})) == "localhost"


def test_what_no_key_answered_opens_nothing(owner: Any) -> None:
    client = Client()
    for credential in MALFORMED:
        begun(client)
        answer = client.post(LOG_IN, {"credential": credential}, headers={"x-forwarded-for": "10.0.0.1"})
        assert (answer.status_code, answer["Location"]) == (302, "/accounts/login/"), credential[:80]
    assert not is_in(client)


def test_what_no_key_answered_is_not_stored(as_owner: Client) -> None:
    confirm(as_owner, ADD)
    for credential in MALFORMED:
        as_owner.get(ADD)
        assert as_owner.post(ADD, {"name": "mine", "credential": credential}).status_code == 200, credential[:80]
    large = json.dumps({"id": "A" * passkeys.CREDENTIAL_BYTES_MAX})
    assert passkeys.REFUSED in as_owner.post(ADD, {"name": "mine", "credential": large}).content.decode()
    assert not Authenticator.objects.exists()


def test_an_account_has_a_limited_number_of_keys(as_owner: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passkeys, "KEYS_MAX", 0)
    confirm(as_owner, ADD)
    assert "Remove one first" in as_owner.post(ADD, {"name": "one more", "credential": "{}"}).content.decode()


@pytest.mark.parametrize("word", ["edit", "remove"])
def test_a_key_is_its_owners(as_owner: Client, as_stranger: Client, owner: Any, word: str) -> None:
    """A stranger finds nothing; the owner shows the password again first."""
    key = key_of(owner)
    path = f"{KEYS}keys/{key.pk}/{word}/"
    for client in (as_owner, as_stranger):
        assert client.post(path, {"name": "another"})["Location"].startswith("/accounts/reauthenticate/")
    as_stranger.post("/accounts/reauthenticate/", {"password": "stefan-has-a-long-password"})
    assert as_stranger.post(path, {"name": "another"}).status_code == 404
    confirm(as_owner, path)
    as_owner.post(path, {"name": "another"})
    assert [key.data["name"] for key in Authenticator.objects.all()] == (["another"] if word == "edit" else [])


def test_a_name_is_text(as_owner: Client, owner: Any) -> None:
    key_of(owner, "<script>alert(1)</script>")
    page = as_owner.get(KEYS).content.decode()
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page


def test_the_log_in_page_offers_it_without_inline_scripts() -> None:
    page = Client().get("/accounts/login/")
    assert "unsafe" not in page["Content-Security-Policy"]
    assert 'id="passkey_login" data-passkeys hidden' in page.content.decode()
