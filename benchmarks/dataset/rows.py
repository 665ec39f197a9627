"""The rows of the tables of the public data set, read from the database some submissions at a time.

Every query starts from `published` submissions, so what is private, unlisted or hidden is in no table. Of hidden
configurations only number, correctness and calls are told. Finals of a contest appear when it is finished.
"""

import math
from collections.abc import Iterator, Sequence
from statistics import geometric_mean
from typing import Any

from django.db.models.fields.json import KT

from ..boards.accuracy import attach_shares
from ..data_tables import DataRow, Key, RowSource
from ..harness import Verdict
from ..models import ConfigResult, Evaluation, Submission, TaskVersion
from ..querysets import HEAVY
from ..states import Moderation, State
from ..submissions.languages import suffix_of
from ..templatetags.kbench import holder_of

KEYS_AT_ONCE = 2000
MEASURED = ("max_abs_error", "max_rel_error", "of_tolerance", "kernel_us", "kernel_iqr_us", "eager_us",
            "eager_iqr_us", "compile_us", "compile_iqr_us", "speedup", "speedup_lo", "speedup_hi",
            "roofline_fraction", "sol_score", "energy_mj", "energy_lo_mj", "energy_hi_mj", "excess_us",
            "failure")  # fmt: skip
SCORED = ("reason", "verdict", "score", "score_lo", "score_hi", "vs_eager", "vs_compile", "worst_config",
          "timing_trust", "timing_revision", "isolation", "calls_library")  # fmt: skip
ID_BYTES = 8
FAILED = "failed"  # as kernelbot calls a judging that did not come to an end


def _keys() -> Iterator[Key]:
    """Without the entries of requests that staff have hidden: rows hold words of the task."""
    published = Submission.objects.published().exclude(task_version__task__request__moderation=Moderation.HIDDEN)
    rows = published.order_by("pk").values_list("pk", "owner", "team")
    for pk, owner, team in rows.iterator(chunk_size=KEYS_AT_ONCE):
        yield pk, owner or 0, team or 0


SUBMISSIONS = RowSource("submissions", _keys)


def submissions(keys: Sequence[int]) -> Iterator[DataRow]:
    for row in _published(keys):
        task = row.task_version.task
        yield {
            "submission_id": str(row.code),
            "task": task.path,
            "task_version": row.task_version.number,
            "task_sha256": row.task_version.content_sha256,
            "task_licence": task.licence or None,
            "task_origin": task.origin or None,
            "licence": row.licence or None,
            "language": row.language,
            "title": row.title or None,
            "author": holder_of(row),
            "method": row.method.slug,
            "method_kind": row.method.kind,
            "origin": row.origin,
            "moderation": row.moderation,
            "submitted_at": row.created,
            "source_sha256": row.blob_id,
            "source_bytes": row.blob.size_bytes,
            "source": row.blob.text,
        }


def reports(keys: Sequence[int]) -> Iterator[DataRow]:
    """One row for each configuration; one without a configuration where judging ended before there was any."""
    judged = list(_judged(keys))
    versions = TaskVersion.objects.filter(pk__in={row.task_version_id for row in judged})
    definitions = dict(versions.values_list("pk", "definition"))
    for evaluation in judged:
        about = _evaluation(evaluation)
        found = list(evaluation.configs.all())
        attach_shares(found, definitions[evaluation.task_version_id], evaluation.device_kind.device_class)
        yield from ({**about, **_config(item)} for item in found) if found else [about]


def samples(keys: Sequence[int]) -> Iterator[DataRow]:
    """What each launch of a ranked judging measured on each configuration that is not hidden."""
    rows = _public_judgings(keys).order_by("pk").values_list("code", "submission__code", "report__configs")
    for code, submission, configs in rows:
        for config in configs or ():
            if config.get("group") == "hidden":
                continue
            for launch, times in enumerate(config.get("launches_us") or (), start=1):
                kernel_us, eager_us, compile_us = (*map(_number, times), None, None, None)[:3]
                yield {
                    "evaluation_id": str(code),
                    "submission_id": str(submission),
                    "config": config["key"],
                    "launch": launch,
                    "kernel_us": kernel_us,
                    "eager_us": eager_us,
                    "compile_us": compile_us,
                }


def kernelbot(keys: Sequence[int]) -> Iterator[DataRow]:
    """One row for each judging, with the columns of GPU MODE's `kernelbot-data`."""
    sources = {row.pk: row for row in _published(keys)}
    for evaluation in _judged(keys):
        row = sources.get(evaluation.submission_id)
        if row is None:
            continue
        times_us = [item.kernel_us for item in evaluation.configs.all() if item.group != "hidden" and item.kernel_us]
        scored = evaluation.score is not None and bool(times_us)
        ours = Verdict(evaluation.verdict).ours
        yield {
            "submission_id": _whole_id(row.code.bytes),
            "leaderboard_id": _whole_id(bytes.fromhex(evaluation.task_version.content_sha256)),
            "problem_name": evaluation.task_version.task.path,
            "user_id": holder_of(row),
            "user_name": holder_of(row),
            "code_id": _whole_id(bytes.fromhex(row.blob_id)),
            "file_name": f"submission.{suffix_of(row.language)}",
            "submission_time": row.created,
            "status": FAILED if ours else "succeeded",
            "score": geometric_mean(times_us) / 1e6 if scored else None,
            "passed": None if ours else evaluation.verdict == Verdict.PASS,
            "mode": "test" if evaluation.is_quick else "leaderboard",
            "runner": evaluation.device_kind.slug,
            "code": row.blob.text,
        }


def _published(keys: Sequence[int]) -> Iterator[Submission]:
    rows = Submission.objects.published().filter(pk__in=keys).order_by("pk")
    yield from rows.select_related("blob", "method", "owner", "team", "task_version__task__suite").defer(*HEAVY)


def _public_judgings(keys: Sequence[int]) -> Any:
    """Without statistics SQLite would look through all that have ended, for every few submissions: so by their keys."""
    public = Submission.objects.published().filter(pk__in=keys).values("pk")
    states = Evaluation.objects.filter(submission__in=public).values_list("pk", "state")
    judged = Evaluation.objects.filter(pk__in=[pk for pk, state in states if state == State.DONE])
    return judged.without_open_finals()


def _judged(keys: Sequence[int]) -> Any:
    rows = _public_judgings(keys).order_by("pk")
    rows = rows.select_related("submission", "device_kind", "ruleset", "task_version__task__suite")
    rows = rows.annotate(gpu=KT("report__environment__gpu"), cpu=KT("report__environment__cpu"))
    return rows.defer("report", "error_internal", "ruleset__text", *HEAVY).prefetch_related("configs", "standings")


def _evaluation(row: Any) -> DataRow:
    standing = next(iter(row.standings.all()), None)
    return {
        **{name: getattr(row, name) for name in SCORED},
        "evaluation_id": str(row.code),
        "submission_id": str(row.submission.code),
        "task": row.task_version.task.path,
        "task_version": row.task_version.number,
        "device": row.device_kind.slug,
        "device_class": row.device_kind.device_class,
        "processor": row.gpu or row.cpu,
        "ruleset": row.ruleset.name,
        "verdict_text": row.reason_text,
        "finished_at": row.finished,
        "timing_trust": row.timing_trust or None,
        "worst_config": row.worst_config or None,
        "rank": standing.rank if standing else None,
        "under_review": standing.under_review if standing else False,
    }


def _config(row: ConfigResult) -> DataRow:
    told: DataRow = {"config": row.key, "config_group": row.group, "correct": row.correct}
    told |= {"calls": row.calls, "checked_calls": row.checked_calls}
    if row.group == "hidden":
        return told
    measured = {name: getattr(row, name) for name in MEASURED}
    return {**told, **measured, "failure": row.failure or None}


def _number(value: object) -> float | None:
    """None for what is no finite number: a report keeps NaN as a word."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _whole_id(name: bytes) -> int:
    """A number of 63 bits for what has a longer name here."""
    return int.from_bytes(name[:ID_BYTES]) >> 1
