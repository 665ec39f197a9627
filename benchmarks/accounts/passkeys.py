"""The forms of passkeys: allauth's, with limits to what is read and stored, and one message for what is not accepted.

A browser's answer is JSON that anybody can write, so it is bounded before it is parsed. Does NOT verify signatures:
allauth does, with the package fido2.
"""

from typing import Any

from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.forms import (
    AddWebAuthnForm,
    AuthenticateWebAuthnForm,
    EditWebAuthnForm,
    LoginWebAuthnForm,
    ReauthenticateWebAuthnForm,
)
from django import forms
from django.core.exceptions import ValidationError

KEYS_MAX = 20  # of one account
NAME_MAX = 60
CREDENTIAL_BYTES_MAX = 16_384  # an answer with an attestation has about two kilobytes
REFUSED = "The passkey was not accepted. Try again."


class CredentialField(forms.JSONField):
    """The answer of an authenticator, as an object of limited size."""

    widget = forms.HiddenInput

    def bound_data(self, data: Any, initial: Any) -> Any:
        """Never shown again: an answer is good for one try."""
        return initial

    def to_python(self, value: Any) -> Any:
        if isinstance(value, str) and len(value.encode(errors="replace")) > CREDENTIAL_BYTES_MAX:
            raise ValidationError(REFUSED)
        try:
            credential = super().to_python(value)
        except RecursionError as error:  # brackets within brackets
            raise ValidationError(REFUSED) from error
        if credential is not None and not isinstance(credential, dict):
            raise ValidationError(REFUSED)
        return credential


class AddPasskeyForm(AddWebAuthnForm):  # type: ignore[misc]
    """A name, and what the authenticator says about its new key."""

    name = forms.CharField(label="Name", required=False, max_length=NAME_MAX)
    credential = CredentialField()

    def clean(self) -> Any:
        if Authenticator.objects.filter(user=self.user, type=Authenticator.Type.WEBAUTHN).count() >= KEYS_MAX:
            raise ValidationError(f"An account can have {KEYS_MAX} passkeys. Remove one first.")
        return checked(super().clean)


class RenamePasskeyForm(EditWebAuthnForm):  # type: ignore[misc]
    """Another name."""

    name = forms.CharField(label="Name", max_length=NAME_MAX)


class PasskeyFactorForm(AuthenticateWebAuthnForm):  # type: ignore[misc]
    """A key beside the password."""

    credential = CredentialField()

    def clean_credential(self) -> Any:
        return checked(super().clean_credential)


class PasskeyLogInForm(LoginWebAuthnForm):  # type: ignore[misc]
    """A key in place of name and password."""

    credential = CredentialField()

    def clean_credential(self) -> Any:
        return checked(super().clean_credential)


class PasskeyAgainForm(ReauthenticateWebAuthnForm):  # type: ignore[misc]
    """A key before something important."""

    credential = CredentialField()

    def clean_credential(self) -> Any:
        return checked(super().clean_credential)


def checked(check: Any) -> Any:
    """What allauth's check says. It lets some errors of the parser of a malformed answer through."""
    try:
        return check()
    except ValidationError as error:
        if getattr(error, "code", None) == "incorrect_code":
            raise ValidationError(REFUSED) from error
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValidationError(REFUSED) from error
