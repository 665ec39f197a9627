"""Staff take a frozen result of a contest down whatever its owner does with submission and account."""

from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.test import Client
from django.utils import timezone

from benchmarks.accounts import ownership
from benchmarks.boards import standings
from benchmarks.contests import results, running
from benchmarks.judgings import moves
from benchmarks.models import Contest, ContestEntry, Evaluation, ModerationAction, Submission
from benchmarks.moderation import decisions
from benchmarks.services import Refused
from benchmarks.states import ActionKind, ContestState, Moderation, Visibility

from . import contests, factories
from .test_connected import compiled

CHEAT, SPEEDUP = "// cheat\n", {"honest": 2.0, "cheat": 9.0}
BOTH, HONEST = [("cheat", 1), ("honest", 2)], [("honest", 1)]


@pytest.fixture
def contest() -> Contest:
    """It is finished, and cheat has won it."""
    accounts = {name: factories.user(name) for name in SPEEDUP}
    contest = contests.running_with(*accounts.values(), hidden={contests.TASK: {"cpu": [{"batch_size": 4861}]}})
    for name, owner in accounts.items():
        factories.judged(factories.passing(SPEEDUP[name]), owner=owner, text=f"// {name}\n")
    Contest.objects.filter(pk=contest.pk).update(ends=timezone.now())
    running.advance()
    while Evaluation.objects.queued().exists():
        final = factories.claimed_for_judging()
        moves.record_report(final, factories.passing(SPEEDUP[final.evaluation.submission.owner.username]))
    running.advance()
    contest.refresh_from_db()
    assert (contest.state, lines(contest)) == (ContestState.FINISHED, BOTH)
    return contest


def lines(contest: Contest) -> list[tuple[str, int]]:
    [board] = results.boards(contest)
    return [(line.participant, line.rank) for line in board.lines]


def winner() -> Submission:
    return Submission.objects.get(contest_entries__participant__account__username="cheat")


def decide(submission: Submission, kind: ActionKind, staff: User) -> None:
    decisions.decide(submission, kind, by=staff, reason="It reads the answer.")


def offered(client: Client, entry: ContestEntry) -> dict[str, Any]:
    """What the button of the page sends."""
    form = client.get(f"/moderation/contest-entries/{entry.pk}/").context["form"]
    assert [field.name for field in form.hidden_fields()] == ["kind", "seen"]
    return {**form.initial, "reason": "It reads the answer."}


def press(client: Client, entry: ContestEntry) -> str:
    """What the button of the page says next."""
    path = f"/moderation/contest-entries/{entry.pk}/"
    assert client.post(path, offered(client, entry)).status_code == 302
    return "Show it" if "Show it again" in client.get(path).content.decode() else "Take it down"


@pytest.mark.parametrize("keep", [False, True])
def test_who_was_invalidated_does_not_win_again_by_leaving(contest: Contest, staff: User, keep: bool) -> None:
    decide(winner(), ActionKind.INVALIDATE, staff)
    assert lines(contest) == HONEST
    ownership.account_delete(User.objects.get(username="cheat"), keep_submissions=keep)
    assert lines(contest) == HONEST


@pytest.mark.parametrize("how", ["private", "left"])
def test_staff_take_down_whose_submission_they_cannot_see(
    contest: Contest, staff: User, as_staff: Client, how: str
) -> None:
    entry = winner().contest_entries.get()
    if how == "private":
        ownership.visibility_change(winner(), Visibility.PRIVATE)
        assert CHEAT not in as_staff.get(f"/moderation/contest-entries/{entry.pk}/").content.decode()
    else:
        ownership.account_delete(User.objects.get(username="cheat"), keep_submissions=False)
    assert f"/moderation/contest-entries/{entry.pk}/" in as_staff.get(contest.get_absolute_url()).content.decode()
    assert press(as_staff, entry) == "Show it"
    assert lines(contest) == HONEST
    assert f"/moderation/contest-entries/{entry.pk}/" in as_staff.get(contest.get_absolute_url()).content.decode()
    assert press(as_staff, entry) == "Take it down"
    assert len(lines(contest)) == 2
    kinds = ModerationAction.objects.order_by("pk").values_list("kind", flat=True)
    assert list(kinds) == [ActionKind.INVALIDATE, ActionKind.RESTORE]


@pytest.mark.parametrize("how", ["there", "left"])
def test_a_button_that_is_pressed_twice_is_no_other_decision(contest: Contest, as_staff: Client, how: str) -> None:
    entry = winner().contest_entries.get()
    if how == "left":
        ownership.account_delete(User.objects.get(username="cheat"), keep_submissions=False)
    path, sent = f"/moderation/contest-entries/{entry.pk}/", offered(as_staff, entry)
    assert as_staff.post(path, sent).status_code == 302
    assert decisions.ENTRY_DECIDED in as_staff.post(path, sent).content.decode()
    assert lines(contest) == HONEST
    assert [line.kind for line in ModerationAction.objects.all()] == [ActionKind.INVALIDATE]


def test_a_result_is_not_shown_again_by_who_has_not_seen_the_last_decision(
    contest: Contest, staff: User, as_staff: Client
) -> None:
    decide(winner(), ActionKind.HIDE, staff)
    entry = winner().contest_entries.get()
    sent = offered(as_staff, entry)
    decide(winner(), ActionKind.INVALIDATE, staff)
    page = as_staff.post(f"/moderation/contest-entries/{entry.pk}/", sent)
    assert "Someone else has made a decision about this submission" in page.content.decode()
    assert lines(contest) == HONEST


def test_nobody_else_sees_how_to_take_a_result_down(contest: Contest, as_owner: Client) -> None:
    assert "contest-entries" not in as_owner.get(contest.get_absolute_url()).content.decode()


def test_what_has_a_result_is_deleted_with_its_account_alone(contest: Contest) -> None:
    with pytest.raises(Refused):
        ownership.submission_delete(winner())
    ContestEntry.objects.update(score=None)
    ownership.submission_delete(winner())


def test_the_same_program_submitted_again_takes_the_result_with_it(contest: Contest, staff: User) -> None:
    won = winner()
    ownership.visibility_change(won, Visibility.PRIVATE)
    again = factories.judged(factories.passing(9.0), owner=won.owner, text=f"\n\n{CHEAT}int y;").submission
    decide(again, ActionKind.INVALIDATE, staff)
    assert lines(contest) == BOTH  # another program
    again = factories.judged(factories.passing(9.0), owner=won.owner, text=CHEAT).submission
    decide(again, ActionKind.INVALIDATE, staff)
    assert lines(contest) == HONEST
    decide(again, ActionKind.RESTORE, staff)
    assert lines(contest) == BOTH


def test_a_result_goes_once_what_was_invalidated_is_compiled_to_its_code(contest: Contest, staff: User) -> None:
    Evaluation.objects.filter(submission=winner()).update(object_key="a" * 64)
    again = factories.queued(owner=winner().owner, text="int renamed;", visibility=Visibility.PUBLIC)
    holding = factories.claimed_for_judging()
    decide(again.submission, ActionKind.INVALIDATE, staff)
    assert lines(contest) == BOTH
    moves.evaluation_compiled(holding, 1.0, "a" * 64)
    assert lines(contest) == HONEST


def test_a_result_goes_once_a_report_connects_it_with_what_was_invalidated(contest: Contest, staff: User) -> None:
    again = compiled(factories.judged(factories.passing(9.0), owner=winner().owner, text="int renamed;"), "a" * 64)
    decide(again.submission, ActionKind.INVALIDATE, staff)
    assert lines(contest) == BOTH
    compiled(factories.judged(factories.passing(9.0), owner=winner().owner, text=CHEAT), "a" * 64)
    assert lines(contest) == HONEST


def test_what_staff_have_invalidated_counts_on_when_it_is_deleted(contest: Contest, staff: User) -> None:
    again, other = (
        factories.judged(factories.passing(1.5), owner=winner().owner, text=text).submission
        for text in (CHEAT, "// other\nint z;")
    )
    decide(again, ActionKind.INVALIDATE, staff)
    ownership.visibility_change(Submission.objects.get(pk=again.pk), Visibility.PRIVATE)
    ownership.account_delete(User.objects.get(username="cheat"), keep_submissions=True)
    assert not Submission.objects.filter(pk=again.pk).exists()
    decide(Submission.objects.get(pk=other.pk), ActionKind.HIDE, staff)
    assert lines(contest) == HONEST
    decide(Submission.objects.get(contest_entries__score=9.0), ActionKind.CONFIRM, staff)
    assert [place for _, place in lines(contest)] == [1, 2]


def test_what_staff_invalidate_while_its_owner_deletes_it_is_not_deleted(
    staff: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission, held = factories.judged(factories.passing(9.0)).submission, standings.boards_held

    def wait_for_staff(submissions: QuerySet[Submission]) -> None:
        monkeypatch.undo()
        decide(submission, ActionKind.INVALIDATE, staff)
        held(submissions)

    monkeypatch.setattr(standings, "boards_held", wait_for_staff)
    with pytest.raises(Refused, match="Staff have invalidated"):
        ownership.submission_delete(submission)


def test_a_confirmation_afterwards_shows_the_result_again(contest: Contest, staff: User) -> None:
    again = factories.judged(factories.passing(9.0), owner=winner().owner, text=CHEAT).submission
    decide(again, ActionKind.INVALIDATE, staff)
    decide(winner(), ActionKind.CONFIRM, staff)
    assert lines(contest) == BOTH


def test_staff_show_a_private_result_that_went_with_its_twin(contest: Contest, staff: User, as_staff: Client) -> None:
    """It has no page on which they could confirm it."""
    ownership.visibility_change(winner(), Visibility.PRIVATE)
    again = factories.judged(factories.passing(9.0), owner=winner().owner, text=CHEAT).submission
    decide(again, ActionKind.INVALIDATE, staff)
    assert lines(contest) == HONEST
    assert press(as_staff, winner().contest_entries.get()) == "Take it down"
    assert lines(contest) == BOTH


def test_somebody_else_is_not_taken_down_for_a_copy(contest: Contest, staff: User) -> None:
    copy = factories.judged(factories.passing(9.0), owner=factories.user("eve"), text=CHEAT).submission
    decide(copy, ActionKind.INVALIDATE, staff)
    assert lines(contest) == BOTH
    assert Submission.objects.get(pk=copy.pk).moderation == Moderation.INVALIDATED


def test_an_upgrade_leaves_out_what_was_taken_down_before(contest: Contest) -> None:
    Submission.objects.filter(pk=winner().pk).update(moderation=Moderation.INVALIDATED)
    import_module("benchmarks.migrations.0054_what_staff_have_taken_down").mark(apps, None)
    ownership.account_delete(User.objects.get(username="cheat"), keep_submissions=False)
    assert lines(contest) == HONEST


def test_what_a_process_of_before_an_upgrade_has_decided_counts(contest: Contest, as_staff: Client) -> None:
    """It knows nothing of entries."""
    Submission.objects.filter(pk=winner().pk).update(moderation=Moderation.INVALIDATED)
    assert lines(contest) == HONEST
    entry = winner().contest_entries.get()
    assert f"/moderation/contest-entries/{entry.pk}/" in as_staff.get(contest.get_absolute_url()).content.decode()
    assert press(as_staff, entry) == "Take it down"
    assert lines(contest) == BOTH


def test_what_is_hidden_and_shown_again_leaves_the_results_and_comes_back(contest: Contest, staff: User) -> None:
    decide(winner(), ActionKind.HIDE, staff)
    assert lines(contest) == HONEST
    decide(winner(), ActionKind.RESTORE, staff)
    assert lines(contest) == BOTH
