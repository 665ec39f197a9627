"""Who a visitor is to quotas and to the limits of attempts.

How often an address or a name may log in or sign up is `ACCOUNT_RATE_LIMITS` in the settings, which allauth counts in
Django's cache: rows of the database, so that all processes share them and a broker that is down changes nothing.
Does NOT replace the limits of a reverse proxy; what may be judged is `quotas.py`.
"""

import ipaddress

from django.conf import settings
from django.contrib.sessions.models import Session
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import salted_hmac

from .. import quotas
from ..models import CachedValue, Payer
from ..quotas import QuotaUse

UNKNOWN = "unknown"
IPV6_NETWORK_BITS = 64  # what one household gets: counting single addresses would count nobody


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


def forget() -> int:
    """Drop what limits nobody any more: old attempts, sessions and the digests of old addresses. How many that were."""
    old, _ = CachedValue.objects.filter(expires__lt=timezone.now()).delete()
    ended, _ = Session.objects.filter(expire_date__lt=timezone.now()).delete()
    return old + ended + quotas.forget_addresses() + quotas.forget_places()


def cache_key(key: str, prefix: str, version: int) -> str:
    """What attempts are counted under: a keyed hash, for allauth's own keys contain addresses."""
    return salted_hmac("benchmarks.limits.cache", f"{prefix}:{version}:{key}", algorithm="sha256").hexdigest()


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
