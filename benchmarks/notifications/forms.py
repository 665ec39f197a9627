"""The form in which an account chooses its notifications: kinds by channels, and the address of its webhook."""

from collections.abc import Iterator
from typing import Any

from django import forms

from ..models import NotificationChoice
from ..states import CHOSEN_KINDS, Channel, NotificationKind
from . import webhooks
from .choices import Kinds

_KINDS = [(kind.value, kind.label) for kind in CHOSEN_KINDS]


def _kinds() -> forms.MultipleChoiceField:
    return forms.MultipleChoiceField(required=False, choices=_KINDS)


class NotificationForm(forms.Form):
    """`mail` is the confirmed address of the account; without one nothing can be asked for by e-mail."""

    site, mail_kinds, webhook = _kinds(), _kinds(), _kinds()
    webhook_url = forms.CharField(
        label="Address of your webhook",
        required=False,
        max_length=webhooks.URL_MAX_CHARS,
        widget=forms.URLInput({"placeholder": "https://"}),
        help_text="Each notification is sent to it as a POST with JSON. It must be public and use HTTPS.",
    )

    def __init__(self, *args: Any, choice: NotificationChoice, mail: str, **kwargs: Any) -> None:
        initial = {"site": choice.site, "mail_kinds": choice.mail, "webhook": choice.webhook}
        super().__init__(*args, **kwargs)
        self.initial = {**initial, "webhook_url": choice.webhook_url}
        self.mail = mail

    def clean_webhook_url(self) -> str:
        url: str = self.cleaned_data["webhook_url"].strip()
        if url:
            try:
                webhooks.checked_url(url)
            except webhooks.NotAllowed as error:
                raise forms.ValidationError(str(error)) from error
        return url

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if data.get("webhook") and "webhook_url" in data and not data["webhook_url"]:
            self.add_error("webhook_url", "Write the address that the chosen notifications are posted to.")
        return data

    def kinds(self) -> Kinds:
        """Of a valid form, by channel."""
        data = self.cleaned_data
        mailed = data["mail_kinds"] if self.mail else []
        return {Channel.SITE: data["site"], Channel.MAIL: mailed, Channel.WEBHOOK: data["webhook"]}

    def table(self) -> Iterator[tuple[NotificationKind, list[tuple[str, Channel, bool, bool]]]]:
        """Each kind with its boxes: the name of the field, the channel, whether it is ticked and usable."""
        fields = {Channel.SITE: "site", Channel.MAIL: "mail_kinds", Channel.WEBHOOK: "webhook"}
        ticked = {channel: self[name].value() or [] for channel, name in fields.items()}
        for kind in CHOSEN_KINDS:
            usable = {Channel.MAIL: bool(self.mail)}
            yield (
                kind,
                [
                    (name, channel, kind.value in ticked[channel], usable.get(channel, True))
                    for channel, name in fields.items()
                ],
            )
