"""Logging in with a provider: a small OpenID Connect server on this machine, and what GitHub is asked for."""

import copy
import html
import http.client
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from allauth.socialaccount.models import SocialAccount, SocialToken
from django.contrib.auth import get_user_model
from django.test import Client

from benchmarks.models import ApiToken, NotificationChoice
from benchmarks.states import Switch
from benchmarks.switches import switch_set
from tests.openid import OpenIdServer, openid_server

ENTRY = "/accounts/oidc/openid/login/"


@pytest.fixture
def provider(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenIdServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    known = copy.deepcopy(settings.SOCIALACCOUNT_PROVIDERS)
    with openid_server() as server:
        known["openid_connect"]["APPS"][0]["settings"]["server_url"] = server.url
        settings.SOCIALACCOUNT_PROVIDERS = known
        yield server


def way_out(page: Any) -> str:
    """Where the page leads that answers the form."""
    assert page.status_code == 200, page.get("Location")
    text = page.content.decode()
    link = re.search(r'<a class="button" href="(http[^"]+)"', text)
    assert link, text
    assert f'content="0;url={link[1]}"' in text, "it leads on without a click, too"
    return html.unescape(link[1])


def come_back(url: str) -> str:
    """Where the provider sends the browser: an address of this site."""
    there = urlsplit(url)
    connection = http.client.HTTPConnection(there.netloc, timeout=10)
    connection.request("GET", f"{there.path}?{there.query}")
    answer = connection.getresponse()
    answer.read()
    connection.close()
    back = urlsplit(answer.headers["Location"])
    assert back.netloc == "testserver"
    return f"{back.path}?{back.query}"


def enter(client: Client, query: str = "") -> Any:
    """Out and back; the answer to the callback."""
    return client.get(come_back(way_out(client.post(f"{ENTRY}{query}"))))


def connect(client: Client) -> Any:
    """The owner connects an account at the provider; the password is asked for before that counts."""
    assert enter(client, "?process=connect")["Location"] == "/accounts/reauthenticate/"
    assert not SocialAccount.objects.exists()
    return client.post("/accounts/reauthenticate/", {"password": "olga-has-a-long-password"})


def is_in(client: Client) -> bool:
    return client.get("/accounts/tokens/").status_code == 200


def test_a_first_visit_makes_an_account_and_the_next_ones_open_it(visitor: Client, provider: OpenIdServer) -> None:
    assert enter(visitor)["Location"] == "/accounts/connections/signup/"
    form = visitor.get("/accounts/connections/signup/").content
    assert b'value="nora"' in form, "the provider's name is suggested"
    assert visitor.post("/accounts/connections/signup/", {"username": "nora"})["Location"] == "/"
    assert is_in(visitor)
    account = get_user_model().objects.get()
    assert (account.username, account.first_name, account.has_usable_password()) == ("nora", "", False)
    assert not SocialToken.objects.exists()
    again = Client()
    assert enter(again, "?next=/tasks/")["Location"] == "/tasks/"
    assert is_in(again)
    assert get_user_model().objects.count() == 1


def test_a_site_without_mail_asks_for_no_address(visitor: Client, provider: OpenIdServer, settings: Any) -> None:
    settings.KBENCH_SENDS_MAIL, settings.ACCOUNT_EMAIL_VERIFICATION = False, "none"
    settings.ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*", "password2*"]
    enter(visitor)
    assert b"E-mail" not in visitor.get("/accounts/connections/signup/").content
    visitor.post("/accounts/connections/signup/", {"username": "nora"})
    assert is_in(visitor)


def test_a_provider_does_not_choose_names(visitor: Client, provider: OpenIdServer, owner: Any) -> None:
    provider.person |= {"preferred_username": "0lga"}
    enter(visitor)
    for name, words in (("0lga", b"looks the same"), ("admin", b"reserved")):
        assert words in visitor.post("/accounts/connections/signup/", {"username": name}).content
    assert get_user_model().objects.count() == 1


def test_an_address_opens_no_account_that_exists(visitor: Client, provider: OpenIdServer, owner: Any) -> None:
    owner.email = "olga@mail.example"
    owner.save()
    provider.person |= {"email": owner.email, "email_verified": True}
    enter(visitor)
    answer = visitor.post("/accounts/connections/signup/", {"username": "mallory", "email": owner.email})
    assert b"account already exists" in answer.content
    assert not is_in(visitor)
    assert not SocialAccount.objects.exists()


def test_an_owner_connects_an_account_and_takes_it_off(as_owner: Client, owner: Any, provider: OpenIdServer) -> None:
    assert connect(as_owner)["Location"] == "/accounts/connections/"
    connected = SocialAccount.objects.get()
    assert connected.user == owner
    again = Client()
    enter(again)
    assert again.get("/accounts/data/").context["user"] == owner
    as_owner.post("/accounts/connections/", {"account": connected.pk})
    assert not SocialAccount.objects.exists()


def test_another_accounts_connection_is_not_taken_off(
    as_owner: Client, as_stranger: Client, provider: OpenIdServer
) -> None:
    connect(as_owner)
    as_stranger.post("/accounts/connections/", {"account": SocialAccount.objects.get().pk})
    assert SocialAccount.objects.exists()


def test_the_answer_for_another_browser_is_refused(visitor: Client, provider: OpenIdServer) -> None:
    """Otherwise a link could log a visitor into the account of whoever made it."""
    callback = come_back(way_out(visitor.post(ENTRY)))
    victim = Client()
    assert b"You were not logged in" in victim.get(callback).content
    assert not is_in(victim)


def test_an_answer_is_taken_once(visitor: Client, provider: OpenIdServer) -> None:
    callback = come_back(way_out(visitor.post(ENTRY)))
    assert visitor.get(callback).status_code == 302
    assert b"You were not logged in" in visitor.get(callback).content


@pytest.mark.parametrize("target", ["https://elsewhere.example/", "//elsewhere.example/", "https:elsewhere.example"])
def test_coming_back_stays_on_this_site(visitor: Client, provider: OpenIdServer, target: str) -> None:
    enter(visitor, f"?next={target}")
    assert visitor.post("/accounts/connections/signup/", {"username": "nora"})["Location"] == "/"
    assert enter(Client(), f"?next={target}")["Location"] == "/"


def test_no_accounts_are_made_through_it_while_sign_ups_are_off(visitor: Client, provider: OpenIdServer) -> None:
    switch_set(Switch.SIGN_UPS, on=False, message="too many robots")
    assert b"too many robots" in enter(visitor).content
    assert not get_user_model().objects.exists()


def test_a_provider_that_does_not_answer_is_named_as_the_cause(visitor: Client) -> None:
    page = visitor.post(ENTRY)
    assert page.status_code == 502
    assert b"You were not logged in" in page.content


def test_the_operator_reads_in_the_log_why_a_log_in_failed(
    visitor: Client, provider: OpenIdServer, caplog: pytest.LogCaptureFixture
) -> None:
    provider.answer = {"error": "server_error"}
    visitor.get(come_back(way_out(visitor.post(ENTRY))))
    told = [record.getMessage() for record in caplog.records if record.name.startswith("benchmarks.accounts")]
    assert len(told) == 1
    assert told[0].startswith("a log-in with ")


def test_the_subject_of_another_issuer_is_somebody_else(
    as_owner: Client, owner: Any, provider: OpenIdServer, settings: Any
) -> None:
    """The operator points the setting at another provider, where the same identifier is another person."""
    connect(as_owner)
    with openid_server() as other:
        settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"][0]["settings"]["server_url"] = other.url
        mallory = Client()
        assert enter(mallory)["Location"] == "/accounts/connections/signup/"
        assert not is_in(mallory)
        mallory.post("/accounts/connections/signup/", {"username": "mallory"})
        assert mallory.get("/accounts/data/").context["user"].username == "mallory"
    assert SocialAccount.objects.get(user=owner).uid == f"{provider.url}#17"


@pytest.mark.parametrize("issuer", ["of the provider", "https://another.example"])
def test_an_identity_without_its_issuer_belongs_to_the_one_of_its_last_log_in(
    owner: Any, provider: OpenIdServer, issuer: str
) -> None:
    told = {"id_token": {"iss": provider.url if issuer == "of the provider" else issuer}}
    SocialAccount.objects.create(user=owner, provider="openid", uid="17", extra_data=told)
    client = Client()
    enter(client)
    assert is_in(client) is (issuer == "of the provider")


def test_the_answers_of_a_provider_are_about_one_person(visitor: Client, provider: OpenIdServer) -> None:
    provider.claims = {"sub": "18"}
    assert b"You were not logged in" in enter(visitor).content
    assert not SocialAccount.objects.exists()


def test_an_owner_whose_provider_reports_an_error_stays_logged_in(as_owner: Client, provider: OpenIdServer) -> None:
    for provider.answer in ({"error": "access_denied"}, {"error": "server_error"}):
        callback = come_back(way_out(as_owner.post(f"{ENTRY}?process=connect")))
        page = as_owner.get(callback, follow=True).content
        assert b"Nothing has changed" in page
        assert b"You were not logged in" not in page
        assert b'href="/accounts/connections/">Back' in page
    assert not SocialAccount.objects.exists()


RISKY = {
    "/accounts/tokens/": {"name": "laptop", "scope": "submit"},
    "/accounts/notifications/settings/": {"webhook": ["verdict"], "webhook_url": "https://hook.example/"},
    "/accounts/2fa/totp/activate/": {"code": "123456"},
    "/accounts/data/": {"submissions": "keep", "name": "nora"},
}


@pytest.mark.parametrize("path", RISKY)
def test_who_has_a_provider_alone_logs_in_there_again_before_a_change(
    visitor: Client, provider: OpenIdServer, settings: Any, path: str
) -> None:
    enter(visitor)
    visitor.post("/accounts/connections/signup/", {"username": "nora"})
    settings.ACCOUNT_REAUTHENTICATION_TIMEOUT = -1  # the log-in is too long ago
    answer = visitor.post(path, RISKY[path])
    assert answer.status_code == 403
    assert get_user_model().objects.exists()
    assert not ApiToken.objects.exists()
    assert not NotificationChoice.objects.exists()
    again = re.search(r'action="(/accounts/oidc/openid/login/\?[^"]+)"', answer.content.decode())
    assert again is not None
    out = way_out(visitor.post(html.unescape(again[1])))
    assert parse_qs(urlsplit(out).query)["prompt"] == ["login"]
    settings.ACCOUNT_REAUTHENTICATION_TIMEOUT = 300
    assert visitor.get(come_back(out))["Location"] == path
    assert visitor.post(path, RISKY[path]).status_code in (200, 302)


def test_a_provider_is_not_asked_of_who_has_a_password(as_owner: Client, provider: OpenIdServer, settings: Any) -> None:
    connect(as_owner)
    settings.ACCOUNT_REAUTHENTICATION_TIMEOUT = -1
    assert as_owner.post("/accounts/tokens/", {"name": "laptop"})["Location"].startswith("/accounts/reauthenticate/")


def test_github_is_asked_for_its_own_page(visitor: Client) -> None:
    there = urlsplit(way_out(visitor.post("/accounts/github/login/")))
    assert f"{there.scheme}://{there.netloc}{there.path}" == "https://github.com/login/oauth/authorize"
    asked = parse_qs(there.query)
    assert asked["client_id"] == ["kbench"]
    assert asked["redirect_uri"] == ["http://testserver/accounts/github/login/callback/"]
    assert asked["state"]


def test_without_the_settings_there_is_nothing(visitor: Client, settings: Any) -> None:
    settings.SOCIALACCOUNT_PROVIDERS = {}
    assert b"Log in with" not in visitor.get("/accounts/login/").content.replace(b"Log in with a passkey", b"")
    for path in (ENTRY, "/accounts/github/login/", "/accounts/github/login/callback/"):
        assert (visitor.get(path).status_code, visitor.post(path).status_code) == (404, 404), path
