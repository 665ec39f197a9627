"""Teams: made by an account, joined by invitation, left and deleted. A submission can be made for a team.

Each submission keeps the account that made it: that one pays with its quota, answers for it and may change it. Members
read what was made for the team, private submissions included. Does NOT show boards (`boards/people.py`) and does NOT
check names (`forms.py`).
"""

from datetime import timedelta

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.http import Http404
from django.utils import timezone

from .models import ContestParticipant, Submission, Team, TeamMembership
from .notifications import telling
from .querysets import User as Reader
from .services import Refused
from .states import ContestState, MembershipState, TeamRole

OWNED_MAX = 5  # teams of one account
MEMBERS_MAX = 30  # of one team, invited ones included
INVITATIONS_PER_DAY = 20  # by one account
INVITED_AGAIN_AFTER = timedelta(days=1)
_NOT_OVER = (ContestState.ANNOUNCED, ContestState.RUNNING, ContestState.JUDGING)
_OPEN = (MembershipState.INVITED, MembershipState.MEMBER)


def team_named(name: str, reader: Reader) -> tuple[Team, TeamMembership | None]:
    """A team and what its reader is in it. Raises Http404 to others while nothing public was made for it."""
    team = Team.objects.filter(name=name).first() if name.isprintable() else None
    if team is not None:
        mine = team.memberships.filter(account=reader.pk, state__in=_OPEN).first() if reader.is_authenticated else None
        if mine is not None or getattr(reader, "is_staff", False) or is_public(team):
            return team, mine
    raise Http404("There is no such team, or it has published nothing.")


def is_public(team: Team) -> bool:
    return bool(Submission.objects.published().filter(team=team).exists())


def members(team: Team) -> list[TeamMembership]:
    """Owners first, then by date; invited ones last."""
    rows = list(team.memberships.filter(state__in=_OPEN).select_related("account").order_by("changed", "pk"))
    return sorted(rows, key=lambda row: (row.state != MembershipState.MEMBER, row.role != TeamRole.OWNER))


def memberships_of(account: User) -> list[TeamMembership]:
    """Its teams and open invitations, by name."""
    rows = account.team_memberships.filter(state__in=_OPEN).select_related("team", "invited_by")
    return list(rows.order_by("team__name"))


def teams_of(account: Reader, *, owned: bool = False) -> list[Team]:
    """What it may submit for; `owned` alone: what it may speak for."""
    if not account.is_authenticated:
        return []
    mine = TeamMembership.objects.filter(account=account.pk, state=MembershipState.MEMBER)
    mine = mine.filter(role=TeamRole.OWNER) if owned else mine
    return list(Team.objects.filter(pk__in=mine.values("team")))


def team_for(account: Reader, name: str, *, owned: bool = False) -> Team | None:
    """The team that a submission or an entry to a contest is made for; None for none. Raises Refused."""
    found = next((team for team in teams_of(account, owned=owned) if team.name == name), None) if name else None
    if name and found is None:
        raise Refused(f"You are not {'an owner' if owned else 'a member'} of a team with this name.")
    return found


def team_create(name: str, *, by: User) -> Team:
    """Raises Refused."""
    with transaction.atomic():
        _refuse_full(by)
        try:
            with transaction.atomic():
                team = Team.objects.create(name=name)
        except IntegrityError as error:
            raise Refused("Another team has this name.") from error
        columns = {"role": TeamRole.OWNER, "state": MembershipState.MEMBER, "changed": timezone.now()}
        TeamMembership.objects.create(team=team, account=by, **columns)
    return team


def invite(team: Team, account: User, *, by: User) -> None:
    """By an owner; the account is told. Raises Refused."""
    now = timezone.now()
    with transaction.atomic():
        _lock(team, by)
        before = team.memberships.filter(account=account).first()
        if before is not None and before.state in _OPEN:
            raise Refused(f"{account.get_username()} belongs to the team or is invited already.")
        if before is not None and before.changed > now - INVITED_AGAIN_AFTER:
            raise Refused(f"{account.get_username()} was in the team or invited a day ago or less. Ask again later.")
        if not account.is_active:
            raise Refused("This account is suspended.")
        if team.memberships.filter(state__in=_OPEN).count() >= MEMBERS_MAX:
            raise Refused(f"A team has at most {MEMBERS_MAX} members, invited ones included.")
        recent = TeamMembership.objects.filter(invited_by=by, changed__gt=now - timedelta(days=1))
        if recent.count() >= INVITATIONS_PER_DAY:
            raise Refused(f"That is {INVITATIONS_PER_DAY} invitations within a day, which is the limit.")
        columns = {"state": MembershipState.INVITED, "role": TeamRole.MEMBER, "invited_by": by, "changed": now}
        row, _ = TeamMembership.objects.update_or_create(team=team, account=account, defaults=columns)
        telling.invited(row)


def answer(membership: TeamMembership, *, accept: bool) -> None:
    """By the invited. Raises Refused where the invitation is no longer open."""
    state = MembershipState.MEMBER if accept else MembershipState.ENDED
    with transaction.atomic():
        _hold(membership.team)
        held = TeamMembership.objects.filter(pk=membership.pk, state=MembershipState.INVITED)
        if not held.update(state=state, changed=timezone.now()):
            raise Refused("This invitation is not open any more.")
        _settle(membership.team)


def _may_own_more(account: User) -> bool:
    """The account is held until the transaction ends."""
    User.objects.select_for_update(no_key=True).get(pk=account.pk)
    return len(teams_of(account, owned=True)) < OWNED_MAX


def _refuse_full(account: User) -> None:
    if not _may_own_more(account):
        raise Refused(f"An account owns at most {OWNED_MAX} teams, and {account.get_username()} owns as many.")


def role_set(team: Team, account: User, role: TeamRole, *, by: User) -> None:
    """By an owner. Raises Refused where nobody would own the team, or somebody too many teams."""
    with transaction.atomic():
        _lock(team, by)
        if role == TeamRole.OWNER and team not in teams_of(account, owned=True):
            _refuse_full(account)
        held = team.memberships.filter(account=account, state=MembershipState.MEMBER)
        if role != TeamRole.OWNER:
            _refuse_ownerless(team, account)
        if not held.update(role=role):
            raise Refused(f"{account.get_username()} is not a member of the team.")


def remove(team: Team, account: User, *, by: User) -> None:
    """By an owner: a member, or an invitation. What the member made for the team stays. Raises Refused."""
    with transaction.atomic():
        _lock(team, by)
        _refuse_ownerless(team, account)
        _end(team, account)


def leave(team: Team, account: User) -> None:
    """Whoever is in it may at any time, so nobody is bound to a team. What the member made for it stays.

    Raises Refused for who is not in it.
    """
    with transaction.atomic():
        _hold(team)
        _end(team, account)
        _settle(team)


def team_delete(team: Team, *, by: User) -> None:
    """By an owner. Its submissions stay their authors', without the team. Raises Refused where it has to stay."""
    with transaction.atomic():
        _lock(team, by)
        if why := _why_it_stays(team):
            raise Refused(why)
        _delete(team)


def _delete(team: Team) -> None:
    """Its submissions by their keys: each has another owner, who may change several at once."""
    Submission.objects.filter(team=team).hold()
    team.delete()


def _why_it_stays(team: Team) -> str:
    """Empty if it may go.

    In a contest its submissions would count for their authors from then on. Within a day of an invitation a new team
    could ask the same people.
    """
    takes_part = ContestParticipant.objects.filter(team=team, contest__state__in=_NOT_OVER).exists()
    if takes_part and Submission.objects.filter(team=team).exists():
        return "The team takes part in a contest that is not over."
    lately = timezone.now() - INVITED_AGAIN_AFTER
    if team.memberships.filter(invited_by__isnull=False, changed__gt=lately).exists():
        return "Somebody was invited, or answered or left, within the last day. Delete the team later."
    return ""


def account_ends(account: User) -> None:
    """Before an account is deleted: its teams get another owner. `forget` deletes those that nobody is in.

    Until then nobody enters them: they are not left to who happens to be invited. A team takes the submissions of
    others with it, which are locked after boards that the account needs.
    """
    for team in sorted(teams_of(account), key=lambda team: team.pk):
        _hold(team)
        team.memberships.filter(account=account).delete()
        if team.memberships.filter(state=MembershipState.MEMBER).exists():
            _give_owner(team)
        else:
            invited = team.memberships.filter(state=MembershipState.INVITED)
            invited.update(state=MembershipState.ENDED, changed=timezone.now())


def forget() -> None:
    """Deletes teams that nobody is in and that had to stay until now."""
    for team in Team.objects.exclude(memberships__state=MembershipState.MEMBER):
        with transaction.atomic():
            _hold(team)
            _settle(team)


def _settle(team: Team) -> None:
    """Where nobody is left, it goes; otherwise it has an owner."""
    if team.memberships.filter(state=MembershipState.MEMBER).exists():
        _give_owner(team)
    elif not _why_it_stays(team):
        _delete(team)


def _give_owner(team: Team) -> None:
    """Where it has none, the oldest member that may own one more becomes one. While none may, it has no owner."""
    inside = team.memberships.filter(state=MembershipState.MEMBER).order_by("changed", "pk")
    if not _owners(team).exists():
        heir = next((row for row in inside.select_related("account") if _may_own_more(row.account)), None)
        if heir is not None:
            inside.filter(pk=heir.pk).update(role=TeamRole.OWNER)


def _hold(team: Team) -> None:
    """In a transaction: nobody else changes the team meanwhile, while submissions may be made for it."""
    Team.objects.select_for_update(no_key=True).filter(pk=team.pk).first()


def _lock(team: Team, by: User) -> None:
    """As `_hold`. Raises Refused unless `by` is one of its owners."""
    _hold(team)
    if not _owners(team).filter(account=by).exists():
        raise Refused("Only an owner of the team can do this.")


def _owners(team: Team) -> QuerySet[TeamMembership]:
    return team.memberships.filter(state=MembershipState.MEMBER, role=TeamRole.OWNER)


def _refuse_ownerless(team: Team, account: User) -> None:
    if not _owners(team).exclude(account=account).exists():
        raise Refused("A team needs an owner: make another member an owner first, or delete the team.")


def _end(team: Team, account: User) -> None:
    held = team.memberships.filter(account=account, state__in=_OPEN)
    if not held.update(state=MembershipState.ENDED, role=TeamRole.MEMBER, changed=timezone.now()):
        raise Refused(f"{account.get_username()} does not belong to the team.")
