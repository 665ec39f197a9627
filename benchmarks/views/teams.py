"""Teams: one's own with open invitations, the page of one, and what its members and owners do there.

Does NOT make submissions: the submit page has a field for the team.
"""

from collections.abc import Callable
from typing import Any

from allauth.core import ratelimit
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from benchmarks import teams
from benchmarks.boards.people import profile_of_team
from benchmarks.forms import InvitationForm, TeamForm
from benchmarks.models import Team, TeamMembership
from benchmarks.services import Refused
from benchmarks.states import MembershipState, TeamRole

from .parts.staff import person
from .people import axis_of


@never_cache
@login_required
def own_teams(request: HttpRequest) -> HttpResponse:
    if request.method == "POST" and not ratelimit.consume(request, action="new_team"):
        refusal: HttpResponse = ratelimit.respond_429(request)  # a name is compared with all others
        return refusal
    form = TeamForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            return redirect(teams.team_create(form.cleaned_data["name"], by=person(request)))
        except Refused as error:
            form.add_error(None, str(error))
    rows = teams.memberships_of(person(request))
    return render(request, "registration/teams.html", {"rows": rows, "form": form})


def team_detail(request: HttpRequest, name: str) -> HttpResponse:
    team, mine = teams.team_named(name, request.user)
    return _page(request, team, mine, InvitationForm())


@require_POST
@login_required
def team_invite(request: HttpRequest, name: str) -> HttpResponse:
    team, mine = _as_owner(request, name)
    form = InvitationForm(request.POST)
    if form.is_valid():
        try:
            teams.invite(team, form.cleaned_data["account"], by=person(request))
        except Refused as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, "The account was invited.")
            return redirect(team)
    return _page(request, team, mine, form)


@require_POST
@login_required
def team_answer(request: HttpRequest, name: str) -> HttpResponse:
    """An invitation is accepted (`accept`) or declined."""
    team, mine = teams.team_named(name, request.user)
    if mine is None or mine.state != MembershipState.INVITED:
        raise Http404("You are not invited to this team.")
    accept = "accept" in request.POST
    done = _done(request, lambda: teams.answer(mine, accept=accept), "You are a member." if accept else "Declined.")
    return redirect(team if accept and done else "teams")


@require_POST
@login_required
def team_member(request: HttpRequest, name: str, account: str) -> HttpResponse:
    """What an owner does with a member or an invitation: `owner`, `member` or `remove`."""
    team, _ = _as_owner(request, name)
    found, by = get_object_or_404(User, username=account if account.isprintable() else ""), person(request)
    wish = request.POST.get("wish", "")
    if wish == "remove":
        _done(request, lambda: teams.remove(team, found, by=by), "The account was removed.")
    elif wish in TeamRole.values:
        _done(request, lambda: teams.role_set(team, found, TeamRole(wish), by=by), "The role was changed.")
    else:
        messages.error(request, "Choose what to do.")
    return redirect("team", name)


@require_POST
@login_required
def team_leave(request: HttpRequest, name: str) -> HttpResponse:
    team, mine = teams.team_named(name, request.user)
    if mine is None or mine.state != MembershipState.MEMBER:
        raise Http404("You are not in this team.")
    left = _done(request, lambda: teams.leave(team, person(request)), f"You have left {team}.")
    return redirect("teams" if left else team)


@require_POST
@login_required
def team_end(request: HttpRequest, name: str) -> HttpResponse:
    """Deletes the team, with its name typed as a confirmation."""
    team, _ = _as_owner(request, name)
    if request.POST.get("name") != team.name:
        messages.error(request, "Type the name of the team to delete it.")
        return redirect(team)
    gone = _done(request, lambda: teams.team_delete(team, by=person(request)), "The team was deleted.")
    return redirect("teams" if gone else team)


def _page(request: HttpRequest, team: Team, mine: TeamMembership | None, form: InvitationForm) -> HttpResponse:
    inside = mine is not None and mine.state == MembershipState.MEMBER
    shown = profile_of_team(team, inside=inside, page=request.GET.get("page", 1))
    context: dict[str, Any] = {
        "team": team,
        "mine": mine,
        "inside": inside,
        "is_public": teams.is_public(team),
        "form": form,
    }
    context |= {"members": teams.members(team) if inside else [], "profile": shown, "axis": axis_of(shown)}
    return render(request, "people/team.html", context)


def _as_owner(request: HttpRequest, name: str) -> tuple[Team, TeamMembership]:
    """Raises Http404 for everybody else."""
    team, mine = teams.team_named(name, request.user)
    if mine is None or mine.role != TeamRole.OWNER:
        raise Http404("You do not own such a team.")
    return team, mine


def _done(request: HttpRequest, move: Callable[[], None], said: str) -> bool:
    try:
        move()
    except Refused as error:
        messages.warning(request, str(error))
        return False
    messages.success(request, said)
    return True
