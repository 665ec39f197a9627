"""The pages of notifications: unread in the header, marking as read, choosing channels, and the API."""

from typing import Any

import pytest
from allauth.account.models import EmailAddress
from django.test import Client

from benchmarks.accounts.tokens import token_create
from benchmarks.models import Notification
from benchmarks.notifications import choices, telling
from benchmarks.states import CHOSEN_KINDS, Channel, NotificationKind

from .test_second_factor import PASSWORD

LIST, CHOOSE = "/accounts/notifications/", "/accounts/notifications/settings/"
AGAIN = "/accounts/reauthenticate/"
HOOK = "https://hook.example/told"


@pytest.fixture
def as_owner(as_owner: Client) -> Client:
    """Somebody who has just typed the password again."""
    as_owner.post(AGAIN, {"password": PASSWORD})
    return as_owner


@pytest.fixture
def row(owner: Any) -> Notification:
    telling.notify(owner, NotificationKind.VERDICT, "Your kernel: <b>PASS</b>.", "/tasks/")
    return Notification.objects.get()


def _page(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return response.content.decode()


def test_what_is_new_is_counted_on_every_page_until_it_is_read(as_owner: Client, row: Notification) -> None:
    assert "1 new" in _page(as_owner, "/rules/")
    assert "Your kernel: &lt;b&gt;PASS&lt;/b&gt;." in _page(as_owner, LIST)
    as_owner.post(LIST, {"pk": row.pk})
    assert "1 new" not in _page(as_owner, "/rules/")


def test_nobody_marks_anothers_as_read(as_stranger: Client, row: Notification) -> None:
    as_stranger.post(LIST, {"pk": row.pk})
    as_stranger.post(LIST, {"pk": "9" * 40})
    as_stranger.post(LIST)
    row.refresh_from_db()
    assert row.read is None


def test_a_choice_is_saved_and_shown(as_owner: Client, owner: Any) -> None:
    assert _page(as_owner, CHOOSE).count(" checked") == len(CHOSEN_KINDS)  # all of them on the site
    sent = {"site": ["run-ended"], "webhook": ["verdict"], "webhook_url": "https://hook.example/told"}
    assert as_owner.post(CHOOSE, sent).status_code == 302
    choice = choices.choice_of(owner)
    assert (choice.site, choice.mail, choice.webhook) == (["run-ended"], [], ["verdict"])
    page = _page(as_owner, CHOOSE)
    assert page.count(" checked") == 2
    assert choice.webhook_secret in page
    as_owner.post(CHOOSE, {"renew": "1"})
    assert choice.webhook_secret not in _page(as_owner, CHOOSE)


@pytest.mark.parametrize("known", ["", "https://hook.example/before"])
def test_a_session_alone_sends_nothing_elsewhere(owner: Any, known: str) -> None:
    """A webhook outlives a session that was left open; the form is sent on when the password is right."""
    choices.choose(owner, {Channel.WEBHOOK: ["verdict"]} if known else {}, known)
    before, client = choices.choice_of(owner), Client()
    client.force_login(owner)
    form = {"site": ["verdict", "run-ended"], "webhook": ["verdict", "comment"], "webhook_url": HOOK}
    for sent in (form, {"renew": "1"}):
        answer = client.post(CHOOSE, sent)
        assert answer["Location"].startswith(AGAIN)
    choice = choices.choice_of(owner)
    assert (choice.webhook_url, choice.webhook_secret) == (known, before.webhook_secret)
    assert client.post(CHOOSE, {"webhook": ["comment"] if known else [], "webhook_url": known})["Location"] == CHOOSE
    again = client.post(CHOOSE, form)["Location"]
    client.post(again, {"password": PASSWORD})
    choice = choices.choice_of(owner)
    assert (choice.webhook_url, choice.webhook) == (HOOK, ["comment", "verdict"])


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ({"webhook": ["verdict"]}, "Write the address"),
        ({"webhook_url": "https://127.0.0.1/"}, "Only public addresses"),
        ({"webhook_url": "http://hook.example/"}, "https://HOST/PATH"),
    ],
)
def test_a_webhook_is_refused_with_its_reason(as_owner: Client, owner: Any, sent: dict[str, Any], why: str) -> None:
    response = as_owner.post(CHOOSE, sent)
    assert (response.status_code, why in response.content.decode()) == (200, True)
    assert choices.choice_of(owner).webhook_url == ""


def test_without_an_address_nothing_can_be_asked_for_by_e_mail(as_owner: Client, owner: Any, settings: Any) -> None:
    settings.KBENCH_SENDS_MAIL = False
    as_owner.post(CHOOSE, {"mail_kinds": ["verdict"]})
    assert choices.choice_of(owner).mail == []
    assert "sends no e-mails" in _page(as_owner, CHOOSE)
    settings.KBENCH_SENDS_MAIL = True
    address = EmailAddress.objects.create(user=owner, email="olga@example.org")
    assert "need a confirmed address" in _page(as_owner, CHOOSE)
    address.verified = True
    address.save()
    assert "E-mails go to olga@example.org" in _page(as_owner, CHOOSE)
    as_owner.post(CHOOSE, {"mail_kinds": ["verdict"]})
    assert choices.choice_of(owner).mail == ["verdict"]


def test_programs_read_and_mark(owner: Any, visitor: Client, row: Notification) -> None:
    headers = {"authorization": f"Bearer {token_create(owner, 'mine').text}"}
    told = visitor.get("/api/v1/notifications?unread=1", headers=headers).json()
    assert (told["unread"], [line["id"] for line in told["notifications"]]) == (1, [row.pk])
    assert visitor.post(f"/api/v1/notifications/read?id={row.pk}", headers=headers).json() == {"marked": 1}
    assert visitor.get("/api/v1/notifications?unread=1", headers=headers).json()["notifications"] == []
