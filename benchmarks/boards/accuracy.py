"""How much of the allowed error a kernel uses: its largest error in units of the task's tolerance.

The report tells the largest relative error over all results, relative as the tolerance is. So the share is known where
all results of a configuration have the same tolerance above zero, and None elsewhere. Of an entry as a whole it is the
largest share of its shown configurations, and None if it is unknown for one of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db.models import Case, F, FloatField, Max, Value, When

from ..models import ConfigResult


def attach_shares(configs: Iterable[ConfigResult], definition: Mapping[str, Any], device_class: str) -> None:
    """Gives each configuration `of_tolerance`; 1 is what the task just allows."""
    allowed = _tolerances(definition, device_class)
    for row in configs:
        tolerance = allowed.get((row.group, row.key))
        share = row.max_rel_error / tolerance if tolerance and row.max_rel_error is not None else None
        row.of_tolerance = share  # type: ignore[attr-defined]


def largest_share(definition: Mapping[str, Any], device_class: str) -> Any:
    """The same of a whole evaluation, as an aggregate over its configurations."""
    allowed = _tolerances(definition, device_class)
    if not allowed or len(allowed) < len(_shown(definition, device_class)) or not all(allowed.values()):
        return Max(Value(None, output_field=FloatField()))
    tolerance = Case(
        *(When(group=group, key=key, then=Value(value)) for (group, key), value in allowed.items()),
        output_field=FloatField(),
    )
    return Max(F("max_rel_error") / tolerance)


def _tolerances(definition: Mapping[str, Any], device_class: str) -> dict[tuple[str, str], float]:
    shown = _shown(definition, device_class)
    found = {(item["group"], item["key"]): {result["tolerance"] for result in item["results"]} for item in shown}
    return {config: tolerance for config, values in found.items() for tolerance in values if len(values) == 1}


def _shown(definition: Mapping[str, Any], device_class: str) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = definition.get("devices", {}).get(device_class, {}).get("configs", ())
    return found
