"""Passkeys without a browser: whose they are, how many there may be, and answers that no authenticator wrote.

`Key` is an authenticator in software. That browsers use them is tested in `tests/browser/test_passkeys.py`.
"""

import base64
import json
import re
from hashlib import sha256
from typing import Any

import pytest
from allauth.account.utils import user_pk_to_url_str
from allauth.mfa.models import Authenticator
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from django.core.exceptions import ValidationError
from django.test import Client
from fido2.cose import ES256
from fido2.utils import websafe_encode
from fido2.webauthn import AttestationObject, AttestedCredentialData, AuthenticatorData

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
    "9" * 9_000,
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
        for value in (None, 1, [], {}, "", LETTERS, "not base64 \u00fc", "A" * 3_000, "W1tb" * 2_000, "gYGB" * 2_000)
    ),
]
HERE = "https://testserver"
UP, UV, ATTESTED = 0x01, 0x04, 0x40  # present, verified by PIN or finger, with the public key


class Key:
    """An authenticator of one account, which answers as it is told to."""

    def __init__(self, owner: Any) -> None:
        self.private, self.name = ec.generate_private_key(ec.SECP256R1()), b"key of a test"
        self.handle = websafe_encode(user_pk_to_url_str(owner).encode())
        public = ES256.from_cryptography_key(self.private.public_key())
        attested = AttestedCredentialData.create(bytes(16), self.name, public)
        made = AttestationObject.create("none", self._data(UP | ATTESTED, attested), {})
        answer = {"clientDataJSON": self._said("create", LETTERS, HERE), "attestationObject": websafe_encode(made)}
        Authenticator.objects.create(
            user=owner, type="webauthn", data={"name": "steel", "credential": self._credential(answer)}
        )

    def answer(self, challenge: str, flags: int = UP | UV, origin: str = HERE, **more: Any) -> str:
        data, said = self._data(flags), self._said("get", challenge, origin, **more)
        signed = self.private.sign(data + sha256(_decoded(said)).digest(), ec.ECDSA(hashes.SHA256()))
        told = {"authenticatorData": websafe_encode(data), "signature": websafe_encode(signed)}
        return json.dumps(self._credential({**told, "clientDataJSON": said, "userHandle": self.handle}))

    def _data(self, flags: int, attested: bytes = b"") -> AuthenticatorData:
        return AuthenticatorData.create(sha256(b"testserver").digest(), AuthenticatorData.FLAG(flags), 0, attested)

    def _said(self, what: str, challenge: str, origin: str, **more: Any) -> str:
        said = {"type": f"webauthn.{what}", "challenge": challenge, "origin": origin, **more}
        return websafe_encode(json.dumps(said).encode())

    def _credential(self, response: dict[str, str]) -> dict[str, Any]:
        name = websafe_encode(self.name)
        return {"id": name, "rawId": name, "type": "public-key", "response": response}


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def key_of(owner: Any, name: str = "of Olga") -> Authenticator:
    return Authenticator.objects.create(user=owner, type="webauthn", data={"name": name, "credential": {}})


def begun(client: Client) -> str:
    """A session that has asked for a challenge."""
    return str(
        client.get(LOG_IN, headers={"accept": "application/json"}).json()["request_options"]["publicKey"]["rpId"]
    )


def challenge_of(client: Client) -> str:
    options = client.get(LOG_IN, headers={"accept": "application/json"}).json()["request_options"]
    return str(options["publicKey"]["challenge"])


def enter(client: Client, credential: str) -> bool:
    client.post(LOG_IN, {"credential": credential})
    return is_in(client)


def test_a_key_logs_its_owner_in_once(owner: Any) -> None:
    key, client = Key(owner), Client()
    answer = key.answer(challenge_of(client))
    assert enter(client, answer)
    client.logout()
    assert not enter(client, answer), "the answer is good for one challenge"
    challenge_of(client)
    assert not enter(client, answer)


@pytest.mark.parametrize(
    "changed",
    [
        {"origin": "https://evil.testserver"},
        {"origin": "https://testserver:8443"},
        {"origin": "http://testserver"},
        {"origin": "https://elsewhere.example"},
        {"crossOrigin": True},
        {"flags": UV},
        {"flags": UP},
    ],
)
def test_an_answer_from_elsewhere_or_without_its_owner_opens_nothing(owner: Any, changed: dict[str, Any]) -> None:
    key, client = Key(owner), Client()
    assert not enter(client, key.answer(challenge_of(client), **changed))


def test_the_challenge_of_another_page_does_not_spare_the_pin(owner: Any, stranger: Any, settings: Any) -> None:
    """A security key that was found is the second factor of its owner: without its PIN it is not both.

    The page for the second factor asks for no PIN. Its challenge is still there when the log-in that it is part of has
    taken too long.
    """
    Key(stranger)
    found, client = Key(owner), Client()
    client.post("/accounts/login/", {"login": "stefan", "password": "stefan-has-a-long-password"})
    asked = client.get("/accounts/2fa/authenticate/").content.decode()
    challenge = re.search(r'"challenge": ?"([\w-]+)"', asked)
    assert challenge is not None, asked
    settings.ACCOUNT_LOGIN_TIMEOUT = -1
    assert not enter(client, found.answer(challenge[1], UP))


def test_a_number_does_not_become_that_many_bytes() -> None:
    """fido2 makes `bytes(N)` of a number."""
    for member in ("id", "rawId", "type"):
        with pytest.raises(ValidationError):
            passkeys.CredentialField().clean(json.dumps({member: 10**13, "response": {}}))
    members = ("clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle", "publicKey")
    kept = passkeys.CredentialField().clean(json.dumps({"response": dict.fromkeys(members, 10**13)}))
    assert kept["response"] == {}


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
