"""The outcomes of a call: a `Completion`, or a `Failure` whose kind says how to react to it.

Every error of the SDK and of the connection below it is put into one of the kinds here. Not covered: waiting and
trying again (`client.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import httpx2

from .prices import Usage

if TYPE_CHECKING:
    from anthropic import APIStatusError

# What the SDK raises when a server's stream is not what it should be: it is parsed without validation
MALFORMED = (ValueError, TypeError, LookupError, AttributeError, RuntimeError, AssertionError)
SPEND_LIMIT = "enforced_spend_limit_reached"


class Kind(StrEnum):
    """Why there is no answer."""

    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    UNREACHABLE = "unreachable"
    CUT = "cut"  # the stream ended before its end
    PAUSED_BY_BREAKER = "paused_by_breaker"
    SPEND_LIMIT = "spend_limit"
    UNPAID = "unpaid"
    KEY_REFUSED = "key_refused"
    MODEL_UNKNOWN = "model_unknown"
    BAD_REQUEST = "bad_request"
    TOO_LARGE = "too_large"
    CONTEXT_EXCEEDED = "context_exceeded"
    MAX_TOKENS = "max_tokens"
    REFUSAL = "refusal"
    PAUSE_TURN = "pause_turn"
    FLOOD = "flood"  # more text than was asked for


_TRANSIENT = {Kind.RATE_LIMITED, Kind.OVERLOADED, Kind.SERVER_ERROR, Kind.UNREACHABLE, Kind.CUT}
_OUTAGE = _TRANSIENT - {Kind.RATE_LIMITED} | {Kind.PAUSED_BY_BREAKER}
_FOR_A_PERSON = {
    Kind.SPEND_LIMIT,
    Kind.UNPAID,
    Kind.KEY_REFUSED,
    Kind.MODEL_UNKNOWN,
    Kind.BAD_REQUEST,
    Kind.TOO_LARGE,
}


class Failure(Exception):
    """A call without an answer. `text` is a sentence for the person."""

    def __init__(self, kind: Kind, text: str, *, status: int | None = None, retry_after_s: float | None = None) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text
        self.status = status
        self.retry_after_s = retry_after_s

    @property
    def transient(self) -> bool:
        """The same call may succeed later."""
        return self.kind in _TRANSIENT

    @property
    def outage(self) -> bool:
        """The vendor is ill, not this call."""
        return self.kind in _OUTAGE

    @property
    def needs_person(self) -> bool:
        """No further call can succeed until a person has fixed the cause."""
        return self.kind in _FOR_A_PERSON


@dataclass(frozen=True)
class Completion:
    """A whole answer."""

    text: str
    thinking: str
    tool_inputs: tuple[Mapping[str, Any], ...]
    usage: Usage
    request_id: str | None
    content: tuple[Mapping[str, Any], ...] = ()  # the blocks, as a conversation repeats them


def failure_of(error: Exception) -> Failure:
    """The kind that an exception of the SDK or the connection belongs to."""
    import anthropic

    if isinstance(error, anthropic.APIStatusError):
        return _of_status(error)
    if isinstance(error, anthropic.APIConnectionError):
        cause = error.__cause__
        if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout | httpx2.ProxyError):
            return Failure(Kind.UNREACHABLE, f"the vendor cannot be reached: {cause or error.message}")
        return Failure(Kind.CUT, f"the connection broke before an answer came: {cause or error.message}")
    if isinstance(error, httpx2.HTTPError | httpx2.StreamError):
        return Failure(Kind.CUT, f"the connection broke in mid-stream: {type(error).__name__}")
    return Failure(Kind.CUT, f"the stream could not be read: {type(error).__name__}")


def failure_of_stop(stop_reason: str | None) -> Failure | None:
    """What a stop reason other than the end of the answer means."""
    if stop_reason in ("end_turn", "stop_sequence", "tool_use"):
        return None
    unknown = (Kind.CUT, f"the model stopped for a reason that is not known here: {stop_reason!r:.60}")
    return Failure(*STOPS.get(stop_reason, unknown))


def _of_status(error: "APIStatusError") -> Failure:
    """In mid-stream the status is 200 and only the type of the error says what happened."""
    kind = _kind(error)
    if error.response.is_redirect:
        host, target = error.request.url.host, error.response.headers["location"]
        return Failure(kind, f"{host} redirects to {target:.200}, where the key is not sent", status=error.status_code)
    text = f"{_WORDS.get(kind, 'the vendor answered with an error')} ({error.status_code}): {_said(error)}"
    return Failure(kind, text, status=error.status_code, retry_after_s=_retry_after_s(error.response.headers))


def _kind(error: "APIStatusError") -> Kind:
    if error.error_code == SPEND_LIMIT:
        return Kind.SPEND_LIMIT
    by_type = _BY_TYPE.get(str(error.type))
    if by_type and (error.status_code == 200 or by_type is Kind.UNPAID):
        return by_type
    if error.status_code in BY_STATUS:
        return BY_STATUS[error.status_code]
    return Kind.SERVER_ERROR if error.status_code >= 500 or error.status_code == 200 else Kind.BAD_REQUEST


BY_STATUS = {
    401: Kind.KEY_REFUSED,
    402: Kind.UNPAID,
    403: Kind.KEY_REFUSED,
    404: Kind.MODEL_UNKNOWN,
    408: Kind.SERVER_ERROR,
    409: Kind.SERVER_ERROR,
    413: Kind.TOO_LARGE,
    429: Kind.RATE_LIMITED,
    529: Kind.OVERLOADED,
}
_BY_TYPE = {
    "overloaded_error": Kind.OVERLOADED,
    "rate_limit_error": Kind.RATE_LIMITED,
    "api_error": Kind.SERVER_ERROR,
    "timeout_error": Kind.SERVER_ERROR,
    "billing_error": Kind.UNPAID,
    "invalid_request_error": Kind.BAD_REQUEST,
    "authentication_error": Kind.KEY_REFUSED,
    "permission_error": Kind.KEY_REFUSED,
    "not_found_error": Kind.MODEL_UNKNOWN,
    "request_too_large": Kind.TOO_LARGE,
}
_WORDS = {
    Kind.RATE_LIMITED: "the vendor's rate limit is reached",
    Kind.OVERLOADED: "the vendor is overloaded",
    Kind.SERVER_ERROR: "the vendor has a fault",
    Kind.SPEND_LIMIT: "the spend limit set at the vendor is reached",
    Kind.UNPAID: "the vendor asks for a payment",
    Kind.KEY_REFUSED: "the vendor does not accept the key",
    Kind.MODEL_UNKNOWN: "the vendor does not know the model",
    Kind.BAD_REQUEST: "the vendor did not accept the request",
    Kind.TOO_LARGE: "the request is too large",
}


STOPS = {
    None: (Kind.CUT, "the stream ended without its end mark: the answer is cut off"),
    "max_tokens": (Kind.MAX_TOKENS, "the answer was longer than allowed and is cut off"),
    "refusal": (Kind.REFUSAL, "the model declined to answer"),
    "model_context_window_exceeded": (Kind.CONTEXT_EXCEEDED, "prompt and answer together do not fit into the model"),
    "pause_turn": (Kind.PAUSE_TURN, "the model paused its turn, which a call without tools cannot resume"),
}


def _said(error: "APIStatusError") -> str:
    words = str(error.api_message or error.type or "no reason given")
    return words if len(words) <= 300 else f"{words[:299]}…"


def _retry_after_s(headers: httpx2.Headers) -> float | None:
    """Seconds or milliseconds; a date is not understood and counts as absent."""
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            value = float(headers[name]) * unit_s
        except (KeyError, ValueError):
            continue
        if 0 <= value < float("inf"):
            return value
    return None
