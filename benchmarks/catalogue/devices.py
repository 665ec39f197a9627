"""Device kinds as the site knows them: which exist, which languages they run, and how a new one is registered.

A kind is a row as soon as a worker has found such a device. It stays when the worker is gone, because leaderboards
refer to it. Does NOT look for devices: the harness does, in the worker.
"""

from django.db import transaction

from ..harness import CPU, Device, device_classes
from ..models import DeviceKind
from ..selectors import find_device_kind


class NoDevice(Exception):
    """A device kind that does not exist or does not run the language; the text is for the person."""


def register(device: Device) -> DeviceKind:
    """The row of a device's kind, made when the first such device reports, with the model of its processor."""
    kind, _ = DeviceKind.objects.get_or_create(
        slug=device.kind, defaults={"title": device.title, "device_class": device.device_class}
    )
    return _with_model(kind, device.model) if device.model else kind


def _with_model(kind: DeviceKind, model: str) -> DeviceKind:
    with transaction.atomic():
        row: DeviceKind = DeviceKind.objects.select_for_update().get(pk=kind.pk)
        if model not in row.processors:
            row.processors = sorted([*row.processors, model])
            row.save(update_fields=["processors"])
    return row


def kinds_for(language: str) -> list[DeviceKind]:
    return list(DeviceKind.objects.usable().filter(device_class__in=device_classes(language)))


def kind_for(language: str, wanted: str = "") -> DeviceKind:
    """The kind that is asked for, or the only one there is. Raises NoDevice.

    `cpu` is the kind of this site's processors, and of several the first that a worker judges for.
    """
    kinds = kinds_for(language)
    if not kinds:
        raise NoDevice(f"No device here runs {language}: no worker with such a device has ever reported.")
    named = find_device_kind(wanted) if wanted else _only(kinds, language)
    if named is None or named not in kinds:
        raise NoDevice(f"{wanted} does not run {language}; choose {_names(kinds)}.")
    return named


def _only(kinds: list[DeviceKind], language: str) -> DeviceKind | None:
    """What a CPU alone runs is not refused because there are processors of several kinds."""
    if all(kind.device_class == CPU for kind in kinds):
        return find_device_kind(CPU)
    if len(kinds) > 1:
        raise NoDevice(f"Several device kinds run {language}; choose {_names(kinds)}.")
    return kinds[0]


def _names(kinds: list[DeviceKind]) -> str:
    return " or ".join(kind.slug for kind in kinds)
