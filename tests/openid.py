"""A small OpenID Connect provider on this machine: whoever asks is let through as the person it was told of.

It checks what a provider checks: client, secret, callback, code, and the proof that binds a code to a browser (PKCE).
For browsers it can have a page of its own first, with a button to log in. Does NOT ask for a password, nor sign
tokens with a key of its own: a client that fetches them directly need not look at signatures.
"""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt

CLIENT, SECRET = "kbench", "a secret of a client of this test suite"
PAGE = """<!doctype html><html lang="en"><title>Provider</title><link rel="icon" href="data:,">
<h1>Log in at the provider</h1><form method="post"><button>Let me in</button></form>"""


class OpenIdServer(ThreadingHTTPServer):
    """The provider; `person` is who logs in next."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.person: dict[str, Any] = {"sub": "17", "preferred_username": "nora", "name": "Nora N"}
        self.claims: dict[str, Any] = {}  # what the ID token says otherwise
        self.has_page = False  # on which people log in first
        self.answer: dict[str, str] = {}  # what the browser takes back instead of a code
        self.codes: dict[str, dict[str, str]] = {}
        self.tokens: dict[str, dict[str, Any]] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def configuration(self) -> dict[str, Any]:
        ends = {"authorization_endpoint": "authorize", "token_endpoint": "token", "userinfo_endpoint": "userinfo"}
        return {"issuer": self.url, "jwks_uri": f"{self.url}/keys", **{k: f"{self.url}/{v}" for k, v in ends.items()}}


class _Handler(BaseHTTPRequestHandler):
    server: OpenIdServer

    def do_GET(self) -> None:
        path, asked = urlsplit(self.path).path, self._fields(urlsplit(self.path).query)
        if path == "/.well-known/openid-configuration":
            self._say(self.server.configuration())
        elif path == "/authorize" and asked.get("client_id") == CLIENT and "openid" in asked["scope"].split():
            if self.server.has_page:
                self._send(PAGE.encode(), "text/html")
            else:
                self._lead_back(asked)
        elif path == "/userinfo":
            person = self.server.tokens.get(self.headers["Authorization"].removeprefix("Bearer "))
            self._say(person or {"error": "invalid_token"}, 200 if person else 401)
        else:
            self._say({"error": "not here"}, 404)

    def do_POST(self) -> None:
        sent = self._fields(self.rfile.read(int(self.headers["Content-Length"])).decode())
        if urlsplit(self.path).path == "/authorize":  # the page's form, which has the address of the page
            self._lead_back(self._fields(urlsplit(self.path).query))
            return
        asked = self.server.codes.pop(sent.get("code", ""), None)
        if self.path != "/token" or asked is None or not self._is_proven(sent, asked):
            self._say({"error": "invalid_grant"}, 400)
            return
        token = secrets.token_urlsafe(16)
        self.server.tokens[token] = self.server.person
        now = int(time.time())
        claims = {
            "iss": self.server.url,
            "aud": CLIENT,
            "iat": now,
            "exp": now + 60,
            **self.server.person,
            **self.server.claims,
        }
        signed = jwt.encode(claims, SECRET, algorithm="HS256")
        self._say({"access_token": token, "token_type": "Bearer", "expires_in": 60, "id_token": signed})

    def _lead_back(self, asked: dict[str, str]) -> None:
        code = secrets.token_urlsafe(16)
        self.server.codes[code] = asked
        answer = self.server.answer or {"code": code}
        self.send_response(302)
        self.send_header("Location", f"{asked['redirect_uri']}?{urlencode({'state': asked['state'], **answer})}")
        self.end_headers()

    def _is_proven(self, sent: dict[str, str], asked: dict[str, str]) -> bool:
        digest = hashlib.sha256(sent.get("code_verifier", "").encode()).digest()
        proof = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        return (sent.get("client_id"), sent.get("client_secret"), sent.get("redirect_uri"), proof) == (
            CLIENT,
            SECRET,
            asked["redirect_uri"],
            asked.get("code_challenge"),
        )

    def _fields(self, text: str) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(text).items()}

    def _say(self, value: Any, status: int = 200) -> None:
        self._send(json.dumps(value).encode(), "application/json", status)

    def _send(self, body: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@contextmanager
def openid_server() -> Iterator[OpenIdServer]:
    with OpenIdServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
