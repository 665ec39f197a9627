"""The task catalogue and the page of one task: what it computes, its configurations, its baselines.

Hidden configurations are counted and never shown; the stored definition does not contain them. Does NOT show other
people's sources: those are on the pages of evaluations.
"""

from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from benchmarks import harness, selectors
from benchmarks.catalogue import folders
from benchmarks.contests.results import open_contests
from benchmarks.forms import TaskFilterForm
from benchmarks.models import BaselineResult, DeviceKind, TaskVersion
from benchmarks.recorded import selectors as recorded
from benchmarks.requests.lists import request_of_task
from benchmarks.states import REQUESTS
from benchmarks.submissions import languages
from benchmarks.submissions.languages import starter_of
from benchmarks.templatetags.whiskers import Axis

from .parts.devices import device_choice
from .previews import preview_of_task

DEVICE_TITLES = {harness.CPU: "CPU", "cuda": "CUDA GPU"}


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


@dataclass(frozen=True)
class Starter:
    """Starter code in one language."""

    language: str
    title: str
    suffix: str
    text: str


def task_list(request: HttpRequest) -> HttpResponse:
    form = TaskFilterForm(request.GET, families=selectors.task_families())
    devices = device_choice(request, selectors.device_kinds())
    chosen = replace(form.chosen(), device=devices.slug)
    rows = selectors.task_rows(chosen, request.GET.get("page", 1))
    best = [task.best for task in rows if task.best]
    axis = Axis.over(value for row in best for value in (row.score_lo, row.score_hi))
    context = {"form": form, "rows": rows, "axis": axis, "sort": chosen.sort, "devices": devices}
    return render(request, "tasks/list.html", context)


def task_detail(request: HttpRequest, suite: str, op: str, direction: str) -> HttpResponse:
    version = selectors.active_version(suite, op, direction)
    spec = _spec(version)
    kinds = selectors.device_kinds(version)
    devices = device_choice(request, kinds)
    entries = selectors.top_entries(version, devices.slug)
    tables = config_tables(version, kinds, devices.current)
    device_class = devices.current.device_class if devices.current else harness.CPU
    rules = harness.default_rules(settings.KBENCH_RULESET)
    context = {
        "version": version,
        "preview": preview_of_task(version, devices.slug, entries),
        "task": version.task,
        "devices": devices,
        "tables": tables,
        "results": tables[0].lines[0].config["results"] if tables else [],
        "entries": entries,
        "axis": Axis.over(value for row in entries for value in (row.score_lo, row.score_hi)),
        "versions": selectors.task_versions(version.task),
        "imported": hasattr(version, "stored"),
        "asked_for": request_of_task(version.task) if suite == REQUESTS else None,
        "recorded": recorded.leaders_of_task(version.task),
        "contests": open_contests(version.task),
        "starters": starters(spec, device_class),
        "precision": spec.precision,
        "rules": rules,
        "steps": (rules.time if device_class == harness.CPU else rules.gpu_time).steps_per_config,
    }
    return render(request, "tasks/detail.html", context)


def task_starter(request: HttpRequest, suite: str, op: str, direction: str) -> HttpResponse:
    version = selectors.active_version(suite, op, direction)
    language = request.GET.get("language", "cpp")
    text = starter_of(_spec(version), language) if language in harness.LANGUAGES else None
    if text is None:
        raise Http404("There is no starter code in this language.")
    response = HttpResponse(text, content_type="text/plain; charset=utf-8")
    name = f"{op}_{direction}.{languages.suffix_of(language)}"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def starters(spec: harness.TaskSpec, device_class: str) -> list[Starter]:
    """In every language that such a device runs."""
    texts = [(name, starter_of(spec, name)) for name in languages.languages_of(device_class, modules=spec.takes_python)]
    return [
        Starter(name, harness.LANGUAGES[name].title, languages.suffix_of(name), text) for name, text in texts if text
    ]


def _spec(version: TaskVersion) -> harness.TaskSpec:
    return folders.shown_spec(version)


def config_tables(version: TaskVersion, kinds: list[DeviceKind], first: DeviceKind | None) -> list[ConfigTable]:
    """One per device kind, and one per device class that has configurations but no device yet; `first` leads."""
    baselines = selectors.baselines_by_config(version)
    tables = []
    for name, part in version.definition["devices"].items():
        for device in _of_class(name, kinds):
            title = device.title if device else f"{DEVICE_TITLES.get(name, name)} (no such device is connected yet)"
            tables.append(ConfigTable(title, device, _lines(part["configs"], device, baselines), part["hidden"]))
    return sorted(tables, key=lambda table: table.device != first)


def _of_class(name: str, kinds: list[DeviceKind]) -> list[DeviceKind | None]:
    return [kind for kind in kinds if kind.device_class == name] or [None]


def _lines(
    configs: list[dict[str, Any]],
    device: DeviceKind | None,
    baselines: dict[tuple[str, str, str], BaselineResult],
) -> list[ConfigLine]:
    slug = device.slug if device else ""
    return [ConfigLine(config, baselines.get((slug, config["group"], config["key"]))) for config in configs]
