"""Teams: made, joined by invitation, left and deleted; who reads what was made for one, and contests as a team."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from benchmarks import teams
from benchmarks.accounts import names
from benchmarks.accounts.ownership import account_delete
from benchmarks.accounts.tokens import token_create
from benchmarks.contests import results, running
from benchmarks.models import Contest, ContestParticipant, Evaluation, Notification, Submission, Team, TeamMembership
from benchmarks.moderation import decisions
from benchmarks.services import Refused
from benchmarks.states import ActionKind, ContestState, TeamRole

from . import contests, factories

API = "/api/v1"


@pytest.fixture
def team(owner: Any) -> Team:
    return teams.team_create("rowing", by=owner)


def member(team: Team, name: str) -> Any:
    """An account that was invited and has accepted."""
    account = User.objects.filter(username=name).first() or factories.user(name)
    teams.invite(team, account, by=teams.members(team)[0].account)
    teams.answer(team.memberships.get(account=account), accept=True)
    return account


def client_of(account: Any) -> Client:
    client = Client()
    client.force_login(account)
    return client


def program(name: str) -> str:
    """A program of its own: a comment alone would make the same one."""
    return f'static const char* const author = "{name}";\n{factories.SOURCE}'


def bearer(account: Any) -> Any:
    return {"authorization": f"Bearer {token_create(account, 'test').text}"}


def test_from_making_to_deleting(as_owner: Client, as_stranger: Client, stranger: Any) -> None:
    assert as_owner.post("/accounts/teams/", {"name": "rowing"})["Location"] == "/teams/rowing/"
    assert as_stranger.get("/teams/rowing/").status_code == 404
    assert "There is no account" in as_owner.post("/teams/rowing/invite/", {"account": "nobody"}).content.decode()
    assert as_owner.post("/teams/rowing/invite/", {"account": "stefan"}).status_code == 302
    assert Notification.objects.get(owner=stranger, kind="team").text == "olga invites you to the team rowing."
    assert "invited" in as_stranger.get("/accounts/teams/").content.decode()
    assert "Members" not in as_stranger.get("/teams/rowing/").content.decode()
    assert as_stranger.post("/teams/rowing/answer/", {"accept": "1"})["Location"] == "/teams/rowing/"
    assert "olga" in as_stranger.get("/teams/rowing/").content.decode()

    assert as_stranger.post("/teams/rowing/invite/", {"account": "olga"}).status_code == 404
    assert as_stranger.post("/teams/rowing/members/olga/", {"wish": "remove"}).status_code == 404
    assert as_stranger.post("/teams/rowing/delete/", {"name": "rowing"}).status_code == 404
    as_owner.post("/teams/rowing/members/olga/", {"wish": "member"})
    assert TeamMembership.objects.get(account__username="olga").role == "owner"  # there is no other one
    assert as_owner.post("/teams/rowing/leave/")["Location"] == "/accounts/teams/"
    assert as_owner.get("/teams/rowing/").status_code == 404
    as_stranger.post("/teams/rowing/delete/", {"name": "sailing"})
    as_stranger.post("/teams/rowing/delete/", {"name": "rowing"})
    assert Team.objects.exists(), "a day has to pass after an invitation"
    TeamMembership.objects.update(changed=timezone.now() - timedelta(days=2))
    assert as_stranger.post("/teams/rowing/delete/", {"name": "rowing"})["Location"] == "/accounts/teams/"
    assert not Team.objects.exists()


def test_an_invitation_is_declined_and_not_sent_again_at_once(
    as_owner: Client, as_stranger: Client, owner: Any, stranger: Any, team: Team
) -> None:
    teams.invite(team, stranger, by=owner)
    with pytest.raises(Refused, match="invited already"):
        teams.invite(team, stranger, by=owner)
    as_stranger.post("/teams/rowing/answer/", {})
    assert teams.teams_of(stranger) == []
    assert as_stranger.post("/teams/rowing/answer/", {"accept": "1"}).status_code == 404
    assert "Ask again later" in as_owner.post("/teams/rowing/invite/", {"account": "stefan"}).content.decode()
    TeamMembership.objects.filter(account=stranger).update(changed=timezone.now() - timedelta(days=2))
    teams.invite(team, stranger, by=owner)
    assert Notification.objects.filter(owner=stranger, kind="team").count() == 2


def test_invitations_and_teams_are_limited(owner: Any, stranger: Any, team: Team, monkeypatch: Any) -> None:
    monkeypatch.setattr(teams, "INVITATIONS_PER_DAY", 0)
    with pytest.raises(Refused, match="within a day"):
        teams.invite(team, stranger, by=owner)
    monkeypatch.setattr(teams, "MEMBERS_MAX", 1)
    with pytest.raises(Refused, match="at most 1 members"):
        teams.invite(team, stranger, by=owner)
    monkeypatch.setattr(teams, "OWNED_MAX", 1)
    with pytest.raises(Refused, match="at most 1 team"):
        teams.team_create("sailing", by=owner)


@pytest.mark.parametrize(
    "name", ["r0wing", "ROWING", "olga", "0lga", "admin", "a b", "</script>", "r\u043ewing", "\u202e"]
)
def test_a_name_that_misleads_is_refused(as_owner: Client, team: Team, name: str) -> None:
    assert as_owner.post("/accounts/teams/", {"name": name}).status_code == 200
    assert Team.objects.count() == 1


def test_names_of_teams_are_not_tried_without_end(as_owner: Client, as_stranger: Client, owner: Any) -> None:
    """Each is compared with all names that there are."""
    answers = [as_owner.post("/accounts/teams/", {"name": "olga"}).status_code for _ in range(21)]
    assert answers == [200] * 20 + [429]
    assert as_stranger.post("/accounts/teams/", {"name": "rowing"}).status_code == 302


def test_no_account_takes_the_name_of_a_team(team: Team) -> None:
    assert names.is_taken("R0wing")


@pytest.mark.parametrize("visibility", ["private", "unlisted"])
def test_members_read_what_is_not_public(owner: Any, stranger: Any, team: Team, visibility: str) -> None:
    evaluation = factories.judged(owner=owner, team=team, visibility=visibility, text="// ours\n" + factories.SOURCE)
    inside, code = client_of(member(team, "mia")), evaluation.code
    page = inside.get("/teams/rowing/").content.decode()
    assert f"/evaluations/{code}/" in page
    for path in ("", "source/", "report.json", "live/"):
        assert inside.get(f"/evaluations/{code}/{path}").status_code == 200
    assert inside.post(f"/evaluations/{code}/cancel/").status_code == 302  # and is told that it is not the author
    assert inside.get(f"/submissions/{evaluation.submission.code}/").status_code == 403

    expected = 404 if visibility == "private" else 200
    for outside in (Client(), client_of(stranger)):
        assert outside.get(f"/evaluations/{code}/").status_code == expected
        assert outside.get("/teams/rowing/").status_code == 404


def test_only_members_do_not_invited_or_former_ones(owner: Any, stranger: Any, team: Team) -> None:
    path = f"/evaluations/{factories.judged(owner=owner, team=team, visibility='private').code}/"
    teams.invite(team, stranger, by=owner)
    assert client_of(stranger).get(path).status_code == 404
    teams.answer(team.memberships.get(account=stranger), accept=True)
    assert client_of(stranger).get(path).status_code == 200
    teams.remove(team, stranger, by=owner)
    assert client_of(stranger).get(path).status_code == 404


def test_what_staff_hide_is_hidden_from_the_team(owner: Any, staff: Any, team: Team) -> None:
    evaluation = factories.judged(owner=owner, team=team)
    inside = client_of(member(team, "mia"))
    decisions.decide(evaluation.submission, ActionKind.HIDE, by=staff, reason="It was copied.")
    assert inside.get(f"/evaluations/{evaluation.code}/").status_code == 404
    assert str(evaluation.code) not in inside.get("/teams/rowing/").content.decode()


def test_boards_show_the_team_with_the_person(owner: Any, stranger: Any, team: Team) -> None:
    evaluation = factories.judged(owner=owner, team=team)
    link = '<a href="/teams/rowing/">rowing</a> (<a href="/people/olga/">olga</a>)'
    board = f"/leaderboards/robust-kbench/mnist_linear_relu/forward/{evaluation.device_kind.slug}/"
    for path in (board, f"/evaluations/{evaluation.code}/"):
        assert link in Client().get(path).content.decode()
    page = Client().get("/teams/rowing/").content.decode()
    assert "mnist_linear_relu" in page
    assert "Members" not in page
    rows = Client().get(f"{API}/leaderboards?task=mnist_linear_relu/forward&device=cpu").json()
    assert [row["by"] for row in rows["entries"]] == ["rowing (olga)"]


def test_submitting_for_a_team(as_owner: Client, as_stranger: Client, owner: Any, stranger: Any, team: Team) -> None:
    factories.worker()
    path = "/tasks/robust-kbench/mnist_linear_relu/forward/submit/"
    assert 'name="team"' in as_owner.get(path).content.decode()
    assert 'name="team"' not in as_stranger.get(path).content.decode()
    fields = {"text": factories.SOURCE, "language": "cpp", "visibility": "public", "team": "rowing"}
    assert as_stranger.post(path, fields).status_code == 422
    assert as_owner.post(path, fields).status_code == 302
    assert (Submission.objects.get().team, Submission.objects.get().owner) == (team, owner)

    body = {
        "task": "mnist_linear_relu/forward",
        "language": "cpp",
        "source": factories.SOURCE + "// 2",
        "team": "rowing",
    }

    def post(account: Any) -> Any:
        return Client().post(f"{API}/submissions", body, content_type="application/json", headers=bearer(account))

    assert (post(stranger).status_code, post(stranger).json()["code"]) == (403, "not-a-member")
    assert (post(owner).status_code, Submission.objects.count()) == (202, 2)


def test_the_api_lists_what_a_team_made(owner: Any, stranger: Any, team: Team) -> None:
    factories.judged(owner=owner, team=team, visibility="private", title="not for all")
    path = f"{API}/submissions?team=rowing"
    assert Client().get(path).status_code == 404
    factories.judged(owner=owner, team=team, title="for all", text=factories.SOURCE + "// 2")

    def titles(**options: Any) -> list[str]:
        return [row["title"] for row in Client().get(path, **options).json()["submissions"]]

    assert titles() == titles(headers=bearer(stranger)) == ["for all"]
    assert titles(headers=bearer(member(team, "mia"))) == ["for all", "not for all"]
    assert Client().get(f"{API}/whoami", headers=bearer(owner)).json()["teams"] == ["rowing"]


def test_a_deleted_team_leaves_submissions_to_their_authors(owner: Any, team: Team) -> None:
    evaluation = factories.judged(owner=owner, team=team, visibility="private")
    inside = client_of(member(team, "mia"))
    TeamMembership.objects.update(changed=timezone.now() - timedelta(days=2))
    teams.team_delete(team, by=owner)
    assert client_of(owner).get(f"/evaluations/{evaluation.code}/").status_code == 200
    assert inside.get(f"/evaluations/{evaluation.code}/").status_code == 404


def test_a_deleted_account_leaves_the_team_an_owner(owner: Any, team: Team) -> None:
    mia = member(team, "mia")
    account_delete(owner, keep_submissions=True)
    assert TeamMembership.objects.get(team=team).account == mia
    assert TeamMembership.objects.get(team=team).role == TeamRole.OWNER
    account_delete(mia, keep_submissions=True)
    teams.forget()
    assert not Team.objects.exists()


def test_the_last_owner_leaves_the_team_to_who_has_been_in_it_longest(owner: Any, team: Team) -> None:
    mia, _ = member(team, "mia"), member(team, "noah")
    teams.leave(team, owner)
    roles = dict(team.memberships.values_list("account__username", "role"))
    assert roles == {"olga": "member", "mia": "owner", "noah": "member"}
    for number in range(teams.OWNED_MAX):
        teams.team_create(f"noahs{number}", by=User.objects.get(username="noah"))
    teams.leave(team, mia)
    assert not team.memberships.filter(role=TeamRole.OWNER).exists(), "noah owns as many teams as one may"


def test_a_team_that_nobody_is_in_goes_as_soon_as_it_may(owner: Any, stranger: Any, team: Team) -> None:
    left = teams.team_create("sailing", by=owner)
    teams.leave(left, owner)
    assert not Team.objects.filter(name="sailing").exists()
    teams.invite(team, stranger, by=owner)
    teams.leave(team, owner)
    teams.forget()
    assert Team.objects.get() == team, "a new one could invite the same account again"
    TeamMembership.objects.update(changed=timezone.now() - timedelta(days=2))
    teams.forget()
    assert not Team.objects.exists()


def test_an_empty_team_stays_in_a_contest_for_what_it_has_submitted(owner: Any, team: Team) -> None:
    contest, idle = contests.running_with(), teams.team_create("sailing", by=owner)
    running.join(contest, owner, idle)
    teams.leave(idle, owner)
    assert not Team.objects.filter(name="sailing").exists(), "it would hold a name for nothing"
    running.join(contest, owner, team)
    factories.judged(owner=owner, team=team)
    teams.leave(team, owner)
    teams.forget()
    assert [line.participant for line in results.boards(contest)[0].lines] == ["rowing"]
    Contest.objects.update(state=ContestState.FINISHED)
    teams.forget()
    assert not Team.objects.exists()


def test_who_accepts_an_invitation_to_an_empty_team_owns_it(owner: Any, stranger: Any, team: Team) -> None:
    teams.invite(team, stranger, by=owner)
    teams.leave(team, owner)
    teams.answer(team.memberships.get(account=stranger), accept=True)
    assert teams.teams_of(stranger, owned=True) == [team]


def test_nobody_inherits_a_team_whose_last_member_deletes_the_account(owner: Any, stranger: Any, team: Team) -> None:
    teams.invite(team, stranger, by=owner)
    invitation = team.memberships.get(account=stranger)
    account_delete(owner, keep_submissions=True)
    with pytest.raises(Refused, match="not open any more"):
        teams.answer(invitation, accept=True)
    assert not teams.memberships_of(stranger)


@pytest.mark.parametrize("account", ["%00", "a%00b", "%E2%80%AE"])
def test_what_is_no_name_of_an_account_is_looked_up_nowhere(as_owner: Client, team: Team, account: str) -> None:
    """PostgreSQL takes no text with a NUL."""
    assert as_owner.post(f"/teams/rowing/members/{account}/", {"wish": "remove"}).status_code == 404


# --- contests ------------------------------------------------------------------------------------------------------


def test_a_team_takes_part_as_one(owner: Any, stranger: Any, team: Team) -> None:
    mia = member(team, "mia")
    contest = contests.running_with(stranger, hidden=None)
    running.join(contest, owner, team)
    assert results.takes_part(contest, mia)
    faster = factories.judged(factories.passing(2.0), owner=mia, team=team, text=program("mia"))
    factories.judged(factories.passing(1.5), owner=owner, team=team, text=program("olga"))
    factories.judged(factories.passing(9.0), owner=mia, text=program("for herself"))
    factories.judged(factories.passing(1.2), owner=stranger, text=program("stefan"))
    lines = results.boards(contest)[0].lines
    assert [(line.participant, round(line.score, 1)) for line in lines] == [("rowing", 2.0), ("stefan", 1.2)]
    assert "rowing" in Client().get(contest.get_absolute_url()).content.decode()

    Contest.objects.update(ends=timezone.now())
    running.advance()
    of_team = ContestParticipant.objects.get(team=team).entries.all()
    assert {entry.submission.owner for entry in of_team} == {owner, mia}
    assert Evaluation.objects.filter(contest_entry__in=of_team, submission=faster.submission).exists()
    with pytest.raises(Refused, match="not over"):
        teams.team_delete(team, by=owner)


def test_nobody_takes_part_twice(owner: Any, team: Team) -> None:
    mia = member(team, "mia")
    contest = contests.running_with(mia)
    with pytest.raises(Refused, match="takes part"):
        running.join(contest, owner, team)
    other = contests.running_with(slug="other")
    running.join(other, owner, team)
    running.join(other, owner, team)
    for account in (owner, mia):
        with pytest.raises(Refused, match="takes part"):
            running.join(other, account)
    assert other.participants.count() == 1


def test_who_enters_a_team_later_counts_for_one_participant(owner: Any, stranger: Any, team: Team) -> None:
    """Otherwise one person has as many places on a board as teams."""
    contest = contests.running_with(stranger, hidden=None)
    running.join(contest, owner, team)
    member(team, "stefan")
    factories.judged(factories.passing(1.5), owner=stranger, text=program("alone"))
    factories.judged(factories.passing(3.0), owner=stranger, team=team, text=program("with the team"))
    factories.judged(factories.passing(1.2), owner=owner, team=team, text=program("olga"))
    lines = results.boards(contest)[0].lines
    assert [(line.participant, round(line.score, 1)) for line in lines] == [("stefan", 1.5), ("rowing", 1.2)]


def test_only_owners_enter_a_team(owner: Any, team: Team) -> None:
    contest = contests.running_with()
    inside = client_of(member(team, "mia"))
    inside.post(f"/contests/{contest.slug}/join/", {"team": "rowing"})
    assert not contest.participants.exists()
    answer = Client().post(f"{API}/contests/{contest.slug}/join?team=rowing", headers=bearer(owner))
    assert (answer.status_code, answer.json()["takes_part"]) == (200, True)
    assert contest.participants.get().team == team
