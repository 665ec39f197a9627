"""Turns a report of the harness into an entry of a bundle.

Does NOT select reports; only accepted ones are possible, and `BundleEntry` checks the rest.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .bundles import BundleConfig, BundleEntry, BundleMethod, BundleScore

MACHINE = ("gpu", "driver", "cuda", "cpu", "cores", "threads", "torch", "compiler", "nvcc", "python", "kernel")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,49}")
_CONFIG_FIELDS = frozenset(BundleConfig.model_fields)


@dataclass(frozen=True)
class About:
    """What the report itself does not say."""

    id: str
    by: str
    method: BundleMethod
    title: str
    judged_at: datetime
    source: str | None
    task_sha256: str | None = None
    judgings: int = 1
    score: BundleScore | None = None  # pooled over several judgings; else that of the report


def entry_of(report: Mapping[str, Any], about: About) -> BundleEntry:
    """Raises ValueError where the report is not one of an accepted submission."""
    if report.get("verdict") != "PASS" or not report.get("score"):
        raise ValueError(f"only an accepted kernel can be recorded, this one has the verdict {report.get('verdict')}")
    return BundleEntry(
        id=about.id,
        task=f"{report['suite']}/{report['task']}",
        task_sha256=about.task_sha256,
        by=about.by,
        method=about.method,
        title=about.title,
        language=report["language"],
        judged_at=about.judged_at,
        judgings=about.judgings,
        score=about.score or BundleScore(**report["score"]),
        source_sha256=report["source_sha256"],
        source=about.source,
        configs=tuple(
            BundleConfig(**{name: value for name, value in config.items() if name in _CONFIG_FIELDS})
            for config in report["configs"]
        ),
        remarks=tuple(one_line(flag["text"], 200) for flag in report.get("flags", ())),
        environment=_facts(report.get("environment", {})),
        isolation=one_line(report.get("isolation", ""), 200),
    )


def machine_of(report: Mapping[str, Any]) -> dict[str, str]:
    """What a header says about the machine."""
    environment = report.get("environment", {})
    return {name: one_line(environment[name], 200) for name in MACHINE if environment.get(name) not in (None, "")}


def one_line(value: object, chars_max: int) -> str:
    """Without line ends and other control characters."""
    return " ".join("".join(char if char.isprintable() else " " for char in str(value)).split())[:chars_max]


def _facts(environment: Mapping[str, Any]) -> dict[str, Any]:
    """What is nested (the record of a replay) is left out: it is long, and boards do not show it."""
    plain = {name: value for name, value in environment.items() if not isinstance(value, dict | list)}
    return {
        name: one_line(value, 500) if isinstance(value, str) else value
        for name, value in plain.items()
        if _NAME.fullmatch(name)
    }
