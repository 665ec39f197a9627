"""Signing up, and the list of what one has submitted. Logging in and out is Django's own.

Does NOT offer a password by mail: no addresses are kept.
"""

from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme

from benchmarks import selectors
from benchmarks.forms import SignUpForm

from .sessions import submitted_here


def sign_up(request: HttpRequest) -> HttpResponse:
    form = SignUpForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        login(request, form.save())
        return redirect(_target(request))
    return render(request, "registration/signup.html", {"form": form, "next": request.GET.get("next", "")})


def own_submissions(request: HttpRequest) -> HttpResponse:
    rows = selectors.own_evaluations(request.user, submitted_here(request), request.GET.get("page", 1))
    return render(request, "registration/submissions.html", {"rows": rows})


def _target(request: HttpRequest) -> str:
    wanted = request.POST.get("next", "")
    return wanted if url_has_allowed_host_and_scheme(wanted, {request.get_host()}) else "home"
