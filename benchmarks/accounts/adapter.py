"""What this site decides about sign-up, log-in and e-mail; allauth does the rest.

Names, the switch for sign-ups, addresses behind proxies and redirects are settled here. Does NOT make pages or forms.
"""

import logging
from http import HTTPStatus
from smtplib import SMTPException
from types import SimpleNamespace
from typing import Any, ClassVar
from urllib.parse import urlsplit, urlunsplit

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.models import EmailAddress
from allauth.account.stages import EmailVerificationStage
from allauth.core import context
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.shortcuts import render
from django.utils.http import url_has_allowed_host_and_scheme

from ..states import Switch
from ..switches import paused
from . import limits, names
from .reauthentication import providers_to_ask

log = logging.getLogger(__name__)
ALLAUTHS_STAGE = "allauth.account.stages.EmailVerificationStage"


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    """allauth's questions about accounts, answered for this site."""

    error_messages: ClassVar = {
        **DefaultAccountAdapter.error_messages,
        "username_password_mismatch": "The name or the password is not correct.",
        "incorrect_password": "Wrong password.",
        "too_many_login_attempts": "Too many failed attempts. Try again in ten minutes.",
        "email_taken": "Another account has this e-mail address.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        closed = paused(Switch.SIGN_UPS)
        if closed:
            raise ImmediateHttpResponse(render(request, "account/signup_closed.html", {"closed": closed}))
        return True

    def clean_username(self, username: str, shallow: bool = False) -> str:
        """`shallow`: does not look at other accounts."""
        name: str = super().clean_username(names.normal(username), shallow=True)
        problem = names.problem_with(name)
        if problem:
            raise ValidationError(problem, code="name-refused")
        if not shallow and names.is_taken(name):
            raise ValidationError(
                "An account or a team with this name or one that looks the same already exists.", code="unique"
            )
        return name

    def is_reauthentication_required(self, *, app: str, **kwargs: Any) -> bool:
        """allauth asks nothing of accounts without password and second factor: their provider is asked here."""
        required = bool(super().is_reauthentication_required(app=app, **kwargs))
        request = context.request
        if required and (providers := providers_to_ask(request)):
            shown = {"providers": providers, "back": request.path}
            page = render(request, "account/again_at_provider.html", shown, status=HTTPStatus.FORBIDDEN)
            raise ImmediateHttpResponse(page)
        return required

    def get_client_ip(self, request: HttpRequest) -> str:
        return limits.address_of(request)

    def is_safe_url(self, url: str | None) -> bool:
        return url_has_allowed_host_and_scheme(url, {context.request.get_host()})

    def can_delete_email(self, email_address: EmailAddress) -> bool:
        """Where a confirmed address is required, the last one stays."""
        required = settings.ACCOUNT_EMAIL_VERIFICATION == "mandatory"
        others = EmailAddress.objects.filter(user_id=email_address.user_id).exclude(pk=email_address.pk)
        return bool(super().can_delete_email(email_address)) and (not required or others.exists())

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """A mail server that fails must not fail the page: the visitor can ask for the message again.

        Links lead to the address in the settings: the host that the request names can be chosen by who sends it.
        """
        ours = urlsplit(settings.KBENCH_SITE_URL)
        links = {name: _of_site(url) for name, url in context.items() if name.endswith("_url") and url}
        site = {"current_site": SimpleNamespace(name=ours.netloc, domain=ours.netloc)}
        try:
            super().send_mail(template_prefix, email, {**context, **links, **site})
        except (SMTPException, OSError):
            log.exception("An e-mail could not be sent (%s)", template_prefix)
            messages.error(self.request, "The e-mail could not be sent. Try again later.")

    def get_login_stages(self) -> list[str]:
        ours = f"{EmailStage.__module__}.{EmailStage.__qualname__}"
        return [ours if stage == ALLAUTHS_STAGE else stage for stage in super().get_login_stages()]


def _of_site(url: str) -> str:
    """The same page at the address of this site."""
    return f"{settings.KBENCH_SITE_URL}{urlunsplit(('', '', *urlsplit(url)[2:]))}"


class ProviderAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """Of what a provider tells, the account takes the e-mail address and, as a suggestion, the user name."""

    def populate_user(self, request: HttpRequest, sociallogin: Any, data: dict[str, Any]) -> Any:
        kept = {name: data.get(name) for name in ("username", "email")}
        return super().populate_user(request, sociallogin, kept)

    def on_authentication_error(
        self, request: HttpRequest, provider: Any, error: Any = None, exception: Any = None, **_: Any
    ) -> None:
        """Tells the operator why, who may have set up the provider wrongly. All of it may be anybody's text."""
        log.warning("a log-in with %s failed: %.100r %.300r", provider.id, error, exception)


class EmailStage(EmailVerificationStage):  # type: ignore[misc]
    """Asks for a confirmed address, except of accounts without one: they are older than the requirement."""

    def handle(self) -> tuple[Any, bool]:
        user = self.login.user
        if user and not self.login.signup and not (user.email or EmailAddress.objects.filter(user=user).exists()):
            return None, True
        answer: tuple[Any, bool] = super().handle()
        return answer
