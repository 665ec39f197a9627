"""Bodies of requests: JSON in UTF-8, and no text that a database cannot keep.

Does NOT check what the fields mean; the schemas and forms do.
"""

import json
from http import HTTPStatus
from typing import Any

from django.http import HttpRequest
from ninja.parser import Parser

from .problems import Problem

JSON_TYPES = ("application/json", "application/problem+json")


class JsonParser(Parser):
    """Raises Problem for another content type, for what is no JSON, and for text that nobody can store."""

    def parse_body(self, request: HttpRequest) -> Any:
        if request.content_type not in JSON_TYPES:
            detail = f"Send the body as application/json, not as {request.content_type or 'nothing'}."
            raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", detail)
        try:
            body = json.loads(request.body, parse_constant=_refused_constant)
        except (ValueError, RecursionError) as error:
            raise Problem(HTTPStatus.BAD_REQUEST, "bad-request", f"The body is not JSON: {error}") from error
        if not isinstance(body, dict):
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", "The body is not a JSON object.")
        _demand_storable(body)
        return body


def _refused_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _demand_storable(value: Any) -> None:
    """NUL and halves of surrogate pairs can be written in JSON and kept nowhere."""
    if isinstance(value, dict):
        for name, part in value.items():
            _demand_storable(name)
            _demand_storable(part)
    elif isinstance(value, list):
        for part in value:
            _demand_storable(part)
    elif isinstance(value, str) and not is_storable(value):
        detail = "A text contains NUL or half of a surrogate pair, which cannot be stored."
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", detail)


def is_storable(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)
