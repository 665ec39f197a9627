"""GET /whoami: the account and token of a request. Does NOT show the quota: `/quota` does."""

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Field, Router, Schema

from .auth import Token

router = Router(tags=["account"])


class TokenOut(Schema):
    name: str
    scope: str = Field(description="read or submit")
    expires: datetime | None = Field(description="null: never")


class WhoamiOut(Schema):
    account: str
    is_staff: bool
    token: TokenOut


@router.get("", response=WhoamiOut, summary="The account and the token of a request", auth=Token())
def whoami(request: HttpRequest) -> Any:
    token = request.api_token  # type: ignore[attr-defined]
    told = TokenOut(name=token.name, scope=token.scope, expires=token.expires)
    return WhoamiOut(account=token.owner.get_username(), is_staff=token.owner.is_staff, token=told)
