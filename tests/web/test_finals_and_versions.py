"""A contest whose task gets a new version meanwhile: what is refused on it has no result until staff confirm it.

Not covered: what staff decide about it (`test_confirmed_before_finals.py`).
"""

from typing import Any

import pytest
from django.contrib.auth.models import User

from benchmarks import services
from benchmarks.contests import finals
from benchmarks.harness import Report, Verdict
from benchmarks.judgings import moves
from benchmarks.models import Contest, TaskVersion
from benchmarks.moderation import decisions
from benchmarks.states import ActionKind, EvaluationReason, Priority, TaskVersionStatus

from . import factories
from .test_confirmed_before_finals import begin, contest_of, entry_of, judge_finals, judged_as, score_of


def refused() -> Report:
    return factories.failing(reason="wrong", verdict=Verdict.INCORRECT_VALUE)


def new_version() -> TaskVersion:
    before = entry_of("doubted").task_version
    columns: dict[str, Any] = {
        name: getattr(before, name) for name in ("task", "definition", "content_sha256", "reference_source")
    }
    TaskVersion.objects.filter(pk=before.pk).update(status=TaskVersionStatus.RETIRED)
    newest = max(version.number for version in before.task.versions.all())  # there may be one of the finals
    return TaskVersion.objects.create(number=newest + 1, status=TaskVersionStatus.ACTIVE, **columns)


def judged_again(report: Report) -> None:
    """The site judges the doubted entry on the new version of the task."""
    version, asked = new_version(), {"reason": EvaluationReason.REJUDGE, "priority": Priority.REJUDGE}
    services.evaluation_create(entry_of("doubted"), version=version, **asked)
    moves.record_report(factories.claimed_for_judging(), report)


def submitted_again(report: Report) -> None:
    """Its owner submits its text again, for the new version."""
    new_version()
    entry = entry_of("doubted")
    factories.judged(report, owner=entry.owner, text=entry.blob.text)


def ended(contest: Contest) -> float | None:
    begin(contest)
    judge_finals(judged_as())
    return score_of("doubted")


@pytest.mark.parametrize("refuse", [judged_again, submitted_again])
@pytest.mark.parametrize("is_confirmed", [False, True])
def test_what_is_refused_on_a_new_version_has_no_result_until_it_is_confirmed(
    staff: User, refuse: Any, *, is_confirmed: bool
) -> None:
    contest = contest_of(judged_as())
    refuse(refused())
    if is_confirmed:
        for submission in entry_of("doubted").owner.submissions.all():
            decisions.decide(submission, ActionKind.CONFIRM, by=staff, reason="The version is wrong.")
    assert ended(contest) == (pytest.approx(9.0) if is_confirmed else None)


def test_a_version_that_comes_during_the_finals_takes_no_result(db: None) -> None:
    """The contest knows nothing of it, and a frozen result without a score would be final."""
    contest = contest_of(judged_as())
    begin(contest)
    judge_finals(judged_as())
    submitted_again(refused())
    assert score_of("doubted") == pytest.approx(9.0)


def test_what_a_stranger_has_had_refused_on_a_new_version_takes_no_result(db: None) -> None:
    """Staff could not settle it: the entry has no verdict there that they could confirm."""
    contest = contest_of(judged_as())
    new_version()
    factories.judged(refused(), owner=factories.user("stranger"), text=entry_of("doubted").blob.text)
    assert ended(contest) == pytest.approx(9.0)


def test_a_gate_that_was_confirmed_on_an_older_version_holds_the_final(staff: User) -> None:
    """What made the score plausible there may have been mended since."""
    contest = contest_of(judged_as(factories.gated(12.0)))
    decisions.decide(entry_of("doubted"), ActionKind.CONFIRM, by=staff, reason="sound")
    new_version()
    begin(contest)
    judge_finals(judged_as(factories.gated(12.0)))
    assert score_of("doubted") is None


def test_what_is_refused_on_a_new_version_takes_no_place_of_another_entry(db: None) -> None:
    contest = contest_of(judged_as())
    owner = entry_of("doubted").owner
    sound = factories.judged(factories.passing(3.0), owner=owner, text="int sound;").submission
    judged_again(refused())
    entries = [item.submission for *_, item in finals.best_entries(contest, 1) if item.submission.owner == owner]
    assert entries == [entry_of("doubted"), sound]


def test_what_only_an_earlier_version_has_refused_has_a_result(db: None) -> None:
    """As on leaderboards: the version was mended, and its board is another one."""
    contest = contest_of(judged_as(refused()))
    submitted_again(factories.passing(9.0))
    assert ended(contest) == pytest.approx(9.0)
