"""Signing up, logging in, and what an account can see and do about itself: submissions, quota, data, leaving.

Logging in is Django's own behind counters that slow down guessing. Does NOT offer a password by mail: no addresses
are kept.
"""

from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus
from typing import Any, cast

from asgiref.sync import sync_to_async
from django.contrib import messages
from django.contrib.auth import get_user_model, login, logout
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache

from benchmarks import quotas, selectors
from benchmarks.accounts import exports, limits, ownership
from benchmarks.forms import AccountDeletionForm, SignUpForm
from benchmarks.states import Switch
from benchmarks.switches import paused

from .parts.sessions import submitted_here

NAME_MAX_CHARS = 150


class LogIn(LoginView):
    """Django's log-in view with a limit of attempts by address and by name."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        wait_s = limits.attempt(limits.LOG_IN_BY_ADDRESS, limits.address_of(request))
        wait_s = wait_s or limits.attempt(limits.LOG_IN_BY_NAME, _name(request))
        return too_many(request, wait_s) if wait_s else super().post(request, *args, **kwargs)

    def form_valid(self, form: Any) -> HttpResponse:
        limits.succeeded(limits.LOG_IN_BY_NAME, _name(self.request))
        return super().form_valid(form)


def too_many(request: HttpRequest, wait_s: int) -> HttpResponse:
    """The page for too many attempts, with the time to wait."""
    response = render(request, "429.html", {"wait_s": wait_s}, status=HTTPStatus.TOO_MANY_REQUESTS)
    response.headers["Retry-After"] = str(wait_s)
    return response


def sign_up(request: HttpRequest) -> HttpResponse:
    form = SignUpForm(request.POST or None)
    closed = paused(Switch.SIGN_UPS)
    if request.method == "POST" and not closed:
        wait_s = limits.attempt(limits.SIGN_UP_BY_ADDRESS, limits.address_of(request))
        if wait_s:
            return too_many(request, wait_s)
        if form.is_valid():
            login(request, form.save())
            return redirect(_target(request))
    context = {"form": form, "next": request.GET.get("next", ""), "closed": closed}
    return render(request, "registration/signup.html", context)


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


@never_cache
@login_required
def own_data(request: HttpRequest) -> HttpResponse:
    """Download one's data or delete the account."""
    form = AccountDeletionForm(request.POST or None, user=request.user)
    if request.method == "POST":
        wait_s = limits.attempt(limits.LOG_IN_BY_NAME, request.user.get_username().casefold())
        if wait_s:
            return too_many(request, wait_s)
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


def _name(request: HttpRequest) -> str:
    return request.POST.get("username", "")[:NAME_MAX_CHARS].casefold()


def _target(request: HttpRequest) -> str:
    wanted = request.POST.get("next", "")
    return wanted if url_has_allowed_host_and_scheme(wanted, {request.get_host()}) else "home"
