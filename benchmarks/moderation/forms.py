"""The forms of moderation: a report, a decision with its public reason, a switch, and which entries are judged again.

A form explains what it refuses. Does NOT decide: `decisions.py` and `rejudging.py` do.
"""

from collections.abc import Iterable
from typing import Any

from django import forms

from ..boards import confirmations
from ..harness import Verdict
from ..long_choices import LongSelect
from ..models import Comment, ContestEntry, DeviceKind, Method, RuleSet, Submission, Task
from ..states import ActionKind, Moderation, Switch, TaskVersionStatus
from . import decisions
from .rejudging import Wanted

REASON_MAX_CHARS = 2000
_WHAT_IT_DOES = {
    ActionKind.DISMISS: "No change; close the reports about it",
    ActionKind.CONFIRM: "Confirm: close the review and rank it",
    ActionKind.REOPEN: "Put it under review again",
    ActionKind.INVALIDATE: "Invalidate: remove it from the ranking; it stays readable with the reason",
    ActionKind.HIDE: "Hide: only its author and staff can read it",
    ActionKind.SHOW: "Show: everybody can read it again; it stays invalidated",
    ActionKind.RESTORE: "Restore: show and rank it as before",
}


_STAYS_HIDDEN = "Invalidate: it stays hidden; the same program goes under review, whoever submits it"


def _text(label: str, rows: int, **options: Any) -> forms.CharField:
    return forms.CharField(label=label, max_length=REASON_MAX_CHARS, widget=forms.Textarea({"rows": rows}), **options)


class ReportForm(forms.Form):
    """A report about a submission."""

    text = _text("What is wrong", 6, help_text="Only staff can read this, together with your name.")


class ReasonForm(forms.Form):
    """The public reason and the staff note of a decision."""

    reason = _text("Public reason", 3, help_text="Public; the author can read it, too. Do not name the reporter.")
    note = _text("Note for staff", 2, required=False)


class DecisionForm(ReasonForm):
    """One of the moves that lead on from where a submission is; `seen` is where it was when the page was made."""

    kind = forms.ChoiceField(label="Decision", widget=forms.RadioSelect)
    seen = forms.ChoiceField(choices=decisions.STATES, widget=forms.HiddenInput)
    field_order = ("kind", "reason", "note", "seen")

    def __init__(self, submission: Submission, *args: Any, reported: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["seen"] = state = decisions.state_of(submission)
        kinds = possible_decisions(submission, reported=reported)
        titles = _WHAT_IT_DOES | ({ActionKind.INVALIDATE: _STAYS_HIDDEN} if state == Moderation.HIDDEN else {})
        self.fields["kind"] = forms.ChoiceField(
            label="Decision", widget=forms.RadioSelect, choices=[(kind, titles[kind]) for kind in kinds]
        )


class TurnForm(ReasonForm):
    """One button that does something or undoes it: what it said on the page, whatever others have decided since."""

    kind = forms.ChoiceField(widget=forms.HiddenInput)

    def __init__(self, does: ActionKind, undoes: ActionKind, *args: Any, is_done: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [(kind, kind.label) for kind in (does, undoes)]
        self.fields["kind"] = forms.ChoiceField(choices=choices, widget=forms.HiddenInput)
        self.initial["kind"] = undoes if is_done else does
        self._undoes = undoes

    @property
    def undoes(self) -> bool:
        return bool(self["kind"].value() == self._undoes)


class EntryDecisionForm(TurnForm):
    """About a frozen result; `seen` is where its submission was when the page was made, empty if it was deleted."""

    seen = forms.ChoiceField(choices=decisions.STATES, required=False, widget=forms.HiddenInput)

    def __init__(self, entry: ContestEntry, *args: Any) -> None:
        super().__init__(ActionKind.INVALIDATE, ActionKind.RESTORE, *args, is_done=entry.is_down)
        self.initial["seen"] = decisions.state_of(entry.submission) if entry.submission else ""


class CommentDecisionForm(ReasonForm):
    """What can be decided about a comment."""

    kind = forms.ChoiceField(label="Decision")
    field_order = ("kind", "reason", "note")

    def __init__(self, comment: Comment, *args: Any, reported: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        turn = ActionKind.RESTORE if comment.is_hidden else ActionKind.HIDE
        titles = {
            ActionKind.HIDE: "Hide: only staff can read it; the public reason takes its place",
            ActionKind.RESTORE: "Show it again",
            ActionKind.DISMISS: _WHAT_IT_DOES[ActionKind.DISMISS],
        }
        kinds = [ActionKind.DISMISS, turn] if reported else [turn]
        self.fields["kind"] = forms.ChoiceField(label="Decision", choices=[(kind, titles[kind]) for kind in kinds])


def possible_decisions(submission: Submission, *, reported: bool) -> list[ActionKind]:
    """The possible decisions, from mild to severe."""
    state = decisions.state_of(submission)
    possible = {
        ActionKind.DISMISS: reported,
        ActionKind.CONFIRM: state == Moderation.OK,
        ActionKind.REOPEN: confirmations.of(submission).exists(),
        **{kind: state in move.targets for kind, move in decisions.MOVES.items()},
    }
    return [kind for kind, holds in possible.items() if holds]


class SwitchForm(forms.Form):
    """One switch; the message is what everybody reads while it is turned off, or on for a banner."""

    key = forms.ChoiceField(choices=Switch.choices, widget=forms.HiddenInput)
    on = forms.TypedChoiceField(choices=[("1", "on"), ("0", "off")], coerce=lambda value: value == "1")
    message = forms.CharField(label="Message", required=False, max_length=500)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        told = data.get("on") == (data.get("key") == Switch.BANNER)  # a notice that is on, anything else that is off
        if "on" in data and told and not data.get("message"):
            self.add_error("message", "Write the public message.")
        return data


class RejudgeForm(forms.Form):
    """Which entries are judged again, and under which rules; its state is the URL."""

    scope = forms.ChoiceField(
        label="Entries",
        required=False,
        choices=[
            ("boards", "on boards"),
            ("older", "on leaderboards of older versions of their task"),
            ("timing", "public, timed by an earlier revision of the judge"),
            ("all", "all, ranked or not"),
        ],
    )
    task = forms.ChoiceField(label="Task", required=False, widget=LongSelect)
    device = forms.ChoiceField(label="Device kind", required=False)
    method = forms.ChoiceField(label="Method", required=False)
    judged_under = forms.ChoiceField(label="Judged under", required=False)
    verdict = forms.ChoiceField(label="Verdict", required=False)
    since = forms.DateField(label="Judged since", required=False, widget=forms.DateInput({"type": "date"}))
    until = forms.DateField(label="Judged until", required=False, widget=forms.DateInput({"type": "date"}))
    ruleset = forms.ChoiceField(label="Judge again under", required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        active = Task.objects.filter(listed=True, versions__status=TaskVersionStatus.ACTIVE)
        names = active.order_by("suite__slug", "op", "-direction").values_list("suite__slug", "op", "direction")
        rules = list(RuleSet.objects.values_list("name", flat=True))
        choices: dict[str, Iterable[str]] = {
            "task": ["/".join(name) for name in names],
            "device": DeviceKind.objects.values_list("slug", flat=True),
            "method": Method.objects.values_list("slug", flat=True),
            "judged_under": rules,
            "verdict": [verdict.value for verdict in Verdict],
        }
        for name, values in choices.items():
            self._choose(name, [("", "any"), *((value, value) for value in values)])
        self._choose("ruleset", [(name, name) for name in rules])

    def _choose(self, name: str, choices: list[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - declared above
        field.choices = choices

    def wanted(self) -> Wanted:
        """Of a valid form."""
        data = self.cleaned_data
        return Wanted(
            task=data["task"],
            device=data["device"],
            method=data["method"],
            judged_under=data["judged_under"],
            verdict=data["verdict"],
            since=data["since"],
            until=data["until"],
            on_boards=data["scope"] not in ("all", "timing"),
            older_versions=data["scope"] == "older",
            older_timing=data["scope"] == "timing",
        )


class ConfirmBatchForm(forms.Form):
    """Confirms that the entries shown are the ones meant."""

    reason = _text("Reason for judging again", 3, help_text="Public; shown under “What has changed”.")
    expected = forms.IntegerField(min_value=0, widget=forms.HiddenInput)

    def expect(self, count: int) -> None:
        """What the page shows from now on, after it was sent with another number."""
        self.data = {**{name: self.data[name] for name in self.data}, "expected": str(count)}
