"""How much of the allowed error a kernel uses: its largest error in units of the task's tolerance.

The report tells the largest relative error over all results, relative as the tolerance is. So the share is known where
all results of a configuration have the same tolerance above zero, and None elsewhere.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ..models import ConfigResult


def attach_shares(configs: Iterable[ConfigResult], definition: Mapping[str, Any], device_class: str) -> None:
    """Gives each configuration `of_tolerance`; 1 is what the task just allows."""
    allowed = _tolerances(definition, device_class)
    for row in configs:
        tolerance = allowed.get((row.group, row.key))
        share = row.max_rel_error / tolerance if tolerance and row.max_rel_error is not None else None
        row.of_tolerance = share  # type: ignore[attr-defined]


def _tolerances(definition: Mapping[str, Any], device_class: str) -> dict[tuple[str, str], float]:
    shown = definition.get("devices", {}).get(device_class, {}).get("configs", ())
    found = {(item["group"], item["key"]): {result["tolerance"] for result in item["results"]} for item in shown}
    return {config: tolerance for config, values in found.items() for tolerance in values if len(values) == 1}
