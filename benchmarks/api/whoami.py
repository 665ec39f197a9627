"""GET /whoami: the account and token of a request. Does NOT show the quota: `/quota` does."""

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Field, Router, Schema

from benchmarks import teams

from .auth import Token

router = Router(tags=["account"])


class TokenOut(Schema):
    name: str
    scope: str = Field(description="read or submit")
    expires: datetime | None = Field(description="null: never")


class WhoamiOut(Schema):
    account: str
    is_staff: bool
    teams: list[str] = Field(description="teams that it can submit for")
    token: TokenOut


@router.get("", response=WhoamiOut, summary="The account and the token of a request", auth=Token())
def whoami(request: HttpRequest) -> Any:
    token = request.api_token  # type: ignore[attr-defined]
    told = TokenOut(name=token.name, scope=token.scope, expires=token.expires)
    owner = token.owner
    mine = [team.name for team in teams.teams_of(owner)]
    return WhoamiOut(account=owner.get_username(), is_staff=owner.is_staff, teams=mine, token=told)
