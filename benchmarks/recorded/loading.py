"""Loads bundles into the tables: a file replaces what an earlier file of the same name contained.

A file that was loaded before changes nothing. Does NOT check a file (`bundles.py`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from ..boards.ranking import Entry, rank
from ..extensions import Loaded, extensions
from ..harness import what_counts
from ..models import RecordedBundle, RecordedEntry
from .bundles import SHIPPED, BundleEntry, BundleHeader, format_of, read_bundle


def load_shipped() -> list[Loaded]:
    """What comes with kbench; that of a site that shows nothing recorded is left where it is."""
    if not settings.KBENCH_RECORDED:
        return []
    return [load_file(path) for path in sorted(SHIPPED.glob("*.jsonl"))]


def load_file(path: Path) -> Loaded:
    """A bundle, or a file of a kind that an app adds. Raises BundleError and OSError."""
    named = format_of(path)
    found = (extension.recorded[named] for extension in extensions() if named in extension.recorded)
    other = next(found, None)
    return load_bundle(path) if other is None else other.load(path)


def load_bundle(path: Path) -> Loaded:
    """All of the file or, with a BundleError that names the line, nothing of it."""
    header, entries, file_sha256 = read_bundle(path)
    with transaction.atomic():
        bundle = RecordedBundle.objects.select_for_update().filter(name=header.name).first()
        if bundle is not None and bundle.file_sha256 == file_sha256:
            return Loaded(header.name, unchanged=len(entries))
        told = {**_header_columns(header), **_extent(entries), "file_sha256": file_sha256, "loaded": timezone.now()}
        bundle, _ = RecordedBundle.objects.update_or_create(name=header.name, defaults=told)
        return _entries_write(bundle, entries)


def bundle_remove(name: str) -> bool:
    """False: there was none of that name, of whatever kind."""
    kinds = [kind for extension in extensions() for kind in extension.recorded.values()]
    removed = [kind.remove(name) for kind in kinds]
    return bool(RecordedBundle.objects.filter(name=name).delete()[0]) or any(removed)


def _header_columns(header: BundleHeader) -> dict[str, Any]:
    columns = header.model_dump(mode="json", exclude={"format", "version", "name"})
    return {**columns, "ruleset_sha256": header.ruleset_sha256 or ""}


def _extent(entries: Sequence[BundleEntry]) -> dict[str, Any]:
    moments = [item.judged_at for item in entries]
    return {
        "tasks": len({item.task for item in entries}),
        "kernels": len(entries),
        "first": min(moments, default=None),
        "last": max(moments, default=None),
    }


def _entries_write(bundle: RecordedBundle, entries: Sequence[BundleEntry]) -> Loaded:
    """Compared column by column, so that a row keeps its key where nothing has changed."""
    before = {row.name: row for row in bundle.entries.all()}
    ranks = _ranks(entries)
    rows = [RecordedEntry(bundle=bundle, name=item.id, **_columns(item), rank=ranks.get(item.id)) for item in entries]
    created = [row for row in rows if row.name not in before]
    replaced = [
        row
        for row in rows
        if row.name in before and any(getattr(row, name) != getattr(before[row.name], name) for name in _COLUMNS)
    ]
    for row in replaced:
        row.pk = before[row.name].pk
    gone = before.keys() - {row.name for row in rows}
    RecordedEntry.objects.filter(bundle=bundle, name__in=gone).delete()
    RecordedEntry.objects.bulk_create(created, batch_size=500)
    RecordedEntry.objects.bulk_update(replaced, _COLUMNS, batch_size=100)
    return Loaded(bundle.name, len(created), len(replaced), len(rows) - len(created) - len(replaced), len(gone))


_COLUMNS = [field.name for field in RecordedEntry._meta.fields if field.name not in ("id", "bundle", "name")]


def _columns(item: BundleEntry) -> dict[str, Any]:
    suite, op, direction = item.task.split("/")
    score = item.score
    report = item.model_dump(mode="json", include={"configs", "remarks", "environment", "isolation"})
    return {
        **{"suite": suite, "op": op, "direction": direction, "task_sha256": item.task_sha256 or ""},
        **{"by": item.by, "method": item.method.slug, "method_title": item.method.title},
        **{"method_kind": item.method.kind, "title": item.title, "language": item.language},
        **{"judged_at": item.judged_at, "judgings": item.judgings, "score": score.speedup},
        **{"score_lo": score.ci95[0], "score_hi": score.ci95[1]},
        **score.model_dump(include={"vs_eager", "vs_compile", "worst_config", "timing_trust"}),
        "worst": min((config.speedup for config in item.configs if config.speedup), default=None),
        **{"source_sha256": item.source_sha256, "source": item.source, "report": report},
    }


def _ranks(entries: Sequence[BundleEntry]) -> dict[str, int]:
    """Per task, of the best entry of each maker and method, by the rule of all boards."""
    best: dict[tuple[str, str, str], BundleEntry] = {}
    for item in entries:
        holder = (item.task, item.by, item.method.slug)
        if holder not in best or _counts(item) > _counts(best[holder]):
            best[holder] = item
    ranks: dict[str, int] = {}
    for task in {item.task for item in entries}:
        board = [item for (place, *_), item in best.items() if place == task]
        ranks |= rank(
            Entry(item.id, item.score.speedup, *item.score.ci95, item.judged_at, item.score.timing_trust)
            for item in board
        )
    return ranks


def _counts(item: BundleEntry) -> float:
    return what_counts(item.score.speedup, item.score.ci95[0], item.score.timing_trust)
