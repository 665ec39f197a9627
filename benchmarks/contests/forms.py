"""The forms of a contest: its draft by staff, and why it is cancelled.

The field of hidden configurations is written and never shown again, not even to whoever wrote it.
"""

from datetime import UTC
from typing import Any

from django import forms

from ..catalogue.folders import spec_of
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
        help_text="Of each participant, on each task and device kind.",
    )
    tasks = forms.MultipleChoiceField(widget=forms.SelectMultiple({"size": 8}))
    device_kinds = forms.ModelMultipleChoiceField(DeviceKind.objects.usable(), widget=forms.CheckboxSelectMultiple)
    hidden = forms.CharField(
        label="Hidden configurations",
        required=False,
        max_length=20_000,
        widget=WriteOnly({"rows": 6, "autocomplete": "off"}),
        help_text='JSON: <code>{"SUITE/OP/DIRECTION": {"cpu": [{"batch_size": 7}]}}</code>. They are timed in the '
        "final judging and shown when it begins, not before, and never on this page.",
    )

    def __init__(self, *args: Any, contest: Contest | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        active = TaskVersion.objects.filter(status=TaskVersionStatus.ACTIVE, task__listed=True)
        rows = active.select_related("task__suite").defer("definition", "reference_source")
        self.versions = {row.task.path: row for row in sorted(rows, key=lambda row: row.task.path)}
        self.fields["tasks"] = forms.MultipleChoiceField(
            choices=[(path, path) for path in self.versions], widget=forms.SelectMultiple({"size": 8})
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
        if data.get("tasks") and data.get("hidden"):
            try:
                specs = [spec_of(self.versions[path]) for path in data["tasks"]]
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
            tasks=[self.versions[path].task for path in data["tasks"]],
            device_kinds=list(data["device_kinds"]),
            hidden=data["hidden"] or None,
        )


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
