"""The OpenID Connect provider: allauth's, with identities that belong to who issued them.

A subject (`sub`) is unique at its issuer alone, so the stored identity names both. Does NOT talk to the provider:
allauth does, and it checks issuer and audience of the ID token.
"""

from hashlib import sha256
from typing import Any

from allauth.socialaccount import app_settings
from allauth.socialaccount.models import SocialAccount
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider


class IssuerBoundProvider(OpenIDConnectProvider):  # type: ignore[misc]
    """A provider whose address in the settings may change: its identities do not pass to another one's."""

    def extract_uid(self, data: dict[str, Any]) -> str:
        issuer, subject = _identity(data)
        name = f"{issuer}#{subject}"  # an issuer has no fragment
        longest: int = app_settings.UID_MAX_LENGTH
        return name if len(name) <= longest else f"sha256:{sha256(name.encode()).hexdigest()}"

    def sociallogin_from_response(self, request: Any, response: dict[str, Any]) -> Any:
        """An identity that was stored without its issuer gets it, if its last log-in was there."""
        issuer, subject = _identity(response)
        plain = SocialAccount.objects.filter(provider=self.sub_id, uid=subject, extra_data__id_token__iss=issuer)
        plain.update(uid=self.extract_uid(response))
        return super().sociallogin_from_response(request, response)


def _identity(data: dict[str, Any]) -> tuple[str, str]:
    """Issuer and subject of the ID token. Raises OAuth2Error where the two answers are about different people."""
    token, told = data.get("id_token") or {}, data.get("userinfo") or {}
    issuer, subject = token.get("iss"), token.get("sub")
    if not (isinstance(issuer, str) and isinstance(subject, str) and issuer and subject):
        raise OAuth2Error("The provider sent no ID token.")
    if told.get("sub", subject) != subject:
        raise OAuth2Error("The provider's ID token and user information name different people.")
    return issuer, subject
