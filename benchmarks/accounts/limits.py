"""Who a visitor is to quotas, and how often an address or a name may try to log in or to sign up.

Attempts are counted in the database, not in a cache: all processes share it, it is there whenever the site is, and one
conditional update counts and refuses at once. A broker that is down neither opens this door nor shuts it.
Does NOT replace the limits of a reverse proxy; what may be judged is `quotas.py`.
"""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db.models import F
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import salted_hmac

from .. import quotas
from ..models import Attempt, Payer
from ..quotas import QuotaUse

UNKNOWN = "unknown"
IPV6_NETWORK_BITS = 64  # what one household gets: counting single addresses would count nobody
ATTEMPTS_KEPT = timedelta(days=1)


@dataclass(frozen=True)
class Rule:
    """At most `count` attempts of one kind within a window."""

    kind: str
    count: int
    window_s: int


LOG_IN_BY_ADDRESS = Rule("log-in from", 40, 600)
LOG_IN_BY_NAME = Rule("log-in as", 10, 600)
SIGN_UP_BY_ADDRESS = Rule("sign-up from", 20, 3600)


def address_of(request: HttpRequest) -> str:
    """Where the request comes from; of IPv6 the network. Proxies are believed as far as they are configured."""
    hops = [hop.strip() for hop in request.headers.get("X-Forwarded-For", "").split(",")]
    trusted: int = settings.KBENCH_TRUSTED_PROXIES
    believed = hops[-trusted] if 0 < trusted <= len(hops) else ""
    return _network(believed) or _network(request.META.get("REMOTE_ADDR", "")) or UNKNOWN


def payer(request: HttpRequest) -> Payer:
    return quotas.payer_of(request.user, address_of(request))


def meters(request: HttpRequest) -> list[QuotaUse]:
    """What the visitor has used and has left; looking leaves no trace."""
    return quotas.meters_of(request.user, address_of(request))


def log_in_demanded(request: HttpRequest) -> str | None:
    """Why this visitor cannot submit without an account, or None."""
    if settings.KBENCH_PUBLIC and not request.user.is_authenticated:
        return "Log in to submit. Your input is kept: log in in another tab, then submit again."
    return None


def attempt(rule: Rule, who: str) -> int | None:
    """Count one attempt. None: go on; else after how many seconds the next may be made."""
    now = timezone.now()
    since = datetime.fromtimestamp(now.timestamp() // rule.window_s * rule.window_s, UTC)
    row, _ = Attempt.objects.get_or_create(key=_key(rule, who), since=since)
    if Attempt.objects.filter(pk=row.pk, count__lt=rule.count).update(count=F("count") + 1):
        return None
    return max(1, round((since - now).total_seconds()) + rule.window_s)


def succeeded(rule: Rule, who: str) -> None:
    """Deletes the attempts after a successful log-in."""
    Attempt.objects.filter(key=_key(rule, who)).delete()


def forget() -> int:
    """Drop what limits nobody any more: old attempts and the digests of old addresses. How many that were."""
    old, _ = Attempt.objects.filter(since__lt=timezone.now() - ATTEMPTS_KEPT).delete()
    return old + quotas.forget_addresses() + quotas.forget_places()


def _key(rule: Rule, who: str) -> str:
    return salted_hmac(f"benchmarks.limits.{rule.kind}", who, algorithm="sha256").hexdigest()


def _network(text: str) -> str:
    """Empty where the text is no address."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((address, IPV6_NETWORK_BITS), strict=False))
