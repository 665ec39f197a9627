"""Posts to a webhook's address: only by HTTPS, only to public addresses, within seconds.

The name is resolved once, every address that comes back must be public, and the connection goes to the address that
was checked, so a name that resolves differently a moment later changes nothing. A redirect counts as a failure, and
only the status of an answer is read. Does NOT know notifications (`courier.py`).
"""

import hashlib
import hmac
import http.client
import ipaddress
import re
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from http import HTTPStatus
from urllib.parse import SplitResult, urlsplit

TIMEOUT_S = 5.0  # of resolving the name, and of everything together after that
PORTS = (443, 8443)
URL_MAX_CHARS = 500
_PRINTABLE = re.compile(r"[\x21-\x7e]+")
# Within the addresses that are given out at all: other uses, and IPv6 addresses that carry an IPv4 one.
_GIVEN_OUT = {4: ipaddress.ip_network("0.0.0.0/0"), 6: ipaddress.ip_network("2000::/3")}
_EXCEPT = [
    ipaddress.ip_network(text)
    for text in ("192.0.0.0/24", "192.88.99.0/24", "2001::/23", "2002::/16", "2001:db8::/32", "3fff::/20")
]
_ISATAP = (0x5EFE, 0x0200_5EFE)  # in the middle of an IPv6 address before an IPv4 one


class NotAllowed(ValueError):
    """An address that nothing is posted to; the text is for the person who entered it."""


class NotDelivered(Exception):
    """The other side did not take the message; the text says why."""


def checked_url(url: str) -> SplitResult:
    """The parts of an address that may be posted to, as far as its text tells. Raises NotAllowed."""
    if len(url) > URL_MAX_CHARS or not _PRINTABLE.fullmatch(url):
        raise NotAllowed(f"Write an address of at most {URL_MAX_CHARS} characters without spaces, in ASCII.")
    try:
        parts = urlsplit(url)
        port = parts.port or 443
    except ValueError as error:
        raise NotAllowed("This is not an address of the form https://HOST/PATH.") from error
    if parts.scheme != "https" or not parts.hostname or parts.username is not None or parts.password is not None:
        raise NotAllowed("Write an address of the form https://HOST/PATH, without a name or password.")
    if port not in PORTS:
        raise NotAllowed(f"Only the ports {' and '.join(map(str, PORTS))} are allowed.")
    try:
        address = ipaddress.ip_address(parts.hostname)
    except ValueError:
        return parts  # a name; what it stands for is checked when it is resolved
    if not is_public(str(address)):
        raise NotAllowed("Only public addresses are allowed.")
    return parts


def is_public(address: str) -> bool:
    """Not private, loopback, link-local, shared, reserved or multicast, and no IPv4 address inside an IPv6 one."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if parsed not in _GIVEN_OUT[parsed.version] or any(parsed in network for network in _EXCEPT):
        return False
    if parsed.version == 6 and int(parsed) >> 32 & 0xFFFF_FFFF in _ISATAP:
        return False
    return parsed.is_global and not parsed.is_reserved and not parsed.is_multicast


def post(url: str, body: bytes, secret: str) -> None:
    """Post JSON, signed. Raises NotAllowed, NotDelivered."""
    parts = checked_url(url)
    host, port = str(parts.hostname), parts.port or 443
    connection = _Pinned(host, port, _public_address(host, port))
    cut = threading.Timer(TIMEOUT_S, connection.cut)
    cut.daemon = True
    cut.start()
    try:
        path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
        connection.request("POST", path, body, {"Content-Type": "application/json", **signature(body, secret)})
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException, ValueError) as error:
        took_long = "it took too long" if connection.is_cut else str(error) or type(error).__name__
        raise NotDelivered(f"The address could not be reached: {took_long}.") from error
    finally:
        cut.cancel()
        connection.close()
    if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        raise NotDelivered(f"The address answered {status}; 200 to 299 were expected, and redirects are not followed.")


def signature(body: bytes, secret: str) -> Mapping[str, str]:
    """The headers by which a receiver knows the sender: HMAC-SHA256 over the time, a full stop and the body."""
    now = str(int(time.time()))
    digest = hmac.new(secret.encode(), f"{now}.".encode() + body, hashlib.sha256).hexdigest()
    return {"X-Kbench-Time": now, "X-Kbench-Signature": f"sha256={digest}", "User-Agent": "kbench-webhook"}


def _public_address(host: str, port: int) -> str:
    try:
        found = _resolved(host, port)
    except (OSError, UnicodeError) as error:
        raise NotDelivered(f"The name {host} cannot be resolved.") from error
    if not found or not all(is_public(address) for address in found):
        raise NotAllowed(f"The name {host} leads to an address that is not public.")
    return min(found, key=lambda address: (":" in address, address))  # IPv4 first: not every site has IPv6


def _resolved(host: str, port: int) -> set[str]:
    """Raises OSError, after TIMEOUT_S as well: the resolver itself has no such limit, so it stays in its thread."""
    found: Future[set[str]] = Future()

    def resolve() -> None:
        try:
            found.set_result({str(item[4][0]) for item in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)})
        except (OSError, UnicodeError) as error:
            found.set_exception(error)

    threading.Thread(target=resolve, daemon=True, name="resolver").start()
    return found.result(TIMEOUT_S)


class _Pinned(http.client.HTTPSConnection):
    """Speaks to `address`; the certificate must be that of `host`."""

    def __init__(self, host: str, port: int, address: str) -> None:
        super().__init__(host, port, timeout=TIMEOUT_S)
        self.is_cut = False
        self._address = address
        self._context = tls_context()

    def connect(self) -> None:
        plain = socket.create_connection((self._address, self.port), self.timeout)
        secured = self._context.wrap_socket(plain, server_hostname=self.host, do_handshake_on_connect=False)
        self.sock = secured  # before the handshake, so that `cut` can end that, too
        if self.is_cut:  # while there was no socket yet
            raise TimeoutError
        secured.do_handshake()

    def cut(self) -> None:
        """End whatever it is doing, from another thread."""
        self.is_cut = True
        try:
            if self.sock is not None:
                socket.socket.shutdown(self.sock, socket.SHUT_RDWR)  # that of TLS leaves a reader without its session
        except OSError:
            return  # it has just ended


def tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()
