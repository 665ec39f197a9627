"""The forms of requests: posting one, accepting an answer, closing it, and what staff decide.

Uploads are read here, as text alone. Does NOT write: that is `asking.py`.
"""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile

from ..importers import FILE_BYTES_MAX
from ..models import DeviceKind, KernelRequest
from ..moderation.forms import ReasonForm
from ..services import Refused
from ..states import ActionKind
from .asking import LICENCE_MAX_CHARS, REASON_MAX_CHARS, TITLE_MAX_CHARS, WORTH_MAX_S, RequestDraft
from .files import FILES_MAX, checked_files, name_of_text


class ManyFiles(forms.FileInput):
    """The browser's choice of several files."""

    allow_multiple_selected = True


class TextFiles(forms.FileField):
    """Several uploaded files, as texts by their names."""

    widget = ManyFiles

    def clean(self, data: Any, initial: Any = None) -> Any:
        uploads: Sequence[UploadedFile[bytes]] = data if isinstance(data, list | tuple) else [data] if data else []
        if len(uploads) > FILES_MAX:
            raise ValidationError(f"A definition has at most {FILES_MAX} files.")
        return dict(map(_read, uploads))


def _read(upload: UploadedFile[bytes]) -> tuple[str, str]:
    name = upload.name or ""
    if (upload.size or 0) > FILE_BYTES_MAX:
        raise ValidationError(f"{name[:80]} has more than {FILE_BYTES_MAX >> 10} KiB.")
    try:
        return name, upload.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValidationError(f"{name[:80]} is not text in UTF-8.") from error


class RequestForm(forms.Form):
    """A request. After `is_valid`, `draft` is what to post."""

    title = forms.CharField(max_length=TITLE_MAX_CHARS, help_text="What is to be computed.")
    reason = forms.CharField(
        label="Why it is wanted", max_length=REASON_MAX_CHARS, widget=forms.Textarea({"rows": 4}),
        help_text="Public, as plain text.",
    )  # fmt: skip
    definition = forms.CharField(
        required=False,
        strip=False,
        max_length=FILE_BYTES_MAX,
        widget=forms.Textarea({"rows": 12, "class": "mono", "spellcheck": "false", "autocomplete": "off"}),
        help_text="A Python file as in KernelBench (<code>Model</code>, <code>get_inputs</code>, "
        "<code>get_init_inputs</code>), or leave it empty and upload files.",
    )
    uploads = TextFiles(
        label="Or upload its files",
        required=False,
        help_text="robust-kbench: <code>func_forward.py</code>, <code>config_forward.json</code>. FlashInfer Trace and "
        "SOL-ExecBench: a definition (<code>.json</code>) and its workloads (<code>.jsonl</code>). GPU MODE: "
        "<code>task.yml</code> and its Python files.",
    )
    licence = forms.CharField(
        label="Licence of the definition", required=False, max_length=LICENCE_MAX_CHARS, help_text="In one line."
    )
    device_kinds = forms.ModelMultipleChoiceField(
        DeviceKind.objects.usable(), label="Device kinds", widget=forms.CheckboxSelectMultiple
    )
    worth_s = forms.IntegerField(
        label="Judging time that you offer, in seconds",
        min_value=0,
        max_value=WORTH_MAX_S,
        initial=0,
        required=False,
        help_text="This time is taken from your quota now. It pays for the judging of other people's accepted answers.",
    )

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        text, files = data.get("definition", ""), data.get("uploads") or {}
        if text.strip():
            if files:
                self.add_error("uploads", "Write the definition or upload files, not both.")
            files = {name_of_text(text): text}
        if "uploads" in data and not self.errors:
            try:
                data["uploads"] = checked_files(files)
            except Refused as error:
                self.add_error("definition", str(error))
        return data

    def draft(self) -> RequestDraft:
        """Of a valid form."""
        data = self.cleaned_data
        return RequestDraft(
            title=data["title"],
            reason=data["reason"],
            files=data["uploads"],
            device_kinds=list(data["device_kinds"]),
            worth_s=data["worth_s"] or 0,
            licence=data["licence"],
        )


class AcceptForm(forms.Form):
    """Which evaluation is the answer."""

    evaluation = forms.UUIDField()


class CloseForm(forms.Form):
    """Why a request is closed."""

    why = forms.CharField(label="Public reason", max_length=500)


class RequestDecisionForm(ReasonForm):
    """What staff can decide about a request."""

    kind = forms.ChoiceField(label="Decision")
    field_order = ("kind", "reason", "note")

    def __init__(self, request: KernelRequest, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        turn = ActionKind.RESTORE if request.is_hidden else ActionKind.HIDE
        titles = {
            ActionKind.HIDE: "Hide: the request and its task; only its owner and staff can read it",
            ActionKind.RESTORE: "Show it and its task again",
        }
        self.fields["kind"] = forms.ChoiceField(label="Decision", choices=[(turn, titles[turn])])
