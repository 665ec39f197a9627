"""How long pages and endpoints take and how many queries they make, over HTTP, one request after the other.

The first answer of each is kept apart: it may find caches cold. Does NOT load the server with more than one request.
"""

import http.client
import json
import statistics
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lab.site import QUERIES
from lab.site.addresses import Address, addresses, missing, unknown
from lab.site.serving import Site

REQUESTS = 25
AIM_MS = 150.0
DOWNLOADS = ("archive.zip", "rows=1000")


@dataclass(frozen=True)
class PageTimes:
    """One address: times of all but its first answer."""

    path: str
    reader: str
    status: int
    first_ms: float
    p50_ms: float
    p95_ms: float
    queries: int
    page_bytes: int


def measure(site: Site, requests: int = REQUESTS) -> list[PageTimes]:
    connection = http.client.HTTPConnection("localhost", site.port, timeout=120)
    _demand_all_known(connection)
    return [_row(connection, address, site.names, requests) for address in addresses(site.names)]


def _demand_all_known(connection: http.client.HTTPConnection) -> None:
    _, _, document = _get(connection, Address("/api/v1/openapi.json"), {})
    operations = json.loads(document)["paths"]
    if left_out := missing(operations):
        raise SystemExit(f"write into lab/site/addresses.py how these are reached: {', '.join(left_out)}")
    if gone := unknown(operations):
        raise SystemExit(f"lab/site/addresses.py knows what the site has not: {', '.join(gone)}")


def _row(
    connection: http.client.HTTPConnection, address: Address, names: Mapping[str, Any], requests: int
) -> PageTimes:
    times_ms: list[float] = []
    for _ in range(requests + 1):
        started = time.perf_counter()
        status, headers, body = _get(connection, address, address.headers(names))
        times_ms.append(1000 * (time.perf_counter() - started))
        if status != 200:
            raise SystemExit(f"{address.reader} {address.path} answered {status}: {body[-500:].decode()}")
    first_ms, *later_ms = times_ms
    later_ms.sort()
    p95_ms = later_ms[min(len(later_ms) - 1, int(0.95 * len(later_ms)))]
    p50_ms = statistics.median(later_ms)
    queries = int(headers[QUERIES])
    return PageTimes(address.path, address.reader, status, first_ms, p50_ms, p95_ms, queries, len(body))


def _get(
    connection: http.client.HTTPConnection, address: Address, headers: dict[str, str]
) -> tuple[int, Mapping[str, str], bytes]:
    connection.request("GET", address.path, headers=headers)
    response = connection.getresponse()
    return response.status, response.headers, response.read()


def growing(small: list[PageTimes], large: list[PageTimes]) -> list[str]:
    """What makes more queries on a larger site; addresses differ in the codes that they name, never in their order."""
    pairs = zip(small, large, strict=True)
    return [
        f"{after.path}: {before.queries} to {after.queries}"
        for before, after in pairs
        if after.queries > before.queries
    ]


def slow(rows: list[PageTimes]) -> list[PageTimes]:
    """Pages and lists that miss the aim; a download is as long as what it holds, so it has none."""
    return [row for row in rows if row.p95_ms >= AIM_MS and not any(mark in row.path for mark in DOWNLOADS)]


def table(rows: list[PageTimes]) -> str:
    head = f"{'p50 ms':>8} {'p95 ms':>8} {'first ms':>9} {'queries':>8} {'bytes':>8}  address"
    lines = [
        f"{row.p50_ms:8.1f} {row.p95_ms:8.1f} {row.first_ms:9.1f} {row.queries:8} {row.page_bytes:8}"
        f"  {row.reader} {row.path}"
        for row in rows
    ]
    return "\n".join([head, *lines])


def plain(rows: list[PageTimes]) -> list[dict[str, Any]]:
    return [
        {key: round(value, 1) if isinstance(value, float) else value for key, value in asdict(row).items()}
        for row in rows
    ]
