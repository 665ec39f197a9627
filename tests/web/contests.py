"""Contests for tests: drafts, running ones with a participant. Their sealed text has a number that nothing else has."""

import json
from datetime import timedelta
from typing import Any

from django.utils import timezone

from benchmarks.contests import running
from benchmarks.contests.running import ContestDraft
from benchmarks.models import Contest, Task
from benchmarks.states import ContestState
from tests.rows import cpu_kind

MARK = 7_340_291_846_501_927_364  # twenty digits that no hash and no time has by chance
TASK = "robust-kbench/mnist_linear_relu/forward"


def draft(slug: str, **options: Any) -> Contest:
    now = timezone.now()
    columns = {
        "slug": slug,
        "title": "A contest",
        "rules_text": "Be kind.",
        "starts": now + timedelta(hours=1),
        "ends": now + timedelta(hours=3),
        "best_n": 2,
        "tasks": [Task.objects.get(op="mnist_linear_relu", direction="forward")],
        "device_kinds": [cpu_kind()],
        "hidden": {TASK: {"cpu": [{"batch_size": MARK}]}},
    }
    return running.contest_save(ContestDraft(**{**columns, **options}), by=None)  # type: ignore[arg-type]


def running_with(*accounts: Any, **options: Any) -> Contest:
    """It has begun a while ago, and these accounts take part."""
    now = timezone.now()
    contest = draft(
        **{"slug": "running", "starts": now - timedelta(hours=1), "ends": now + timedelta(hours=1), **options}
    )
    running.announce(contest)
    for account in accounts:
        running.join(contest, account)
    Contest.objects.filter(pk=contest.pk).update(state=ContestState.RUNNING)
    contest.refresh_from_db()
    return contest


def is_marked(text: str) -> bool:
    return str(MARK) in text.replace("_", "").replace(",", "") or json.dumps(MARK) in text
