"""The forms of passkeys: allauth's, with limits to what is read and stored, and one message for what is not accepted.

A browser's answer is JSON that anybody can write, so it is bounded before it is parsed. It must come from a page of
exactly this host, and to log in with a key alone its owner must have been verified (PIN, finger): allauth asks for
that when it sends the challenge, but takes a challenge of any of its pages. Does NOT verify signatures: allauth does,
with the package fido2.
"""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from allauth.core import context
from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.forms import (
    AddWebAuthnForm,
    AuthenticateWebAuthnForm,
    EditWebAuthnForm,
    LoginWebAuthnForm,
    ReauthenticateWebAuthnForm,
)
from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from fido2.utils import websafe_decode
from fido2.webauthn import AuthenticatorData, CollectedClientData

KEYS_MAX = 20  # of one account
NAME_MAX = 60
CREDENTIAL_BYTES_MAX = 16_384  # an answer with an attestation has about two kilobytes
_ANSWERS = ("clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle")
REFUSED = "The passkey was not accepted. Try again."


class CredentialField(forms.JSONField):
    """The answer of an authenticator: an object of limited size, with the members that are read, and only as texts.

    fido2 makes `bytes(N)` of a number N, so one number could take all memory of the process.
    """

    widget = forms.HiddenInput

    def bound_data(self, data: Any, initial: Any) -> Any:
        """Never shown again: an answer is good for one try."""
        return initial

    def to_python(self, value: Any) -> Any:
        if isinstance(value, str) and len(value.encode(errors="replace")) > CREDENTIAL_BYTES_MAX:
            raise ValidationError(REFUSED)
        try:
            credential = super().to_python(value)
            return None if credential is None else _texts_of(credential)
        except (AttributeError, TypeError, ValueError, RecursionError) as error:  # brackets in brackets, 5,000 digits
            raise ValidationError(REFUSED) from error


def _texts_of(credential: dict[str, Any]) -> dict[str, Any]:
    response, results = credential.get("response", {}), credential.get("clientExtensionResults", {})
    kept: dict[str, Any] = {name: credential[name] for name in ("id", "rawId", "type") if name in credential}
    if not all(isinstance(text, str) for text in kept.values()):
        raise TypeError
    kept["response"] = {name: text for name, text in response.items() if name in _ANSWERS and isinstance(text, str)}
    resident = results.get("credProps", {}).get("rk")
    kept["clientExtensionResults"] = {"credProps": {"rk": resident}} if isinstance(resident, bool) else {}
    return kept


class AddPasskeyForm(AddWebAuthnForm):  # type: ignore[misc]
    """A name, and what the authenticator says about its new key."""

    name = forms.CharField(label="Name", required=False, max_length=NAME_MAX)
    credential = CredentialField()

    def clean(self) -> Any:
        if Authenticator.objects.filter(user=self.user, type=Authenticator.Type.WEBAUTHN).count() >= KEYS_MAX:
            raise ValidationError(f"An account can have {KEYS_MAX} passkeys. Remove one first.")
        return checked(super().clean, self.cleaned_data.get("credential"))


class RenamePasskeyForm(EditWebAuthnForm):  # type: ignore[misc]
    """Another name."""

    name = forms.CharField(label="Name", max_length=NAME_MAX)


class PasskeyFactorForm(AuthenticateWebAuthnForm):  # type: ignore[misc]
    """A key beside the password."""

    credential = CredentialField()

    def clean_credential(self) -> Any:
        return checked(super().clean_credential, self.cleaned_data["credential"])


class PasskeyLogInForm(LoginWebAuthnForm):  # type: ignore[misc]
    """A key in place of name and password."""

    credential = CredentialField()

    def clean_credential(self) -> Any:
        return checked(super().clean_credential, self.cleaned_data["credential"], of_person=True)


class PasskeyAgainForm(ReauthenticateWebAuthnForm):  # type: ignore[misc]
    """A key before something important."""

    credential = CredentialField()

    def clean_credential(self) -> Any:
        return checked(super().clean_credential, self.cleaned_data["credential"])


def checked(check: Callable[[], Any], credential: Mapping[str, Any] | None, *, of_person: bool = False) -> Any:
    """What allauth's check says. It lets some errors of the parser of a malformed answer through."""
    try:
        if credential is not None:
            _refuse_elsewhere(credential["response"])
            if of_person and not _is_verified(credential["response"]):
                raise ValidationError(REFUSED)
        return check()
    except ValidationError as error:
        if getattr(error, "code", None) == "incorrect_code":
            raise ValidationError(REFUSED) from error
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise ValidationError(REFUSED) from error


def _refuse_elsewhere(response: Mapping[str, Any]) -> None:
    """fido2 also takes answers from subdomains, other ports and frames of other sites."""
    said = CollectedClientData(websafe_decode(response["clientDataJSON"]))
    here = context.request.get_host().lower()
    if said.cross_origin or (urlsplit(said.origin).netloc != here and said.origin not in settings.CSRF_TRUSTED_ORIGINS):
        raise ValidationError(REFUSED)


def _is_verified(response: Mapping[str, Any]) -> bool:
    """Whether the authenticator has asked its owner for a PIN or a finger; the signature covers this."""
    return bool(AuthenticatorData(websafe_decode(response["authenticatorData"])).is_user_verified())
