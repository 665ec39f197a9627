"""Device kinds as the site knows them: which language they serve, which exist, how one comes to exist.

A kind is a row from the moment a worker has found such a device; it stays when the worker is gone, because boards
hang at it. Does NOT look for devices: the harness does, in the worker.
"""

from ..harness import Device, device_classes
from ..models import DeviceKind

CPU = "cpu"


class NoDevice(Exception):
    """A device kind that does not exist or does not run the language; the text is for the person."""


def register(device: Device) -> DeviceKind:
    """The row of a device's kind, made when the first such device reports."""
    kind, _ = DeviceKind.objects.get_or_create(
        slug=device.kind, defaults={"title": device.title, "device_class": device.device_class}
    )
    return kind


def kinds_for(language: str) -> list[DeviceKind]:
    return list(DeviceKind.objects.filter(device_class__in=device_classes(language)))


def kind_for(language: str, wanted: str = "") -> DeviceKind:
    """The kind that is asked for, or the only one there is. Raises NoDevice."""
    kinds = kinds_for(language)
    if not kinds:
        raise NoDevice(f"No device here runs {language}: no worker with such a device has ever reported.")
    if not wanted:
        return _only(kinds, language)
    named = [kind for kind in kinds if kind.slug == wanted]
    if not named:
        raise NoDevice(f"{wanted} does not run {language}; choose {_names(kinds)}.")
    return named[0]


def _only(kinds: list[DeviceKind], language: str) -> DeviceKind:
    if len(kinds) > 1:
        raise NoDevice(f"Several device kinds run {language}; choose {_names(kinds)}.")
    return kinds[0]


def _names(kinds: list[DeviceKind]) -> str:
    return " or ".join(kind.slug for kind in kinds)
