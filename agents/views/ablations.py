"""What each part of the search brings: the figures that `lab.sweeps.ablations` has left, as tables.

Does NOT measure anything; where the file is missing the page says so.
"""

import json
from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

ALL = "all"


def results_file() -> Path:
    return Path(settings.BASE_DIR) / "docs" / "results" / "ablations" / "levers.json"


def ablations(request: HttpRequest) -> HttpResponse:
    file = results_file()
    found: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {"summary": []}
    levers: dict[str, list[dict[str, Any]]] = {}
    for line in found["summary"]:
        levers.setdefault(line["lever"], []).append(_row(line))
    spaces = [row["space"] for row in next(iter(levers.values()), []) if row["space"] != ALL]
    overall = [(lever, row) for lever, rows in levers.items() for row in rows if row["space"] == ALL]
    by_space = [(space, [(lever, _of(space, rows)) for lever, rows in levers.items()]) for space in spaces]
    context = {"overall": overall, "by_space": by_space, "seeds": found.get("seeds"), "plain": next(iter(levers), "")}
    return render(request, "runs/ablations.html", context)


def _of(space: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return next(row for row in rows if row["space"] == space)


def _row(line: dict[str, Any]) -> dict[str, Any]:
    """A template cannot name a key with a sign for percent."""
    gain = line["gain_95%"]
    return {
        "space": line["space"],
        "gain_90": line["gain_90%"],
        "gain_95": gain,
        "word": "saves" if gain[1] > 1 else "costs" if gain[2] < 1 else "no clear difference",
        "median_90": line.get("median_90%"),
        "median_95": line.get("median_95%"),
        "found_8": line.get("found_with_8%"),
        "found_15": line.get("found_with_15%"),
        "runs": line.get("runs"),
        "settings": line.get("settings"),
    }
