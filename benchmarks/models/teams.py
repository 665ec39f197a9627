"""Teams of accounts: who belongs to them, who is invited.

Moves between the states of a membership are in `benchmarks/teams.py`. Does NOT hold what a team has submitted: a
submission names its team.
"""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.urls import reverse

from ..states import MembershipState, TeamRole


class Team(models.Model):
    """A name under which several accounts submit."""

    name = models.CharField(max_length=24, unique=True)
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("team", args=[self.name])


class TeamMembership(models.Model):
    """An account in a team, or invited to it. An ended one stays, so that nobody is invited again and again."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    account = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="team_memberships")
    role = models.CharField(max_length=10, choices=TeamRole, default=TeamRole.MEMBER)
    state = models.CharField(max_length=10, choices=MembershipState)
    invited_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    changed = models.DateTimeField()  # of its state

    class Meta:
        ordering: ClassVar = ["pk"]
        indexes: ClassVar = [models.Index(fields=["account", "state"], name="membership_of_account")]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["team", "account"], name="membership_once"),
            models.CheckConstraint(
                condition=Q(state=MembershipState.MEMBER) | Q(role=TeamRole.MEMBER), name="membership_owner_is_member"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.account_id} in {self.team_id}: {self.state}"
