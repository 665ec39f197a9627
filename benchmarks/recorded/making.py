"""Makes a bundle of this site's verified kernels: the ranked public entries of one device kind under one rule set.

Entries under review, private and invalidated ones are left out, as they are from the boards. Does NOT write the file.
"""

from collections.abc import Iterator

from ..models import DeviceKind, RuleSet, Standing
from ..states import MethodKind, Origin
from .bundles import BundleEntry, BundleHeader, BundleMethod, BundleScore
from .reports import About, entry_of, machine_of, one_line

CHUNK_ROWS = 100
ABOUT = "The ranked public entries of {site}: the best one of each holder on each task."


def bundle_of(device: DeviceKind, ruleset: RuleSet, *, name: str, site: str) -> tuple[BundleHeader, list[BundleEntry]]:
    """Raises ValueError where there is nothing to record, or what there is does not fit into a bundle."""
    standings = list(_standings(device, ruleset))
    if not standings:
        raise ValueError(f"there is no ranked entry on {device.slug} under {ruleset.name}")
    header = BundleHeader.model_validate(
        {
            "name": name,
            "title": f"{device.title}, rule set {ruleset.name}",
            "about": one_line(ABOUT.format(site=site), 2000),
            "device": device.slug,
            "device_title": one_line(device.title, 200),
            "device_class": device.device_class,
            "machine": machine_of(standings[0].evaluation.report or {}),
            "ruleset": ruleset.name,
            "ruleset_sha256": ruleset.sha256,
        }
    )
    return header, [_entry(row) for row in standings]


def _standings(device: DeviceKind, ruleset: RuleSet) -> Iterator[Standing]:
    rows = Standing.objects.ranked().listable().filter(device_kind=device, ruleset=ruleset)
    whole = rows.select_related(
        "evaluation__submission__blob",
        "evaluation__submission__method",
        "evaluation__submission__owner",
        "task_version__task__suite",
    )
    ordered = whole.order_by("task_version__task__op", "task_version__task__direction", "rank", "pk")
    yield from ordered.iterator(chunk_size=CHUNK_ROWS)


def _entry(row: Standing) -> BundleEntry:
    evaluation, submission = row.evaluation, row.evaluation.submission
    owner = submission.owner.get_username() if submission.owner else None
    shipped = "kbench" if submission.origin == Origin.EXAMPLE else "anonymous"
    version = row.task_version
    names = {"suite": version.task.suite.slug, "task": version.task.name, "source_sha256": submission.blob_id}
    report = {**(evaluation.report or {}), **names}
    return entry_of(
        report,
        About(
            id=str(evaluation.code),
            by=one_line(owner or shipped, 200),
            method=_method(submission.method.slug, submission.method.title, submission.method.kind),
            title=one_line(submission.title, 200),
            judged_at=row.verified_at,
            source=submission.blob.text,
            task_sha256=version.content_sha256,
            judgings=row.judgings if row.score == evaluation.score else max(row.judgings, 2),  # some may be deleted
            score=BundleScore.model_validate(
                {
                    "speedup": row.score,
                    "ci95": (row.score_lo, row.score_hi),
                    "vs_eager": evaluation.vs_eager,
                    "vs_compile": evaluation.vs_compile,
                    "worst_config": one_line(evaluation.worst_config, 500),
                    "timing_trust": evaluation.timing_trust,
                }
            ),
        ),
    )


def _method(slug: str, title: str, kind: str) -> BundleMethod:
    known = kind if kind in (MethodKind.HUMAN, MethodKind.AGENT) else MethodKind.LIBRARY
    return BundleMethod.model_validate({"slug": slug.lower()[:50], "title": one_line(title, 200), "kind": str(known)})
