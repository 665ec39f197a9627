"""A client of the HTTP API on the standard library: KBENCH_URL names the site, KBENCH_TOKEN who asks.

Does NOT print anything; whatever goes wrong is an ApiError with the exit code that it means.
"""

import json
import os
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

from .output import OUR_FAULT, WRONG_USAGE

DEFAULT_URL = "http://127.0.0.1:8000"
TIMEOUT_S = 90
TRIES = 3


class ApiError(Exception):
    """A request that was refused or got no answer; the text is for the person."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


class Client:
    """The API of one site."""

    def __init__(self, url: str | None = None, token: str | None = None) -> None:
        self.url = (url or os.environ.get("KBENCH_URL") or DEFAULT_URL).rstrip("/")
        self.token = token or os.environ.get("KBENCH_TOKEN", "")
        if not self.url.startswith(("http://", "https://")):
            raise ApiError(f"KBENCH_URL must begin with http:// or https://, not {self.url!r}", WRONG_USAGE)

    def tasks(self, device: str) -> Any:
        return self._ask("tasks", device=device)

    def leaderboard(self, task: str, device: str) -> Any:
        return self._ask("leaderboards", task=task, device=device)

    def evaluation(self, code: str, wait_s: float = 0) -> Any:
        return self._ask(f"evaluations/{quote(code, safe='')}", wait=wait_s)

    def submit(self, submission: dict[str, Any]) -> Any:
        """One key for all tries, so that a lost answer does not submit twice."""
        return self._ask("submissions", submission, {"Idempotency-Key": uuid.uuid4().hex})

    def start_run(self, wanted: dict[str, Any]) -> Any:
        return self._ask("runs", wanted)

    def run(self, code: str) -> Any:
        return self._ask(f"runs/{quote(code, safe='')}")

    def run_events(self, code: str, after: int, wait_s: float) -> Any:
        return self._ask(f"runs/{quote(code, safe='')}/events", after=after, wait=wait_s)

    def _ask(
        self, path: str, body: Mapping[str, Any] | None = None, headers: dict[str, str] | None = None, **query: Any
    ) -> Any:
        given = {name: value for name, value in query.items() if value}
        address = f"{self.url}/api/v1/{path}" + (f"?{urlencode(given)}" if given else "")
        data = None if body is None else json.dumps(body).encode()
        known = {"Accept": "application/json", "Content-Type": "application/json", "User-Agent": "kbench-cli"}
        known |= headers or {}
        if self.token:
            known["Authorization"] = f"Bearer {self.token}"
        return self._answer(urllib.request.Request(address, data, known))  # noqa: S310 - http or https, see above

    def _answer(self, request: urllib.request.Request) -> Any:
        problem = ""
        for _ in range(TRIES):
            try:
                with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 - same
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                raise _refusal(error) from error
            except (urllib.error.URLError, OSError, ValueError) as error:
                problem = str(getattr(error, "reason", error))
        raise ApiError(f"{self.url} does not answer: {problem}", OUR_FAULT)


def _refusal(error: urllib.error.HTTPError) -> ApiError:
    try:
        text = str(json.load(error)["detail"])
    except (ValueError, KeyError, TypeError):
        text = f"the site answered {error.code}"
    return ApiError(text, WRONG_USAGE if error.code < HTTPStatus.INTERNAL_SERVER_ERROR else OUR_FAULT)
