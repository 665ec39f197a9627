"""How much one visitor may submit: modest limits that keep one script from filling the queue.

An account is counted in the database, a visitor without one by address in the process's cache. Does NOT replace the
limits of a reverse proxy, and does NOT meter device time.
"""

from datetime import timedelta

from django.conf import settings
from django.core.cache import cache
from django.http import HttpRequest

from . import selectors

WINDOW = timedelta(hours=1)
ACCOUNT_PER_HOUR = 120
ANONYMOUS_PER_HOUR = 30


def refusal(request: HttpRequest) -> str | None:
    """Why this visitor cannot submit now, or None."""
    if settings.KBENCH_PUBLIC and not request.user.is_authenticated:
        return "Log in to submit. What you typed stays here: log in in another tab, then submit again."
    allowed, made = _account(request) if request.user.is_authenticated else _address(request)
    if made >= allowed:
        return f"That is {allowed} submissions within an hour, which is the limit. Wait a little."
    return None


def count(request: HttpRequest) -> None:
    """One more from this address."""
    if not request.user.is_authenticated:
        key = _key(request)
        cache.add(key, 0, WINDOW.total_seconds())
        cache.incr(key)


def _account(request: HttpRequest) -> tuple[int, int]:
    return ACCOUNT_PER_HOUR, selectors.recent_submissions(request.user, WINDOW)


def _address(request: HttpRequest) -> tuple[int, int]:
    return ANONYMOUS_PER_HOUR, cache.get(_key(request), 0)


def _key(request: HttpRequest) -> str:
    return f"submissions:{request.META.get('REMOTE_ADDR', 'unknown')}"
