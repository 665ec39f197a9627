"""Accounts that log in with a provider alone, without password and second factor: when they are asked to do so again.

For all others allauth asks for the password or the second factor; of these it asks nothing. A log-in at the provider
counts as long as a password does. Does NOT talk to the provider.
"""

import time
from typing import Any

from allauth.account import app_settings
from allauth.account.internal.flows.login import get_authentication_records
from allauth.account.internal.flows.reauthentication import get_reauthentication_flows
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.models import SocialAccount
from django.http import HttpRequest


def providers_to_ask(request: HttpRequest) -> list[Any]:
    """Where the account of the request has to log in again before a change; none where something else asks it."""
    if get_reauthentication_flows(request.user):
        return []
    connected = set(SocialAccount.objects.filter(user=request.user.pk).values_list("provider", flat=True))
    if not connected or _has_just_logged_in(request):
        return []
    return [provider for provider in get_adapter().list_providers(request) if provider.sub_id in connected]


def _has_just_logged_in(request: HttpRequest) -> bool:
    since_s = time.time() - app_settings.REAUTHENTICATION_TIMEOUT
    records = get_authentication_records(request, request.user)
    return any(record["method"] == "socialaccount" and record["at"] > since_s for record in records)
