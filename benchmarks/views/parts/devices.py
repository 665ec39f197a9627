"""Which device kind a page shows: the one in the URL, else the one with the most entries; and the switch between them.

Does NOT refuse an unknown kind where a page has a sensible default.
"""

from collections.abc import Callable
from dataclasses import dataclass

from django.http import HttpRequest

from benchmarks.harness import CPU
from benchmarks.models import DeviceKind


@dataclass(frozen=True)
class DeviceLink:
    title: str
    url: str
    current: bool


@dataclass(frozen=True)
class DeviceChoice:
    """`current` is None before the first start alone."""

    current: DeviceKind | None
    links: list[DeviceLink]

    @property
    def slug(self) -> str:
        return self.current.slug if self.current else ""


def device_choice(
    request: HttpRequest, kinds: list[DeviceKind], current: str = "", url: Callable[[DeviceKind], str] | None = None
) -> DeviceChoice:
    """`kinds` in order of preference; `url` where the kind is part of the path."""
    wanted = current or request.GET.get("device", "")
    named = (kind for kind in kinds if wanted in (kind.slug, kind.device_class if wanted == CPU else None))
    chosen = next(named, kinds[0] if kinds else None)
    address = url or (lambda kind: _same_page(request, kind))
    return DeviceChoice(chosen, [DeviceLink(kind.title, address(kind), kind == chosen) for kind in kinds])


def _same_page(request: HttpRequest, kind: DeviceKind) -> str:
    query = request.GET.copy()
    query.pop("page", None)
    query["device"] = kind.slug
    return f"?{query.urlencode()}"
