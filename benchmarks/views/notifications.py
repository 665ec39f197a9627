"""The notifications of an account, marking them as read, and the choice of kinds and channels.

What a webhook gets outlives a session that was left open, so a new address or secret asks for the password again.
Does NOT send anything and resolves no name: `notifications/courier.py` does, in the housekeeping worker.
"""

from allauth.account.decorators import reauthentication_required
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache

from benchmarks.notifications import choices, lists
from benchmarks.notifications.courier import WEBHOOK_FAILURES_MAX
from benchmarks.notifications.forms import NotificationForm

from .parts.staff import person


@never_cache
@login_required
def notifications(request: HttpRequest) -> HttpResponse:
    """The list; a post marks one as read, or all."""
    if request.method == "POST":
        number = request.POST.get("pk", "")[:18]
        lists.mark_read(person(request), int(number) if number.isdecimal() else None)
        return redirect("notifications")
    rows = lists.notifications_of(person(request), request.GET.get("page", 1))
    context = {"rows": rows, "unread": lists.unread_count(person(request)), "kept_days": lists.KEPT_DAYS}
    return render(request, "registration/notifications.html", context)


def _has_a_new_webhook(request: HttpRequest) -> bool:
    url = request.POST.get("webhook_url", "").strip()
    return "renew" in request.POST or url not in ("", choices.choice_of(person(request)).webhook_url)


@never_cache
@login_required
@reauthentication_required(enabled=_has_a_new_webhook)  # type: ignore[untyped-decorator]
def notification_settings(request: HttpRequest) -> HttpResponse:
    if request.method == "POST" and "renew" in request.POST:
        choices.renew_secret(person(request))
        messages.success(request, "The webhook has a new secret.")
        return redirect("notification-settings")
    choice, mail = choices.choice_of(person(request)), choices.mail_address(person(request))
    form = NotificationForm(request.POST if request.method == "POST" else None, choice=choice, mail=mail)
    if form.is_valid():
        choices.choose(person(request), form.kinds(), form.cleaned_data["webhook_url"])
        messages.success(request, "Your choice was saved.")
        return redirect("notification-settings")
    site = {"sends_mail": settings.KBENCH_SENDS_MAIL, "failures": WEBHOOK_FAILURES_MAX}
    return render(request, "registration/notification_settings.html", {"form": form, "choice": choice, **site})
