"""The pages of moderation as owner, stranger, visitor and staff see them."""

import re

import pytest
from django.contrib.auth import get_user_model

from benchmarks.harness import Flag
from benchmarks.models import ModerationAction, SiteSwitch, Submission
from benchmarks.moderation import decisions
from benchmarks.states import ActionKind, Moderation, Switch

from . import factories

STAFF_PAGES = ["/moderation/", "/moderation/switches/", "/moderation/rejudge/"]


@pytest.fixture
def evaluation(owner):
    return factories.judged(owner=owner, text="// secret sauce\n" + factories.SOURCE)


@pytest.fixture
def decide(staff):
    def run(evaluation, kind, reason="It skips half of the work."):
        decisions.decide(evaluation.submission, kind, by=staff, reason=reason)

    return run


def decision_of(evaluation, kind, **fields):
    path = f"/moderation/submissions/{evaluation.submission.code}/"
    return path, {"kind": kind, "reason": "It skips half of the work.", "seen": Moderation.OK, **fields}


@pytest.mark.parametrize("path", STAFF_PAGES)
def test_pages_of_staff_are_for_staff(visitor, as_owner, as_staff, path):
    assert visitor.get(path).headers["Location"] == f"/accounts/login/?next={path}"
    assert as_owner.get(path).status_code == 403
    assert as_staff.get(path).status_code == 200


def test_who_may_open_and_decide_about_a_submission(visitor, as_owner, as_stranger, as_staff, evaluation):
    path, fields = decision_of(evaluation, ActionKind.INVALIDATE)
    for client, status in ((visitor, 302), (as_owner, 403), (as_stranger, 403)):
        assert client.get(path).status_code == client.post(path, fields).status_code == status
    assert not ModerationAction.objects.exists()
    assert "secret sauce" in as_staff.get(path).content.decode()
    assert as_staff.post(path, fields).status_code == 302
    assert Submission.objects.get().moderation == Moderation.INVALIDATED


def test_a_private_submission_is_not_for_staff(as_staff, owner):
    private = factories.judged(owner=owner, visibility="private")
    assert as_staff.get(f"/moderation/submissions/{private.submission.code}/").status_code == 404


def test_a_decision_needs_a_public_reason(as_staff, evaluation):
    path, fields = decision_of(evaluation, ActionKind.HIDE, reason=" ")
    assert "This field is required" in as_staff.post(path, fields).content.decode()
    assert Submission.objects.get().moderation == Moderation.OK


def test_a_decision_on_an_old_page_is_refused(as_staff, evaluation, decide):
    decide(evaluation, ActionKind.INVALIDATE)
    path, fields = decision_of(evaluation, ActionKind.HIDE)
    assert "in the meantime" in as_staff.post(path, fields).content.decode()
    assert Submission.objects.get().moderation == Moderation.INVALIDATED


def test_a_hidden_submission_opens_for_owner_and_staff(as_owner, as_stranger, as_staff, evaluation, decide):
    decide(evaluation, ActionKind.HIDE)
    code = evaluation.code
    evaluation_pages = [f"/evaluations/{code}/{part}" for part in ("", "live/", "source/", "report.json")]
    for path in (*evaluation_pages, f"/moderation/report/{code}/"):
        assert as_stranger.get(path).status_code == 404, path
        assert as_owner.get(path).status_code == as_staff.get(path).status_code == 200, path


def test_a_hidden_submission_stays_hidden_when_it_is_invalidated(as_stranger, as_staff, evaluation, decide):
    decide(evaluation, ActionKind.HIDE)
    path, fields = decision_of(evaluation, ActionKind.INVALIDATE, seen=Moderation.HIDDEN)
    assert "it stays hidden" in as_staff.get(path).content.decode()
    assert as_staff.post(path, fields).status_code == 302
    for part in ("", "source/", "report.json"):
        assert as_stranger.get(f"/evaluations/{evaluation.code}/{part}").status_code == 404, part
    page = as_staff.get(path).content.decode()
    assert "Show: everybody can read it again; it stays invalidated" in page
    assert "Invalidate:" not in page


def test_a_hidden_submission_is_found_nowhere(visitor, evaluation, decide):
    decide(evaluation, ActionKind.HIDE)
    code = evaluation.code
    assert visitor.get(f"/evaluations/{code}/badge.svg").status_code == 404
    assert visitor.get(f"/api/v1/evaluations/{code}").status_code == 404
    assert visitor.get(f"/api/v1/submissions/{evaluation.submission.code}").status_code == 404
    assert visitor.get(f"/events/?topics=evaluation:{code}").status_code == 404
    for path in ("/", "/status/", board_of(evaluation), f"/tasks/{'/'.join(factories.TASK)}/", "/moderation/log/"):
        assert str(code) not in visitor.get(path).content.decode(), path


def board_of(evaluation):
    return f"/leaderboards/{'/'.join(factories.TASK)}/cpu-avx2/"


def test_the_owner_reads_why_it_is_hidden(as_owner, evaluation, decide):
    decide(evaluation, ActionKind.HIDE, "Its title insults somebody.")
    assert "Its title insults somebody." in as_owner.get(f"/evaluations/{evaluation.code}/").content.decode()


def test_everybody_reads_why_it_is_invalidated(visitor, evaluation, decide):
    decide(evaluation, ActionKind.INVALIDATE)
    for path in (f"/evaluations/{evaluation.code}/", board_of(evaluation), "/moderation/log/"):
        assert "It skips half of the work." in visitor.get(path).content.decode(), path


def test_a_program_reads_what_staff_made_of_it(visitor, evaluation, decide):
    path = f"/api/v1/submissions/{evaluation.submission.code}"
    assert visitor.get(path).json()["moderation"] == "ok"
    decide(evaluation, ActionKind.INVALIDATE)
    assert visitor.get(path).json()["moderation"] == "invalidated"


@pytest.fixture
def reported(evaluation, staff, stranger):
    decisions.report(evaluation.submission, by=stranger, text="copied from me")
    decisions.decide(evaluation.submission, ActionKind.INVALIDATE, by=staff, reason="A copy.", note="asked twice")
    return evaluation


def test_notes_and_reporters_are_for_staff(visitor, as_owner, as_staff, reported):
    told = [visitor.get("/moderation/log/"), as_owner.get(f"/evaluations/{reported.code}/")]
    for text in (page.content.decode() for page in told):
        assert not [word for word in ("copied from me", "stefan", "asked twice") if word in text]
    page = as_staff.get(f"/moderation/submissions/{reported.submission.code}/").content.decode()
    assert all(word in page for word in ("copied from me", "stefan", "asked twice"))


def test_somebody_with_an_account_reports(visitor, as_stranger, as_staff, evaluation):
    path = f"/moderation/report/{evaluation.code}/"
    assert visitor.get(path).status_code == 302
    assert as_stranger.post(path, {"text": "<b>It cheats</b>"}).status_code == 302
    assert "&lt;b&gt;It cheats&lt;/b&gt;" in as_staff.get("/moderation/").content.decode()
    assert "already" in as_stranger.post(path, {"text": "again"}).content.decode()


def test_the_queue_shows_what_is_held_back_and_why(as_staff, owner):
    factories.judged(factories.passing(gates=(Flag("gate", "faster than memory"),)), owner=owner)
    assert "faster than memory" in as_staff.get("/moderation/").content.decode()


def test_an_account_is_suspended_and_comes_back(as_staff, as_owner, owner):
    path = "/moderation/accounts/olga/"
    assert as_owner.post(path, {"kind": "ban", "reason": "No."}).status_code == 403
    offered = {**as_staff.get(path).context["form"].initial, "reason": "Sold its account."}
    as_staff.post(path, offered)
    assert not get_user_model().objects.get(username="olga").is_active
    assert "Log in" in as_owner.get("/").content.decode()
    assert "already suspended" in as_staff.post(path, offered).content.decode()  # the button pressed twice
    assert not get_user_model().objects.get(username="olga").is_active
    as_staff.post(path, {**as_staff.get(path).context["form"].initial, "reason": "A mistake."})
    assert get_user_model().objects.get(username="olga").is_active
    assert as_staff.get("/moderation/accounts/nobody/").status_code == 404


def test_a_switch_is_turned_with_a_message(as_staff, as_owner, visitor):
    turn = {"key": Switch.SUBMISSIONS, "on": "0", "message": "New disks until noon."}
    assert as_owner.post("/moderation/switches/", turn).status_code == 403
    as_staff.post("/moderation/switches/", turn)
    assert not SiteSwitch.objects.get().on
    assert "New disks until noon." in visitor.get("/").content.decode()
    assert "Turned off: New disks until noon." in visitor.get("/moderation/log/").content.decode()


def test_a_switch_is_not_turned_off_without_a_message(as_staff):
    page = as_staff.post("/moderation/switches/", {"key": Switch.JUDGING, "on": "0", "message": ""})
    assert "Write the public message" in page.content.decode()
    assert not SiteSwitch.objects.exists()


def test_no_accounts_are_made_while_sign_ups_are_off(visitor, staff):
    decisions.switch_turn(Switch.SIGN_UPS, on=False, message="Too many robots.", by=staff)
    fields = {"username": "nina", "password1": "a-rather-long-one", "password2": "a-rather-long-one"}
    page = visitor.post("/accounts/signup/", fields)
    assert "Too many robots." in page.content.decode()
    assert not get_user_model().objects.filter(username="nina").exists()


def test_the_number_of_queries_does_not_grow(as_staff, django_assert_max_num_queries, owner):
    for n in range(12):
        odd = factories.passing(gates=(Flag("gate", "odd"),))
        factories.judged(odd, owner=factories.user(f"u{n}"), text=f"// {n % 6}\n")
    with django_assert_max_num_queries(32):
        as_staff.get("/moderation/")
    with django_assert_max_num_queries(12):
        page = as_staff.get("/moderation/?list=copies").content.decode()
    assert [len(re.findall(rf"\b{name}\b", page)) for name in ("u0", "u6")] == [1, 1]  # not within a token of the form
