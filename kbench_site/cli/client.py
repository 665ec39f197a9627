"""A client of the HTTP API on the standard library: KBENCH_URL names the site, KBENCH_TOKEN authorises.

Does NOT print anything, and leaves time-outs and second tries to `transport.py`.
"""

import json
import os
import urllib.request
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from .output import OUR_FAULT, WRONG_USAGE
from .transport import PAUSES_S, ApiError, send

__all__ = ["ApiError", "Client"]
DEFAULT_URL = "http://127.0.0.1:8000"


class Client:
    """The API of one site. Every method gives the JSON of the answer, or raises ApiError."""

    def __init__(self, url: str | None = None, token: str | None = None) -> None:
        self.url = (url or os.environ.get("KBENCH_URL") or DEFAULT_URL).rstrip("/")
        self.token = token or os.environ.get("KBENCH_TOKEN", "")
        self.pauses_s = PAUSES_S  # before further tries of one request, all together
        if not self.url.startswith(("http://", "https://")):
            raise ApiError(f"KBENCH_URL must begin with http:// or https://, not {self.url!r}", WRONG_USAGE)

    def get(self, path: str, **query: Any) -> Any:
        """`path` below /api/v1/; what is empty in `query` is left out."""
        return self._json("GET", path, query=query)

    def post(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Any:
        return self._json("POST", path, body=body, headers=headers)

    def evaluation(self, code: str, wait_s: float = 0) -> Any:
        return self.get(f"evaluations/{_part(code)}", wait=wait_s)

    def cancel(self, code: str) -> Any:
        return self.post(f"evaluations/{_part(code)}/cancel", {})

    def submit(self, submission: Mapping[str, Any]) -> Any:
        """One key for all tries, so that a lost answer does not submit twice."""
        return self.post("submissions", submission, {"Idempotency-Key": uuid.uuid4().hex})

    def start_check(self, task: str, source: str) -> Any:
        """A check without a GPU; one key for all tries, so that a lost answer does not start two."""
        return self.post("checks", {"task": task, "source": source}, {"Idempotency-Key": uuid.uuid4().hex})

    def check(self, code: str) -> Any:
        return self.get(f"checks/{_part(code)}")

    def run(self, code: str) -> Any:
        return self.get(f"runs/{_part(code)}")

    def run_events(self, code: str, after: int, wait_s: float) -> Any:
        return self.get(f"runs/{_part(code)}/events", after=after, wait=wait_s)

    def send_candidate(self, run: str, candidate: Mapping[str, Any]) -> Any:
        """Of an external run; one key for all tries, so that a lost answer does not send twice."""
        return self.post(f"runs/{_part(run)}/candidates", {"key": uuid.uuid4().hex, **candidate})

    def candidate(self, run: str, key: str, wait_s: float = 0) -> Any:
        return self.get(f"runs/{_part(run)}/candidates/{_part(key)}", wait=wait_s)

    def close_run(self, run: str, text: str = "") -> Any:
        return self.post(f"runs/{_part(run)}/close", {"text": text})

    def ask_for_profile(self, code: str) -> Any:
        return self.post(f"evaluations/{_part(code)}/profile", {})

    def profile(self, code: str) -> Any:
        return self.get(f"evaluations/{_part(code)}/profile")

    def source(self, code: str) -> bytes:
        """The source of an evaluation as it was submitted."""
        return str(self.get(f"evaluations/{_part(code)}/source")["source"]).encode()

    def _json(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        given = {name: value for name, value in (query or {}).items() if value}
        address = f"{self.url}/api/v1/{path}" + (f"?{urlencode(given)}" if given else "")
        data = None if body is None else json.dumps(body).encode()
        try:
            return json.loads(send(self._request(method, address, data, headers), self.pauses_s))
        except ValueError as error:
            raise ApiError(f"{self.url} answers, but is not a kbench site.", OUR_FAULT) from error

    def _request(
        self, method: str, address: str, data: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> urllib.request.Request:
        known = {"Accept": "application/json", "User-Agent": "kbench-cli", **(headers or {})}
        if data is not None:
            known["Content-Type"] = "application/json"
        if self.token:
            known["Authorization"] = f"Bearer {self.token}"
        return urllib.request.Request(address, data, known, method=method)  # noqa: S310 - http or https, see above


def _part(code: str) -> str:
    return quote(code.strip(), safe="")
