"""The forms of a contest: its draft by staff, and why it is cancelled.

The field of hidden configurations is written and never shown again, not even to whoever wrote it.
"""

from datetime import UTC
from typing import Any

from django import forms
from django.db.models import QuerySet

from ..catalogue.folders import spec_of
from ..long_choices import LongSelectMultiple
from ..models import Contest, DeviceKind, Task, TaskVersion
from ..states import TaskVersionStatus
from . import sealing
from .running import ContestDraft

RESERVED = ("new",)
_TIME = forms.DateTimeInput({"type": "datetime-local"}, format="%Y-%m-%dT%H:%M")


class WriteOnly(forms.Textarea):
    """A text that is never put into a page."""

    def format_value(self, value: Any) -> str:
        return ""


class ContestForm(forms.Form):
    """A draft; times are UTC."""

    title = forms.CharField(max_length=120)
    slug = forms.SlugField(label="Name in the address", max_length=60)
    rules_text = forms.CharField(label="Rules", max_length=20_000, widget=forms.Textarea({"rows": 10}))
    starts = forms.DateTimeField(label="Start (UTC)", widget=_TIME)
    ends = forms.DateTimeField(label="End (UTC)", widget=_TIME)
    best_n = forms.IntegerField(
        label="Entries judged at the end",
        min_value=1,
        max_value=10,
        initial=3,
        help_text="The number for each participant, task and device kind.",
    )
    tasks = forms.MultipleChoiceField()
    device_kinds = forms.ModelMultipleChoiceField(DeviceKind.objects.usable(), widget=forms.CheckboxSelectMultiple)
    hidden = forms.CharField(
        label="Hidden configurations",
        required=False,
        max_length=20_000,
        widget=WriteOnly({"rows": 6, "autocomplete": "off"}),
        help_text='JSON: <code>{"SUITE/OP/DIRECTION": {"cpu": [{"batch_size": 7}]}}</code>. They are timed in the '
        "final judging and shown only when it begins. This page never shows them.",
    )

    def __init__(self, *args: Any, contest: Contest | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = _active().values_list("task__suite__slug", "task__op", "task__direction")
        paths = sorted("/".join(name) for name in names)
        self.fields["tasks"] = forms.MultipleChoiceField(
            choices=[(path, path) for path in paths], widget=LongSelectMultiple({"size": 8})
        )
        if contest is not None:
            self.initial = _initial(contest)

    def clean_slug(self) -> str:
        slug: str = self.cleaned_data["slug"]
        if slug in RESERVED:
            raise forms.ValidationError("The site uses this name itself. Choose another one.")
        return slug

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if data.get("starts") and data.get("ends") and data["ends"] <= data["starts"]:
            self.add_error("ends", "The end comes after the start.")
        self.versions = _versions(data.get("tasks", []))
        if self.versions and data.get("hidden"):
            try:
                specs = [spec_of(version) for version in self.versions]
                data["hidden"] = sealing.checked(data["hidden"], specs)
            except sealing.BadConfigurations as error:
                self.add_error("hidden", str(error))
        return data

    def draft(self) -> ContestDraft:
        """Of a valid form."""
        data = self.cleaned_data
        return ContestDraft(
            slug=data["slug"],
            title=data["title"],
            rules_text=data["rules_text"],
            starts=data["starts"],
            ends=data["ends"],
            best_n=data["best_n"],
            tasks=[version.task for version in self.versions],
            device_kinds=list(data["device_kinds"]),
            hidden=data["hidden"] or None,
        )


def _active() -> QuerySet[TaskVersion]:
    return TaskVersion.objects.filter(status=TaskVersionStatus.ACTIVE, task__listed=True)


def _versions(paths: list[str]) -> list[TaskVersion]:
    """What is judged now of some tasks, in their order."""
    same_ops = _active().filter(task__op__in=[path.split("/")[1] for path in paths]).select_related("task__suite")
    found = {version.task.path: version for version in same_ops}
    return [found[path] for path in paths if path in found]


def _initial(contest: Contest) -> dict[str, Any]:
    tasks: list[Task] = [row.task for row in contest.tasks.select_related("task__suite")]
    return {
        "title": contest.title,
        "slug": contest.slug,
        "rules_text": contest.rules_text,
        "starts": contest.starts.astimezone(UTC),
        "ends": contest.ends.astimezone(UTC),
        "best_n": contest.best_n,
        "tasks": [task.path for task in tasks],
        "device_kinds": list(contest.device_kinds.values_list("pk", flat=True)),
    }


class CancelForm(forms.Form):
    """Why a contest is cancelled."""

    reason = forms.CharField(label="Public reason", max_length=500)
