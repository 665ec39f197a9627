"""The task catalogue and the page of one task: what it computes, on which configurations, against what.

Hidden configurations are counted and never shown; the definition in the table does not even hold them. Does NOT show
other people's sources: those hang at their evaluations.
"""

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from benchmarks import harness, selectors
from benchmarks.forms import TaskFilterForm
from benchmarks.models import BaselineResult, DeviceKind, TaskVersion
from benchmarks.templatetags.whiskers import Axis

DEVICE_TITLES = {"cpu": "CPU", "cuda": "CUDA GPU"}


@dataclass(frozen=True)
class ConfigLine:
    """One shown configuration with its baselines on one device kind, None where nothing was measured yet."""

    config: dict[str, Any]
    baseline: BaselineResult | None


@dataclass(frozen=True)
class ConfigTable:
    """The configurations of one device class; `device` is None while no such device is set up."""

    title: str
    device: DeviceKind | None
    lines: list[ConfigLine]
    hidden: int


def task_list(request: HttpRequest) -> HttpResponse:
    form = TaskFilterForm(request.GET, families=selectors.task_families())
    chosen = form.chosen()
    rows = selectors.task_rows(chosen, request.GET.get("page", 1))
    best = [task.best for task in rows if task.best]
    axis = Axis.over(value for row in best for value in (row.score_lo, row.score_hi))
    return render(request, "tasks/list.html", {"form": form, "rows": rows, "axis": axis, "sort": chosen.sort})


def task_detail(request: HttpRequest, suite: str, op: str, direction: str) -> HttpResponse:
    version = selectors.active_version(suite, op, direction)
    entries = selectors.top_entries(version, selectors.default_device(version))
    tables = config_tables(version)
    context = {
        "version": version,
        "task": version.task,
        "tables": tables,
        "results": tables[0].lines[0].config["results"] if tables else [],
        "entries": entries,
        "axis": Axis.over(value for row in entries for value in (row.score_lo, row.score_hi)),
        "versions": selectors.task_versions(version.task),
        "starter": starter_of(version),
        "rules": harness.default_rules(settings.KBENCH_RULESET),
    }
    return render(request, "tasks/detail.html", context)


def task_starter(request: HttpRequest, suite: str, op: str, direction: str) -> HttpResponse:
    version = selectors.active_version(suite, op, direction)
    response = HttpResponse(starter_of(version), content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{op}_{direction}.cpp"'
    return response


def starter_of(version: TaskVersion) -> str:
    return harness.starter_code(harness.find_task(harness.default_suites(), version.task.path))


def config_tables(version: TaskVersion) -> list[ConfigTable]:
    """One table per device kind that exists, and one per device class that has configurations but no device yet."""
    baselines = selectors.baselines_by_config(version)
    kinds = selectors.device_kinds()
    tables = []
    for name, part in version.definition["devices"].items():
        for device in _of_class(name, kinds):
            title = device.title if device else f"{DEVICE_TITLES.get(name, name)} (no such device is connected yet)"
            tables.append(ConfigTable(title, device, _lines(part["configs"], device, baselines), part["hidden"]))
    return tables


def _of_class(name: str, kinds: list[DeviceKind]) -> list[DeviceKind | None]:
    return [kind for kind in kinds if kind.device_class == name] or [None]


def _lines(
    configs: list[dict[str, Any]],
    device: DeviceKind | None,
    baselines: dict[tuple[str, str, str], BaselineResult],
) -> list[ConfigLine]:
    slug = device.slug if device else ""
    return [ConfigLine(config, baselines.get((slug, config["group"], config["key"]))) for config in configs]
