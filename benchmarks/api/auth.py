"""The token of a request, and what it allows.

The middleware has already looked the token up, because reading uses it, too. Does NOT make tokens
(`accounts/tokens.py`).
"""

from http import HTTPStatus
from typing import Any

from django.contrib.auth.models import User
from django.http import HttpRequest
from ninja.security import HttpBearer

from benchmarks.states import TokenScope

from .problems import Problem


class Token(HttpBearer):
    """What writing asks for."""

    def authenticate(self, request: HttpRequest, token: str) -> Any:
        return request.api_token  # type: ignore[attr-defined]


MAY_SEND_TOKEN: dict[str, Any] = {"security": [{}, {Token.__name__: []}]}


def owner_of(request: HttpRequest) -> User:
    """Whose token the request carries, if it may write. Raises Problem."""
    token: Any = request.api_token  # type: ignore[attr-defined]
    if token.scope != TokenScope.SUBMIT:
        raise Problem(HTTPStatus.FORBIDDEN, "scope-missing", "This token has read access only.")
    owner: User = token.owner
    return owner
