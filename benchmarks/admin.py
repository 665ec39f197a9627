"""The admin pages: staff can read the tables, change methods and have evaluations judged again, but not edit scores.

Does NOT offer deletion of submissions or evaluations, because a leaderboard must stay explainable. Does NOT change
switches or suspend accounts: the pages of moderation do, and log it.
"""

from allauth.mfa.models import Authenticator
from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest

from . import services
from .models import (
    ApiToken,
    Evaluation,
    Event,
    Method,
    ModerationAction,
    RejudgeBatch,
    SiteSwitch,
    Standing,
    Submission,
    Task,
    Team,
    Worker,
)
from .states import EvaluationReason, Priority


@admin.register(Method)
class MethodAdmin(admin.ModelAdmin[Method]):
    """Its kind and its slug say who holds its entries on leaderboards, so both stay."""

    list_display = ("slug", "title", "kind", "owner")

    def get_readonly_fields(self, request: HttpRequest, obj: Method | None = None) -> tuple[str, ...]:
        return ("slug", "kind") if obj else ()


@admin.register(Team)
class TeamAdmin(admin.ModelAdmin[Team]):
    """A name that cannot stay is changed here."""

    list_display = ("name", "created")
    search_fields = ("name",)
    fields = ("name",)

    def has_add_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Rows that only the machinery writes, or pages that log what is done."""

    def has_add_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False


@admin.register(Evaluation)
class EvaluationAdmin(ReadOnlyAdmin):
    list_display = ("code", "submission", "device_kind", "state", "verdict", "score", "attempt", "queued")
    list_filter = ("state", "verdict", "device_kind", "reason")
    list_select_related = ("submission", "device_kind")
    search_fields = ("code", "submission__blob__sha256")
    actions = ("judge_again", "audit")

    @admin.action(description="Judge again (samples of the same code are pooled)", permissions=["view"])
    def judge_again(self, request: HttpRequest, queryset: QuerySet[Evaluation]) -> None:
        self._queue(request, queryset, EvaluationReason.REJUDGE, Priority.REJUDGE)

    @admin.action(
        description="Audit: judge again; if it passes, the entry is no longer under review", permissions=["view"]
    )
    def audit(self, request: HttpRequest, queryset: QuerySet[Evaluation]) -> None:
        self._queue(request, queryset, EvaluationReason.AUDIT, Priority.PERSON)

    def _queue(
        self, request: HttpRequest, queryset: QuerySet[Evaluation], reason: EvaluationReason, priority: Priority
    ) -> None:
        chosen = queryset.select_related("submission", "task_version", "device_kind", "ruleset")
        for evaluation in chosen:
            services.evaluation_create(
                evaluation.submission,
                version=evaluation.task_version,
                device_kind=evaluation.device_kind,
                ruleset=evaluation.ruleset,
                reason=reason,
                priority=priority,
                supersedes=evaluation,
            )
        self.message_user(request, f"{len(chosen)} queued.", messages.SUCCESS)


@admin.register(ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    list_display = ("owner", "name", "hint", "scope", "created", "last_used", "expires", "revoked")
    list_select_related = ("owner",)
    exclude = ("digest",)


@admin.register(SiteSwitch)
class SiteSwitchAdmin(ReadOnlyAdmin):
    list_display = ("key", "on", "message", "changed")


@admin.register(ModerationAction)
class ModerationActionAdmin(ReadOnlyAdmin):
    list_display = ("created", "kind", "subject", "actor", "public_reason")
    list_filter = ("kind",)
    list_select_related = ("actor",)


admin.site.unregister(User)


@admin.register(User)
class AccountAdmin(UserAdmin[User]):
    """Suspending is done on the pages of moderation, which log it.

    Nobody's account is deleted here: its boards would not follow (`accounts/ownership.py`).
    """

    readonly_fields = ("is_active",)

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False


admin.site.unregister(Authenticator)


@admin.register(Authenticator)
class SecondFactorAdmin(ReadOnlyAdmin):
    """Staff can delete that of somebody who has lost their device; nobody can read its secret."""

    list_display = ("user", "type", "created_at", "last_used_at")
    exclude = ("data",)

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return admin.ModelAdmin.has_delete_permission(self, request, obj)


admin.site.register([Event, RejudgeBatch, Standing, Submission, Task, Worker], ReadOnlyAdmin)
