"""The forms of the pages: a submission, the filter of the task list, a new account.

Uploads are read here: first the size, then the encoding, then the static check of the harness. A form explains what it
refuses and keeps the typed text. Does NOT write: that is `services.submission_create`.
"""

import uuid
from collections.abc import Sequence
from typing import Any

from allauth.account.adapter import get_adapter
from allauth.account.forms import LoginForm, SignupForm
from allauth.socialaccount.forms import SignupForm as SocialSignupForm
from django import forms
from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.forms.utils import ErrorDict

from .accounts import names
from .catalogue.devices import NoDevice, kind_for
from .comments import TEXT_MAX_CHARS
from .harness import LANGUAGES, Flag, Rules, Source, StaticCheck, TaskSpec
from .models import DeviceKind, Team
from .selectors import TASK_ORDERS, WORDS_MAX_CHARS, TaskFilter
from .states import Difficulty, TokenScope, Visibility
from .submissions.checking import Busy, checked
from .submissions.languages import language_of_upload, titles_for
from .templatetags.numbers import size

BYTE_ORDER_MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


def new_token() -> str:
    """Makes a form that is sent twice one submission."""
    return uuid.uuid4().hex


class SubmissionForm(forms.Form):
    """One source for one task. After `is_valid`, `source` is what to submit and `findings` the static remarks."""

    text = forms.CharField(label="Source", required=False, strip=False, widget=forms.Textarea)
    file = forms.FileField(label="Or upload a file", required=False, allow_empty_file=True)
    language = forms.ChoiceField(choices=[(item.name, item.title) for item in LANGUAGES.values()])
    device = forms.ChoiceField(required=False)
    title = forms.CharField(label="Title", required=False, max_length=200)
    visibility = forms.ChoiceField(label="Who can see it", choices=Visibility.choices, required=False)
    team = forms.ChoiceField(label="Made for", required=False)
    client_token = forms.CharField(required=False, max_length=60, initial=new_token, widget=forms.HiddenInput)

    def __init__(
        self,
        task: TaskSpec,
        rules: Rules,
        *args: Any,
        kinds: Sequence[DeviceKind] = (),
        signed_in: bool = False,
        teams: Sequence[Team] = (),
        refusal: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.refusal = refusal
        self.task, self.rules = task, rules
        self.device_kind: DeviceKind | None = None
        self.fields["language"] = forms.ChoiceField(choices=list(titles_for(task).items()))
        self.fields["device"] = forms.ChoiceField(
            required=False,
            choices=[("", "Default for the language"), *((kind.slug, kind.title) for kind in kinds)],
        )
        self.fields["team"] = forms.ChoiceField(
            label="Made for", required=False, choices=[("", "myself"), *((team.name, team.name) for team in teams)]
        )
        self.has_teams = bool(teams)
        self.source: Source | None = None
        self.findings: tuple[Flag, ...] = ()
        choices = Visibility.choices if signed_in else [c for c in Visibility.choices if c[0] != Visibility.PRIVATE]
        self.fields["visibility"] = forms.ChoiceField(
            label="Who can see it", choices=choices, required=False, initial=Visibility.PUBLIC
        )
        for name, field in self.fields.items():
            field.widget.attrs["aria-describedby"] = f"{name}-help {name}-errors"

    def full_clean(self) -> None:
        """Of who may not submit nothing is looked at: the form says why, and keeps what was typed."""
        if self.refusal is None or not self.is_bound:
            return super().full_clean()
        self._errors = ErrorDict()
        self.cleaned_data: dict[str, Any] = {}
        self.add_error(None, self.refusal)
        return None

    def clean_file(self) -> str | None:
        """The text of the uploaded file; a file that is too large is refused by its size, unread."""
        upload: UploadedFile[bytes] | None = self.cleaned_data.get("file")
        if not upload:
            return None
        self._check_size(upload.size or 0, "file")
        text = decoded(upload.read(), "file")
        self.keep_text(text)
        return text

    def clean_text(self) -> str:
        text = str(self.cleaned_data["text"]).replace("\r\n", "\n")
        self._check_size(len(text.encode(errors="surrogatepass")), "source")
        return text

    def clean_visibility(self) -> str:
        return self.cleaned_data["visibility"] or Visibility.PUBLIC

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if self.errors:
            return data
        text = data["file"] if data.get("file") is not None else data["text"]
        self.source = Source(text, self._language(text, data["language"]))
        self._check(self.source)
        return data

    def choose_device(self) -> bool:
        """Sets `device_kind`; False, with an error on the form, where no device can run the language."""
        assert self.source is not None  # noqa: S101 - of a valid form alone
        try:
            self.device_kind = kind_for(self.source.language, self.cleaned_data["device"])
        except NoDevice as error:
            self.add_error("language", str(error))
        return self.device_kind is not None

    def is_cuda(self) -> bool:
        """False, with an error on the form, for what cannot be checked without a GPU."""
        assert self.source is not None  # noqa: S101 - of a valid form alone
        if self.source.language != "cuda":
            self.add_error("language", "Only CUDA C++ can be checked without a GPU. Quick check takes every language.")
        return self.source.language == "cuda"

    def token(self) -> str:
        """The same form with the same source is one submission; edited after a step back in the browser, another.

        A quick check beside the editor is another than what the form submits afterwards.
        """
        given, beside = self.cleaned_data["client_token"], ":q" if "beside" in self.data else ""
        return f"{given}{beside}:{self.source.sha256[:32]}" if given and self.source else ""

    def keep_text(self, text: str) -> None:
        """The uploaded text moves into the editor, so that an error does not lose it: browsers drop the file."""
        self.data = {**{name: self.data[name] for name in self.data}, "text": text}

    def _language(self, text: str, chosen: str) -> str:
        """A file says by its suffix, and in Python by what it defines, what it is written in."""
        upload = self.files.get("file")
        return language_of_upload(upload.name, text, chosen, self.task) if upload and upload.name else chosen

    def _check(self, source: Source) -> None:
        try:
            found: StaticCheck = checked(source, self.task, self.rules)
        except Busy as error:
            self.add_error(None, str(error))
            return
        self.findings = found.flags
        if found.problem:
            self.add_error("text", f"{found.problem[0].upper()}{found.problem[1:]}.")

    def _check_size(self, size_bytes: int, what: str) -> None:
        limit = self.rules.source.max_bytes
        if size_bytes > limit:
            raise ValidationError(f"The {what} has {size(size_bytes)}; the rules take at most {size(limit)}.")


def decoded(content: bytes, what: str) -> str:
    """The text of an upload. Raises ValidationError naming the first byte that cannot be read."""
    if not content.strip():
        raise ValidationError(f"The {what} is empty.")
    mark = BYTE_ORDER_MARKS.get(content[:2])
    if mark:
        raise ValidationError(f"The {what} is written in {mark}; save it as UTF-8.")
    if b"\0" in content:
        place = content.index(b"\0")
        raise ValidationError(f"The {what} is binary (byte {place + 1} is zero); upload the source text.")
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValidationError(
            f"The {what} is not UTF-8: byte {error.start + 1} (0x{content[error.start]:02X}, line {line}) "
            "cannot be read. Save it as UTF-8."
        ) from error


class TaskFilterForm(forms.Form):
    """The filter of the task list, whose state is the URL; what it does not know it ignores."""

    q = forms.CharField(label="Search", required=False, max_length=WORDS_MAX_CHARS, widget=forms.SearchInput)
    family = forms.ChoiceField(required=False)
    direction = forms.ChoiceField(
        required=False, choices=[("", "Both directions"), ("forward", "Forward"), ("backward", "Backward")]
    )
    difficulty = forms.ChoiceField(required=False, choices=[("", "Any difficulty"), *Difficulty.choices])
    state = forms.ChoiceField(
        required=False,
        choices=[
            ("", "Any"),
            ("open", "No verified entry yet"),
            ("slower", "Best entry not faster than PyTorch"),
            ("faster", "Best entry faster than PyTorch"),
        ],
    )
    sort = forms.ChoiceField(required=False, choices=[(key, key) for key in TASK_ORDERS])

    def __init__(self, *args: Any, families: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["family"] = forms.ChoiceField(
            required=False, choices=[("", "All families"), *((name, name) for name in families)]
        )

    def chosen(self) -> TaskFilter:
        self.is_valid()
        data = self.cleaned_data
        return TaskFilter(
            words=data.get("q", ""),
            family=data.get("family", ""),
            direction=data.get("direction", ""),
            state=data.get("state", ""),
            difficulty=data.get("difficulty", ""),
            device=data.get("device", ""),
            sort=data.get("sort") or "name",
        )


class SubmissionChangeForm(forms.Form):
    """What an owner may change of a submission; never its source, which results belong to."""

    title = forms.CharField(label="Title", required=False, max_length=200)
    visibility = forms.ChoiceField(label="Who can see it", choices=Visibility.choices, widget=forms.RadioSelect)


class DeletionForm(forms.Form):
    """A tick, so that nothing is deleted by a slip."""

    sure = forms.BooleanField(
        label="Delete the source and all its results",
        error_messages={"required": "Tick the box to confirm. Deletion cannot be undone."},
    )


class TeamForm(forms.Form):
    """A new team."""

    name = forms.CharField(label="Name of the team", max_length=24, help_text="It is shown on leaderboards.")

    def clean_name(self) -> str:
        name = names.normal(self.cleaned_data["name"])
        problem = names.problem_with(name)
        if problem:
            raise ValidationError(problem)
        if names.is_taken(name):
            raise ValidationError("An account or a team with this name or one that looks the same already exists.")
        return name


class InvitationForm(forms.Form):
    """Who is invited."""

    account = forms.CharField(label="Name of the account", max_length=150)

    def clean_account(self) -> User:
        name = names.normal(self.cleaned_data["account"])
        found = User.objects.filter(username=name).first() if name.isprintable() else None
        if found is None:
            raise ValidationError("There is no account with this name.")
        return found


class CommentForm(forms.Form):
    """A comment on a submission."""

    text = forms.CharField(
        label="Your comment",
        max_length=TEXT_MAX_CHARS,
        widget=forms.Textarea({"rows": 4}),
        help_text="Plain text, for everybody. Addresses of pages become links.",
    )


class AccountDeletionForm(forms.Form):
    """The password again, or the name of an account without one, and what becomes of the submissions."""

    KEEP, DELETE = "keep", "delete"
    submissions = forms.ChoiceField(
        label="Your submissions",
        choices=[
            (KEEP, "are kept without your name; private ones are deleted, those under review become unlisted"),
            (DELETE, "are deleted, with their results"),
        ],
        widget=forms.RadioSelect,
    )
    password = forms.CharField(label="Your password", strip=False, widget=forms.PasswordInput)
    name = forms.CharField(label="Your user name, as a confirmation")

    def __init__(self, *args: Any, user: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user
        del self.fields["name" if user.has_usable_password() else "password"]

    def clean_password(self) -> str:
        password: str = self.cleaned_data["password"]
        if not get_adapter().reauthenticate(self.user, password):
            raise ValidationError("Wrong password. Nothing was deleted.")
        return password

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if name != self.user.get_username():
            raise ValidationError("This is not the name of your account. Nothing was deleted.")
        return name


class TokenForm(forms.Form):
    """What a new API token is for, what it may do and for how long."""

    name = forms.CharField(label="Purpose", max_length=100)
    scope = forms.ChoiceField(label="Scope", choices=TokenScope.choices, initial=TokenScope.SUBMIT)
    days = forms.IntegerField(
        label="Days until it expires",
        required=False,
        min_value=1,
        max_value=3650,
        help_text="Leave empty for a token that does not expire.",
    )


class LogInForm(LoginForm):  # type: ignore[misc]
    """Name and password."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _plain(self)
        if not settings.KBENCH_SENDS_MAIL:
            self.fields["password"].help_text = ""  # a link to the page that sends a new one

    def clean_login(self) -> str:
        return names.normal(super().clean_login())


class SignUpForm(SignupForm):  # type: ignore[misc]
    """A name and a password, and an e-mail address where the site can send e-mail."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _plain(self)
        self.fields["password2"].label = "Password confirmation"


class ProviderSignUpForm(SocialSignupForm):  # type: ignore[misc]
    """The name of an account whose owner logs in with a provider."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _plain(self)

    def _get_signup_fields(self, kwargs: dict[str, Any]) -> Any:
        """allauth asks whether an address is required even where the site asks for none."""
        if "email" not in settings.ACCOUNT_SIGNUP_FIELDS and "email*" not in settings.ACCOUNT_SIGNUP_FIELDS:
            kwargs.pop("email_required", None)
        return super()._get_signup_fields(kwargs)


def _plain(form: forms.Form) -> None:
    """The labels say what belongs in a field, so placeholders go."""
    for field in form.fields.values():
        field.widget.attrs.pop("placeholder", None)
    if "email" in form.fields:
        email = form.fields["email"]
        email.label = "E-mail" if email.required else "E-mail (optional)"
        email.help_text = "Only for a lost password and changes of your account. It is never shown."
