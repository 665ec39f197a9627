"""API tokens of an account: a list, a form that creates one and shows it once, a button that revokes one.

A token outlives the session, so creating one asks for the password or the second factor again. Does NOT show a token
again: only its digest is stored.
"""

from allauth.account.decorators import reauthentication_required
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from benchmarks import selectors
from benchmarks.accounts.tokens import token_create, token_revoke
from benchmarks.forms import TokenForm
from benchmarks.services import Refused


@never_cache
@login_required
@reauthentication_required(allow_get=True)  # type: ignore[untyped-decorator]
def tokens(request: HttpRequest) -> HttpResponse:
    form = TokenForm(request.POST or None)
    made = None
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            made = token_create(request.user, data["name"], data["scope"], data["days"])
            form = TokenForm()
        except Refused as error:
            form.add_error("name", str(error))
    context = {"form": form, "made": made, "rows": selectors.tokens_of(request.user)}
    return render(request, "registration/tokens.html", context)


@require_POST
@login_required
def token_end(request: HttpRequest, pk: int) -> HttpResponse:
    if token_revoke(request.user, pk):
        messages.success(request, "The token was revoked.")
    return redirect("tokens")
