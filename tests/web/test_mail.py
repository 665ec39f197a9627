"""E-mail addresses of accounts: confirmed, required or unknown to the site, and a password that was lost."""

import itertools
import re
import time
from smtplib import SMTPException
from types import SimpleNamespace
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from allauth.core.internal import ratelimit
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core import mail
from django.test import Client

PASSWORD, NEW = "a-password-nobody-has", "another-one-nobody-has"
ADDRESS = "nora@mail.example"


@pytest.fixture
def without_mail(settings: Any) -> None:
    """A laptop."""
    settings.KBENCH_SENDS_MAIL = False
    settings.ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*", "password2*"]
    settings.ACCOUNT_EMAIL_VERIFICATION = "none"


@pytest.fixture
def required(settings: Any) -> None:
    settings.ACCOUNT_SIGNUP_FIELDS = ["username*", "email*", "password1*", "password2*"]
    settings.ACCOUNT_EMAIL_VERIFICATION = "mandatory"


def sign_up(client: Client, **fields: str) -> Any:
    form = {"username": "nora", "password1": PASSWORD, "password2": PASSWORD, **fields}
    return client.post("/accounts/signup/", form)


def log_in(client: Client, name: str = "nora", password: str = PASSWORD) -> Any:
    return client.post("/accounts/login/", {"login": name, "password": password})


def is_in(client: Client) -> bool:
    return client.get("/accounts/tokens/").status_code == 200


def link_in(message: Any) -> str:
    """The path of the address that the message asks to be opened."""
    found = re.search(rf"{re.escape(settings.KBENCH_SITE_URL)}(/\S+)", message.body)
    assert found, message.body
    return found[1]


def test_a_laptop_asks_for_no_address_and_offers_no_reset(visitor: Client, without_mail: None) -> None:
    assert b"E-mail" not in visitor.get("/accounts/signup/").content
    assert b"reset" not in visitor.get("/accounts/login/").content
    assert sign_up(visitor).status_code == 302
    assert is_in(visitor)
    for path in ("/accounts/email/", "/accounts/password/reset/"):
        page = visitor.post(path, {"email": ADDRESS, "action_add": ""})
        assert b"sends no e-mail" in page.content
    assert not mail.outbox
    assert not EmailAddress.objects.exists()


def test_an_address_is_confirmed_by_a_link(visitor: Client) -> None:
    sign_up(visitor, email=ADDRESS)
    assert is_in(visitor)
    assert not EmailAddress.objects.get().verified
    path = link_in(mail.outbox[0])
    assert ADDRESS.encode() in visitor.get(path).content
    visitor.post(path)
    assert EmailAddress.objects.get().verified


def test_where_an_address_is_required_nobody_comes_in_without(visitor: Client, required: None) -> None:
    assert b"This field is required" in sign_up(visitor).content
    sign_up(visitor, email=ADDRESS)
    assert not is_in(visitor)
    assert log_in(visitor)["Location"] == "/accounts/confirm-email/"
    Client().post(link_in(mail.outbox[0]))
    log_in(visitor)
    assert is_in(visitor)
    visitor.post("/accounts/email/", {"email": ADDRESS, "action_remove": ""})
    assert EmailAddress.objects.exists()


def test_an_older_account_without_an_address_still_comes_in(visitor: Client, owner: Any, required: None) -> None:
    log_in(visitor, "olga", "olga-has-a-long-password")
    assert is_in(visitor)


def test_a_lost_password_is_replaced(visitor: Client) -> None:
    sign_up(visitor, email=ADDRESS)
    mail.outbox.clear()
    elsewhere = Client()
    assert elsewhere.post("/accounts/password/reset/", {"email": ADDRESS}).status_code == 302
    form = elsewhere.get(link_in(mail.outbox[0]), follow=True)
    elsewhere.post(form.request["PATH_INFO"], {"password1": NEW, "password2": NEW})
    assert not is_in(visitor), "other sessions end"
    assert b"not correct" in log_in(visitor).content
    log_in(visitor, password=NEW)
    assert is_in(visitor)


def test_links_lead_to_the_site_whatever_host_a_request_names(visitor: Client, settings: Any) -> None:
    """A link to another host would give the key of a new password to whoever has asked for it."""
    settings.ALLOWED_HOSTS = [".example"]
    there = {"host": "elsewhere.example"}
    Client().post(
        "/accounts/signup/",
        {"username": "nora", "password1": PASSWORD, "password2": PASSWORD, "email": ADDRESS},
        headers=there,
    )
    for address in (ADDRESS, "nobody@mail.example"):
        Client().post("/accounts/password/reset/", {"email": address}, headers=there)
    told = [f"{message.subject} {message.body}" for message in mail.outbox]
    assert len(told) == 3
    assert [text for text in told if "elsewhere" in text] == []
    assert all(f"{settings.KBENCH_SITE_URL}/accounts/" in text for text in told)


def test_asking_does_not_tell_who_has_an_account(visitor: Client) -> None:
    sign_up(visitor, email=ADDRESS)
    answers = [Client().post("/accounts/password/reset/", {"email": email}) for email in (ADDRESS, "x@mail.example")]
    assert {(answer.status_code, answer["Location"]) for answer in answers} == {(302, "/accounts/password/reset/done/")}


def test_asking_is_slowed_down(visitor: Client) -> None:
    codes = [visitor.post("/accounts/password/reset/", {"email": ADDRESS}).status_code for _ in range(6)]
    assert codes == [302] * 5 + [429]


def test_a_mail_server_that_fails_does_not_fail_the_page(visitor: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise SMTPException("no")

    monkeypatch.setattr("django.core.mail.message.EmailMessage.send", refuse)
    assert sign_up(visitor, email=ADDRESS).status_code == 302
    assert b"could not be sent" in visitor.get("/").content
    assert get_user_model().objects.filter(username="nora").exists()


def test_a_password_is_changed_with_the_old_one(as_owner: Client, owner: Any) -> None:
    form = {"oldpassword": "wrong", "password1": NEW, "password2": NEW}
    as_owner.post("/accounts/password/change/", form)
    assert not log_in(Client(), "olga", NEW).has_header("Location")
    as_owner.post("/accounts/password/change/", {**form, "oldpassword": "olga-has-a-long-password"})
    assert log_in(Client(), "olga", NEW)["Location"] == "/"
    assert is_in(as_owner)


def test_an_account_sends_few_messages_a_day_to_addresses_of_others(
    visitor: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever adds and removes addresses chooses who gets a message from this site."""
    sign_up(visitor)
    minutes = itertools.count()
    clock = {"time": lambda: time.time() + 60.0 * next(minutes), "monotonic": time.monotonic, "sleep": time.sleep}
    monkeypatch.setattr(ratelimit, "time", SimpleNamespace(**clock))
    for number in range(60):
        for action in ("action_add", "action_remove"):
            answer = visitor.post("/accounts/email/", {"email": f"victim+{number}@mail.example", action: ""})
            if "reauthenticate" in answer.get("Location", ""):
                visitor.post(answer["Location"], {"password": PASSWORD})
    assert 0 < len(mail.outbox) <= 20
