"""Forks of runs, teams and contests: what nobody may do to somebody else with them, and what nobody sees too early.

Each was a finding of an attack once. Not covered: what forks, teams and contests are for.
"""

import re
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from agents import services as agents
from agents.driving import evaluator
from agents.evolve.budget import Caps
from agents.evolve.confirming import leaders
from agents.evolve.state import RunState
from agents.models import Run
from agents.record.log import DbLog
from benchmarks import services, teams
from benchmarks.accounts import exports, ownership
from benchmarks.contests import finals, running
from benchmarks.judgings import moves
from benchmarks.models import Contest, ContestEntry, Evaluation, Submission
from benchmarks.states import ContestState, EvaluationReason, Origin, Priority, State, TeamRole, Visibility
from tests.agents import factories as runs

from . import contests, factories
from .test_bounds import found, replayed
from .test_connected import compiled
from .test_timing_revisions import by, on

TIME_OF_DAY = re.compile(r"\d\d:\d\d:\d\d(\.\d+)?")  # whose seconds may look like a score
HIDDEN = {contests.TASK: {"cpu": [{"batch_size": 4861}]}}


def forked(entry: Evaluation, owner: User, **columns: Any) -> Run:
    """A fork of `owner` of a run whose best candidate the entry is."""
    parent = runs.driven(runs.started(entry.submission.owner, confirmations=4))
    best = parent.candidates.get(key=parent.best_key)
    for event in parent.events.filter(candidate=best.key, type="evaluation.submitted"):
        event.payload["ticket"] = str(entry.code)
        event.save()
    parent.candidates.filter(pk=best.pk).update(ticket=str(entry.code))
    fork = agents.run_fork(Run.objects.get(pk=parent.pk), owner=owner, seed=3, more=Caps(judgings=20))
    Run.objects.filter(pk=fork.pk).update(**columns)
    return Run.objects.get(pk=fork.pk)


def judged_again(fork: Run, entry: Evaluation, number: int = 1) -> Evaluation:
    """What the fork has queued for it at its end, alone in the queue."""
    again = Evaluation.objects.get(code=evaluator._judged_again(fork, str(entry.code), number))
    Evaluation.objects.queued().exclude(pk=again.pk).delete()
    return again


# --- forks ---


def test_a_fork_of_somebody_elses_run_judges_nothing_in_the_name_of_its_owner() -> None:
    """A fork has the tickets of its parent, and at its end has the leaders judged again: as the parent's owner's own.

    So its owner drew lots for a rival until one judging had a gate, was refused, or contradicted the entry.
    """
    honest, eve = factories.user("honest"), factories.user("eve")
    entry = factories.judged(factories.passing(9.9), owner=honest, origin=Origin.AGENT)
    fork = forked(entry, eve)
    log = DbLog(fork, uuid.uuid4())
    tickets = [item.ticket for item in leaders(RunState.fold(log.read(), log.get_source))]
    assert str(entry.code) in tickets, "the fork confirms it when it ends"
    assert fork.config["confirmations"] > 0
    again = judged_again(fork, entry)
    assert again.submission.owner == eve
    moves.record_report(factories.claimed_for_judging(), factories.gated(10.1))
    row = by("honest")
    assert not row.under_review, row.review_reason


@pytest.mark.parametrize("how", ["contest", "low"])
def test_a_fork_takes_nobody_out_of_a_contest_or_off_a_board(how: str) -> None:
    """By what is judged at its end. A low score of others makes an entry contested, whoever submits its text."""
    honest, columns = factories.user("honest"), {}
    if how == "low":
        columns = {"device_kind": factories.gpu_kind(), "language": "cuda"}
        entry = factories.judged_on_gpu(on(replayed(2.0), "2.11"), owner=honest, origin=Origin.AGENT)
    else:
        contest = contests.running_with(honest, hidden=HIDDEN)
        entry = factories.judged(factories.passing(9.9), owner=honest, origin=Origin.AGENT)
    judged_again(forked(entry, factories.user("eve"), **columns), entry)
    device = factories.GPU if how == "low" else factories.CPU
    report = on(replayed(1.2), "2.11") if how == "low" else factories.gated(10.1)
    moves.record_report(factories.claimed_for_judging(device), report)
    if how == "low":
        assert not by("honest").under_review, by("honest").review_reason
        return
    Contest.objects.filter(pk=contest.pk).update(ends=timezone.now())
    running.advance()
    while Evaluation.objects.queued().exists():
        moves.record_report(factories.claimed_for_judging(), factories.passing(9.9))
    running.advance()
    assert ContestEntry.objects.get().score == pytest.approx(9.9), ContestEntry.objects.get().verdict


def test_what_a_fork_submits_anew_is_one_submission_of_its_candidate_and_no_more_public() -> None:
    entry = factories.judged(owner=factories.user("honest"), origin=Origin.AGENT, visibility=Visibility.UNLISTED)
    fork = forked(entry, factories.user("eve"))
    numbers = [evaluator._judged_again(fork, str(entry.code), number) for number in (1, 2, 3, 1, 2)]
    assert numbers[:2] == numbers[3:]
    made = Evaluation.objects.filter(code__in=numbers).order_by("pk")
    assert [item.reason for item in made] == ["initial", "rejudge", "rejudge"]
    submission = Submission.objects.get(evaluations__in=made[:1])
    assert {item.submission for item in made} == {submission}
    assert (submission.visibility, submission.blob) == (Visibility.UNLISTED, entry.submission.blob)
    assert submission.title == f"Run {fork}, candidate {fork.best_key}"


def test_a_fork_judges_nothing_again_that_its_owner_may_read_no_more() -> None:
    """Submitted anew it would be the owner's own, who could read it then."""
    entry = factories.judged(owner=factories.user("honest"), origin=Origin.AGENT)
    fork = forked(entry, factories.user("eve"))
    ownership.visibility_change(entry.submission, Visibility.PRIVATE)
    before = Submission.objects.count()
    with pytest.raises(LookupError, match="may not read"):
        evaluator._judged_again(fork, str(entry.code), 1)
    assert Submission.objects.count() == before


def test_a_fork_of_ones_own_run_judges_the_same_submission_again() -> None:
    honest = factories.user("honest")
    entry = factories.judged(owner=honest, origin=Origin.AGENT)
    again = judged_again(forked(entry, honest), entry)
    assert (again.submission, again.reason) == (entry.submission, EvaluationReason.REJUDGE)


# --- contests ---


def test_a_second_opinion_does_not_put_off_the_end_of_a_contest() -> None:
    """It is the last in the queue: everybody else's submissions go first, for up to a week."""
    honest, eve = factories.user("honest"), factories.user("eve")
    kinds = {"device_kinds": [factories.gpu_kind()], "hidden": {contests.TASK: {"cuda": [{"batch_size": 4861}]}}}
    contest = contests.running_with(honest, eve, **kinds)
    factories.judged_on_gpu(replayed(2.0), owner=honest, text="// honest\n")
    bounded = factories.judged_on_gpu(found(1.2, 1.1, 1.25, "bounded"), owner=eve, text="// eve\n")
    services.audit_request(bounded, by_staff=False)
    Contest.objects.filter(pk=contest.pk).update(ends=timezone.now())
    running.advance()
    contest.refresh_from_db()
    assert contest.state == ContestState.JUDGING


def test_the_end_of_a_contest_waits_for_what_is_judged_in_full_after_a_quick_check() -> None:
    eve = factories.user("eve")
    contest = contests.running_with(eve)
    services.judge_in_full(factories.judged(owner=eve, quick=True), None)
    Contest.objects.filter(pk=contest.pk).update(ends=timezone.now())
    running.advance()
    contest.refresh_from_db()
    assert contest.state == ContestState.RUNNING


@pytest.mark.parametrize(("hours", "waits"), [(23, True), (25, False)])
def test_the_end_of_a_contest_waits_a_day_for_what_runs_have_submitted(hours: int, waits: bool) -> None:
    """As long as people submit, nothing of a run is judged."""
    eve, end = factories.user("eve"), timezone.now() - timedelta(hours=hours)
    contest, entered = contests.running_with(eve, hidden=HIDDEN), end - timedelta(hours=1)
    candidate = factories.queued(owner=eve, origin=Origin.AGENT, priority=Priority.AGENT)
    Submission.objects.filter(pk=candidate.submission_id).update(created=entered)
    Evaluation.objects.filter(pk=candidate.pk).update(queued=entered)
    Contest.objects.filter(pk=contest.pk).update(starts=entered - timedelta(hours=1), ends=end)
    running.advance()
    contest.refresh_from_db()
    assert (contest.state == ContestState.RUNNING) == waits


def final_begun(*entries: Evaluation) -> Contest:
    """The contest, which has ended: these entries are queued for its finals."""
    contest = Contest.objects.get()
    Contest.objects.filter(pk=contest.pk).update(ends=timezone.now())
    running.advance()
    assert ContestEntry.objects.count() == len(entries)
    return contest


def test_a_final_is_not_ended_by_deleting_its_entry() -> None:
    """Security: what a contest has judged again cannot be ended by deleting the entry."""
    eve = factories.user("eve")
    contests.running_with(eve, hidden=HIDDEN)
    entry = factories.judged(factories.passing(3.0), owner=eve)
    final_begun(entry)
    assert Evaluation.objects.queued().filter(submission=entry.submission_id).exists()
    with pytest.raises(services.Refused):
        ownership.submission_delete(Submission.objects.get(pk=entry.submission_id))
    moves.record_report(factories.claimed_for_judging(), factories.failing())
    running.advance()
    ownership.submission_delete(Submission.objects.get(pk=entry.submission_id))  # it has no result


def test_a_final_that_was_lost_is_not_deleted_before_the_others_have_ended() -> None:
    eve = factories.user("eve")
    contests.running_with(eve, hidden=HIDDEN)
    final_begun(
        factories.judged(factories.passing(3.0), owner=eve),
        factories.judged(factories.passing(2.0), owner=eve, text=f"static int b;\n{factories.SOURCE}"),
    )
    holding = factories.claimed_for_judging()
    moves.record_report(holding, factories.failing())
    with pytest.raises(services.Refused):
        ownership.submission_delete(Submission.objects.get(pk=holding.evaluation.submission_id))


@pytest.fixture
def final(owner: User) -> Evaluation:
    """One of two finals has been judged, with a score that nothing else has."""
    contests.running_with(owner, hidden=HIDDEN)
    texts = [f"static int a{number};\n{factories.SOURCE}" for number in range(2)]
    contest = final_begun(*(factories.judged(factories.passing(3.0), owner=owner, text=text) for text in texts))
    holding = factories.claimed_for_judging()
    moves.record_report(holding, factories.passing(2.468))
    assert Contest.objects.get(pk=contest.pk).state == ContestState.JUDGING
    return Evaluation.objects.get(pk=holding.evaluation.pk)


def test_a_board_shows_no_final_before_all_are_judged(visitor: Client, final: Evaluation) -> None:
    """The data set and the export leave finals out until the contest is finished, as results belong together."""
    answer = visitor.get(f"/api/v1/submissions/{final.submission.code}").content.decode()
    assert "2.468" not in answer


@pytest.mark.parametrize("who", ["visitor", "as_owner"])
def test_nobody_reads_a_final_before_all_are_judged(who: str, final: Evaluation, request: Any) -> None:
    client = request.getfixturevalue(who)
    first = final.submission.evaluations.get(reason=EvaluationReason.INITIAL)
    paths = ["/", "/status/", "/people/olga/", "/accounts/submissions/", "/contests/running/"]
    paths += [first.get_absolute_url(), f"/submissions/{final.submission.code}/"]
    paths += [f"/api/v1/{path}" for path in ("export", "submissions", "submissions?mine=true", "contests/running")]
    paths += [f"/api/v1/evaluations/{first.code}", f"/api/v1/submissions/{final.submission.code}"]
    for path in paths:
        told = TIME_OF_DAY.sub("", client.get(path, follow=True).content.decode())
        assert not any(word in told for word in ("2.468", "2.47", str(final.code))), path
    assert client.get(final.get_absolute_url()).status_code == 404
    assert client.get(f"/api/v1/evaluations/{final.code}").status_code == 404
    moves.record_report(factories.claimed_for_judging(), factories.passing(3.0))
    running.advance()
    assert client.get(final.get_absolute_url()).status_code == 200


def test_staff_can_read_and_cancel_a_final(as_staff: Client, final: Evaluation) -> None:
    waits = Evaluation.objects.queued().get()
    assert as_staff.get(final.get_absolute_url()).status_code == 200
    assert str(waits.code) in as_staff.get(f"/moderation/submissions/{waits.submission.code}/").content.decode()
    as_staff.post(f"{waits.get_absolute_url()}cancel/")
    waits.refresh_from_db()
    assert waits.state == State.CANCELLED


def test_the_archive_of_an_account_has_no_open_final(owner: User, final: Evaluation) -> None:
    judged = [path for path, _ in exports.files_of(owner) if "/evaluations/" in path]
    assert (len(judged), any(str(final.code) in path for path in judged)) == (2, False)


# --- teams ---


def test_an_account_owns_no_more_teams_than_it_may_when_others_are_deleted() -> None:
    keeper = factories.user("keeper")
    for number in range(teams.OWNED_MAX + 2):
        maker = factories.user(f"maker{number}")
        team = teams.team_create(f"squat{number}", by=maker)
        teams.invite(team, keeper, by=maker)
        teams.answer(team.memberships.get(account=keeper), accept=True)
        ownership.account_delete(maker, keep_submissions=False)
    assert len(teams.teams_of(keeper, owned=True)) <= teams.OWNED_MAX


def test_nobody_is_bound_to_a_team_by_becoming_its_last_owner() -> None:
    """A member is made an owner without being asked; as the last one it could neither leave nor delete the team."""
    eve, victim = factories.user("eve"), factories.user("victim")
    contest = contests.running_with()
    team = teams.team_create("trap", by=eve)
    teams.invite(team, victim, by=eve)
    teams.answer(team.memberships.get(account=victim), accept=True)
    running.join(contest, eve, team)
    teams.role_set(team, victim, TeamRole.OWNER, by=eve)
    teams.leave(team, eve)
    teams.leave(team, victim)
    running.join(contest, victim)


def test_one_compiled_code_has_one_final() -> None:
    """Two texts that name a variable differently have other tokens."""
    honest = factories.user("honest")
    contest = contests.running_with(honest, hidden={contests.TASK: {"cpu": [{"batch_size": 4861}]}})
    for name in ("x", "y"):
        compiled(factories.judged(factories.passing(2.0), owner=honest, text=f"int {name};"), "a" * 64)
    assert len(list(finals.best_entries(contest, 2))) == 1
