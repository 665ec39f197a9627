"""What a recorded result says about its machine, with the titles and units that reports have."""

from collections.abc import Mapping
from typing import Any

from django import template

from benchmarks.views.parts.machine_facts import Fact, record

register = template.Library()


@register.filter
def facts(machine: Mapping[str, Any] | None) -> list[Fact]:
    told = record(machine or {})
    return [*told.device, *told.others]
