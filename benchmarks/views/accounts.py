"""What an account can see and do about itself: submissions, quota, data, leaving.

Does NOT sign anybody up or in: these pages are allauth's, with our templates and `accounts/adapter.py`.
"""

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from functools import wraps
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import urlsplit

from allauth.account.decorators import reauthentication_required, secure_admin_login
from allauth.account.utils import get_next_redirect_url
from allauth.socialaccount.models import SocialApp
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import get_user_model, logout
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from requests import RequestException

from benchmarks import quotas, selectors
from benchmarks.accounts import exports, limits, ownership
from benchmarks.forms import AccountDeletionForm

from .parts.sessions import submitted_here
from .parts.staff import person

log = logging.getLogger(__name__)
View = Callable[..., HttpResponseBase]


def with_mail(view: View) -> View:
    """A page of allauth that needs e-mail: where the site sends none, it says so."""

    @wraps(view)
    def guarded(request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        if settings.KBENCH_SENDS_MAIL:
            return view(request, **kwargs)
        return render(request, "account/no_mail.html")

    return guarded


def with_provider(view: View) -> View:
    """A page of allauth on the way to a provider and back.

    The content security policy lets no form lead to another site, so the way out is a page with a link.
    """

    @wraps(view)
    def guarded(request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        try:
            response = view(request, **kwargs)
        except SocialApp.DoesNotExist as error:
            raise Http404 from error
        except RequestException:
            log.exception("The provider does not answer")
            return render(request, "socialaccount/authentication_error.html", status=HTTPStatus.BAD_GATEWAY)
        away = response.headers.get("Location", "")
        if request.method == "POST" and urlsplit(away).netloc:
            return render(request, "socialaccount/leave.html", {"away": away, "host": urlsplit(away).hostname})
        return response

    return guarded


@secure_admin_login  # type: ignore[untyped-decorator]
def admin_entry(request: HttpRequest) -> HttpResponse:
    """Leads staff on. Django's own form would take the password of another account, unlimited and without its code."""
    return redirect(get_next_redirect_url(request) or "admin:index")


def own_submissions(request: HttpRequest) -> HttpResponse:
    rows = selectors.own_evaluations(request.user, submitted_here(request), request.GET.get("page", 1))
    return render(request, "registration/submissions.html", {"rows": rows})


@never_cache
def quota(request: HttpRequest) -> HttpResponse:
    """The meters of whoever looks; the ledger of an account alone, for many may share an address."""
    context: dict[str, Any] = {"meters": limits.meters(request), "parts": quotas.WITHOUT_ACCOUNT}
    if request.user.is_authenticated:
        context["rows"] = quotas.ledger(request.user, request.GET.get("page", 1))
    return render(request, "registration/quota.html", context)


def _asks_for_no_password(request: HttpRequest) -> bool:
    return request.method == "POST" and not person(request).has_usable_password()


@never_cache
@login_required
@reauthentication_required(enabled=_asks_for_no_password)  # type: ignore[untyped-decorator]
def own_data(request: HttpRequest) -> HttpResponse:
    """Download one's data or delete the account."""
    form = AccountDeletionForm(request.POST or None, user=request.user)
    if form.is_valid():
        return _left(request, keep=form.cleaned_data["submissions"] == form.KEEP)
    return render(request, "registration/data.html", {"form": form})


@login_required
async def own_archive(request: HttpRequest) -> HttpResponseBase:
    user = cast(User, await request.auser())
    pieces = exports.zipped(exports.files_of(user))
    response = StreamingHttpResponse(_sent(pieces), content_type="application/zip")
    response.headers["Content-Disposition"] = 'attachment; filename="kbench-data.zip"'
    response.headers["Cache-Control"] = "no-store"
    return response


async def _sent(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    while piece := await sync_to_async(lambda: next(pieces, b""))():
        yield piece


def _left(request: HttpRequest, *, keep: bool) -> HttpResponse:
    user = get_user_model().objects.get(username=request.user.get_username())
    logout(request)
    ownership.account_delete(user, keep_submissions=keep)
    messages.success(request, "The account was deleted.")
    return redirect("home")
