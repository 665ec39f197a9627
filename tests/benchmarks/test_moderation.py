"""What people decide: each decision is logged, moves a column once, and the boards follow."""

import threading

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import connection

from benchmarks.accounts import ownership, tokens
from benchmarks.models import Evaluation, ModerationAction, Standing, Submission
from benchmarks.moderation import decisions, review
from benchmarks.moderation.forms import possible_decisions
from benchmarks.services import Refused
from benchmarks.states import ActionKind, Moderation, State, Switch


@pytest.fixture
def staff(person):
    return person("sam", is_staff=True)


@pytest.fixture
def decide(staff):
    def run(evaluation, kind, reason="Because of what it does.", **options):
        submission = Submission.objects.get(pk=evaluation.submission_id)
        decisions.decide(submission, kind, by=staff, reason=reason, **options)

    return run


def ranks():
    return {row.evaluation.submission.title: row.rank for row in Standing.objects.all()}


def test_an_invalidated_entry_leaves_the_ranking_and_those_below_move_up(judged, person, decide):
    first = judged(text="// one", title="first", owner=person("ann"), speedup=3.0)
    judged(text="// two", title="second", owner=person("bob"), speedup=2.0)
    decide(first, ActionKind.INVALIDATE)
    assert ranks() == {"second": 1}
    decide(first, ActionKind.RESTORE)
    assert ranks() == {"first": 1, "second": 2}


def test_the_score_of_an_invalidated_entry_is_not_touched(judged, decide):
    evaluation = judged(speedup=3.0)
    before = Evaluation.objects.values().get()
    decide(evaluation, ActionKind.INVALIDATE)
    assert Evaluation.objects.values().get() == before


def test_what_the_holder_has_next_best_takes_the_place(judged, person, decide):
    ann = person("ann")
    best = judged(text="// fast", title="fast", owner=ann, speedup=3.0)
    judged(text="// slow", title="slow", owner=ann, speedup=1.5)
    decide(best, ActionKind.HIDE)
    assert ranks() == {"slow": 1}


def test_a_hidden_submission_is_for_owner_and_staff(judged, person, staff, decide):
    ann = person("ann")
    evaluation = judged(owner=ann)
    decide(evaluation, ActionKind.HIDE)
    readers = {"owner": ann, "staff": staff, "stranger": person("bob"), "visitor": AnonymousUser()}
    may = {name: Evaluation.objects.readable_by(user).exists() for name, user in readers.items()}
    assert may == {"owner": True, "staff": True, "stranger": False, "visitor": False}
    assert not Evaluation.objects.listable_for(AnonymousUser()).exists()


def test_staff_do_not_read_what_is_private(judged, person, staff):
    judged(owner=person("ann"), visibility="private")
    assert not Evaluation.objects.readable_by(staff).exists()


def test_an_invalidated_one_stays_readable_with_its_reason(judged, person, decide):
    evaluation = judged(owner=person("ann"))
    decide(evaluation, ActionKind.INVALIDATE, reason="It reads the answer from a file.", note="found by bob")
    assert Evaluation.objects.readable_by(AnonymousUser()).exists()
    board = Board(evaluation)
    assert [row.public_reason for row in review.invalidated_on(board)] == ["It reads the answer from a file."]


class Board:
    def __init__(self, evaluation):
        self.version, self.device, self.ruleset = evaluation.task_version, evaluation.device_kind, evaluation.ruleset


def test_what_is_judged_while_it_is_invalidated_does_not_stand(judged, decide):
    evaluation = judged()
    decide(evaluation, ActionKind.INVALIDATE)
    judged(submission=evaluation.submission, reason="rejudge")
    assert not Standing.objects.exists()


def test_the_same_code_of_somebody_else_stands_on(judged, person, decide):
    first = judged(title="first", owner=person("ann"))
    judged(title="copy", owner=person("bob"))
    decide(first, ActionKind.INVALIDATE)
    assert ranks() == {"copy": 1}


@pytest.mark.parametrize("who", ["ann", "bob", "a new account"])
def test_what_staff_have_invalidated_is_not_ranked_when_it_is_submitted_again(judged, person, decide, who):
    people = {name: person(name) for name in ("ann", "bob")}
    first = judged(title="first", owner=people["ann"], speedup=9.0)
    decide(first, ActionKind.INVALIDATE, reason="It reads the answer from a file.")
    with pytest.raises(Refused, match="invalidated"):
        ownership.submission_delete(Submission.objects.get(pk=first.submission_id))
    if who == "a new account":
        ownership.account_delete(people["ann"], keep_submissions=False)
        people[who] = person("ann")
    again = judged(title="again", owner=people[who], speedup=9.0)
    assert ranks() == {"again": None}
    assert "invalidated" in Standing.objects.get().review_reason
    judged(submission=again.submission, reason="audit")
    assert ranks() == {"again": None}, "staff alone take it back"
    decide(again, ActionKind.CONFIRM)
    assert ranks() == {"again": 1}


def test_a_copy_that_is_invalidated_and_deleted_does_not_touch_the_original(judged, person, decide):
    judged(title="original", owner=person("ann"))
    eve = person("eve")
    decide(judged(title="copy", owner=eve), ActionKind.INVALIDATE, reason="It is a copy.")
    assert ranks() == {"original": 1}
    ownership.account_delete(eve, keep_submissions=False)
    assert ranks() == {"original": 1}


def test_a_second_submission_of_the_same_program_goes_with_the_invalidated_one(judged, person, decide):
    ann = person("ann")
    first = judged(title="first", owner=ann, text="// fast\n")
    judged(title="twin", owner=ann, text="// fast\n", judge_again=True)
    decide(first, ActionKind.INVALIDATE)
    assert ranks() == {"twin": None}
    decide(first, ActionKind.RESTORE)
    assert set(ranks().values()) == {1}


def test_confirming_settles_a_review(judged, person, decide):
    evaluation = judged(owner=person("ann"), gate="faster than memory")
    decide(evaluation, ActionKind.CONFIRM)
    assert Standing.objects.values_list("under_review", "rank").get() == (False, 1)
    decide(evaluation, ActionKind.REOPEN)
    assert Standing.objects.values_list("under_review", "rank").get() == (True, None)


def test_a_settled_question_does_not_come_again(judged, person, decide):
    evaluation = judged(owner=person("ann"), gate="faster than memory")
    decide(evaluation, ActionKind.CONFIRM)
    judged(submission=evaluation.submission, reason="rejudge", gate="faster than memory")
    assert Standing.objects.get().rank == 1


def test_a_refusal_after_the_decision_is_a_new_question(judged, person, decide):
    evaluation = judged(owner=person("ann"), gate="faster than memory")
    decide(evaluation, ActionKind.CONFIRM)
    judged(submission=evaluation.submission, reason="rejudge", verdict="TAMPERING")
    assert Standing.objects.get().under_review


def test_a_confirmed_entry_takes_the_place_of_a_slower_one(judged, person, decide):
    ann = person("ann")
    judged(text="// clean", title="clean", owner=ann, speedup=2.0)
    odd = judged(text="// odd", title="odd", owner=ann, speedup=90.0, gate="too fast")
    decide(odd, ActionKind.CONFIRM)
    assert ranks() == {"odd": 1}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (ActionKind.HIDE, ActionKind.HIDE),
        (ActionKind.INVALIDATE, ActionKind.INVALIDATE),
        (ActionKind.INVALIDATE, ActionKind.CONFIRM),
        (None, ActionKind.RESTORE),
        (None, ActionKind.REOPEN),
        (None, ActionKind.DISMISS),
    ],
)
def test_a_decision_that_leads_nowhere_is_refused_and_not_logged(judged, decide, first, second):
    evaluation = judged()
    if first:
        decide(evaluation, first)
    with pytest.raises(Refused):
        decide(evaluation, second)
    assert ModerationAction.objects.count() == (1 if first else 0)


@pytest.mark.parametrize("order", [(ActionKind.HIDE, ActionKind.INVALIDATE), (ActionKind.INVALIDATE, ActionKind.HIDE)])
def test_what_is_hidden_and_invalidated_is_the_same_in_either_order(judged, decide, order):
    evaluation, states = judged(), [str(Moderation.OK)]
    for kind in (*order, ActionKind.SHOW, ActionKind.RESTORE):
        decide(evaluation, kind, seen=states[-1])
        states.append(decisions.state_of(evaluation.submission))
    assert states[2:] == [decisions.HIDDEN_AND_INVALIDATED, Moderation.INVALIDATED, Moderation.OK]


@pytest.mark.parametrize("kind", [ActionKind.HIDE, ActionKind.INVALIDATE, ActionKind.CONFIRM])
def test_what_is_hidden_and_invalidated_can_only_be_shown(judged, decide, kind):
    evaluation = judged()
    decide(evaluation, ActionKind.HIDE)
    decide(evaluation, ActionKind.INVALIDATE)
    with pytest.raises(Refused):
        decide(evaluation, kind)
    assert possible_decisions(evaluation.submission, reported=False) == [ActionKind.SHOW]
    decide(evaluation, ActionKind.RESTORE)
    assert decisions.state_of(evaluation.submission) == Moderation.INVALIDATED


def test_who_has_not_seen_that_something_hidden_was_invalidated_does_not_show_it(judged, decide):
    evaluation = judged()
    decide(evaluation, ActionKind.HIDE)
    decide(evaluation, ActionKind.INVALIDATE, seen=Moderation.HIDDEN)
    with pytest.raises(Refused, match="in the meantime"):
        decide(evaluation, ActionKind.RESTORE, seen=Moderation.HIDDEN)


def test_who_decides_on_what_has_changed_meanwhile_is_told(judged, decide):
    evaluation = judged()
    decide(evaluation, ActionKind.INVALIDATE, seen=Moderation.OK)
    with pytest.raises(Refused, match="in the meantime"):
        decide(evaluation, ActionKind.HIDE, seen=Moderation.OK)


@pytest.mark.django_db(transaction=True)
def test_of_many_who_decide_at_once_one_succeeds(judged, staff):
    submission, refused, barrier = judged().submission, [], threading.Barrier(4)

    def invalidate():
        barrier.wait()
        try:
            decisions.decide(submission, ActionKind.INVALIDATE, by=staff, reason="Copied.")
        except Refused as error:
            refused.append(str(error))
        finally:
            connection.close()

    threads = [threading.Thread(target=invalidate) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == ["The submission is already invalidated."] * 3
    assert ModerationAction.objects.count() == 1


def test_the_log_cannot_be_changed(judged, decide):
    decide(judged(), ActionKind.INVALIDATE)
    action = ModerationAction.objects.get()
    for change in (action.save, action.delete, ModerationAction.objects.all().delete):
        with pytest.raises(TypeError, match="append-only"):
            change()
    with pytest.raises(TypeError, match="append-only"):
        ModerationAction.objects.update(public_reason="other")


def test_the_log_stays_when_its_target_is_deleted(judged, person, decide):
    evaluation = judged(owner=person("ann"))
    decide(evaluation, ActionKind.INVALIDATE)
    evaluation.submission.delete()
    action = ModerationAction.objects.get()
    assert action.submission is None
    assert action.subject.endswith("mnist_linear_relu/forward")


def test_a_report_waits_until_staff_decide(judged, person, decide):
    evaluation, bob = judged(), person("bob")
    decisions.report(evaluation.submission, by=bob, text="It sleeps.")
    assert [row.private_note for row in review.open_reports()] == ["It sleeps."]
    with pytest.raises(Refused, match="already"):
        decisions.report(evaluation.submission, by=bob, text="It still sleeps.")
    decide(evaluation, ActionKind.DISMISS, reason="Waiting is not forbidden.")
    assert list(review.open_reports()) == []
    decisions.report(evaluation.submission, by=bob, text="Now it does something else.")
    assert len(review.open_reports()) == 1


def test_reports_are_limited(judged, person, monkeypatch):
    monkeypatch.setattr(decisions, "REPORTS_PER_DAY", 1)
    bob = person("bob")
    decisions.report(judged(text="// one").submission, by=bob, text="Odd.")
    with pytest.raises(Refused, match="limit"):
        decisions.report(judged(text="// two").submission, by=bob, text="Odd.")


def test_a_suspended_account_cannot_come_in_and_its_entries_stay(judged, submit, person, staff, client):
    ann = person("ann", password="a long password")
    judged(owner=ann)
    waiting = submit(text="// waits", owner=ann)
    token = tokens.token_create(ann, "mine")
    client.force_login(ann)
    decisions.ban(ann, by=staff, reason="Hundreds of copies.")
    assert tokens.token_find(token.text) is None
    assert not client.login(username="ann", password="a long password")
    assert client.get("/accounts/tokens/").status_code == 302
    waiting.refresh_from_db()
    assert (waiting.state, waiting.reason_text) == (State.CANCELLED, decisions.SUSPENDED)
    assert Standing.objects.count() == 1
    decisions.unban(ann, by=staff, reason="Promised to stop.")
    assert client.login(username="ann", password="a long password")


def test_who_may_be_suspended_by_whom(person, staff):
    other, root = person("kim", is_staff=True), person("root", is_superuser=True)
    for account in (staff, other):
        with pytest.raises(Refused):
            decisions.ban(account, by=staff, reason="No.")
    decisions.ban(other, by=root, reason="Left us.")
    with pytest.raises(Refused, match="already"):
        decisions.ban(other, by=root, reason="Left us.")


def test_a_turned_switch_is_logged(staff):
    decisions.switch_turn(Switch.SIGN_UPS, on=False, message="Too many robots.", by=staff)
    assert ModerationAction.objects.get().public_reason == "Turned off: Too many robots."
    with pytest.raises(Refused, match="already"):
        decisions.switch_turn(Switch.SIGN_UPS, on=False, message="Too many robots.", by=staff)


def test_identical_sources_are_listed_until_they_are_settled(judged, person, decide):
    judged(title="first", owner=person("ann"))
    copy = judged(title="copy", owner=person("bob"))
    judged(text="// else", owner=person("cem"))
    found = review.identical_sources()
    assert [[row.evaluation.submission.title for row in group.standings] for group in found] == [["first", "copy"]]
    decide(copy, ActionKind.CONFIRM, reason="Both are the shipped example.")
    assert list(review.identical_sources()) == []
