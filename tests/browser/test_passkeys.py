"""Passkeys in a real browser with a virtual authenticator: added, used alone and as a second factor, refused, removed.

Nothing may be complained about, so the scripts run under the site's content security policy.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from .conftest import Visitor
from .seeded import demand_fits, grave_violations
from .test_owner_journey import PASSWORD, sign_up

pytestmark = pytest.mark.browser
VIRTUAL = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


class Keys:
    """The authenticator of a tab."""

    def __init__(self, page: Page) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("WebAuthn.enable")
        self._id = self._session.send("WebAuthn.addVirtualAuthenticator", {"options": VIRTUAL})["authenticatorId"]

    def count(self) -> int:
        return len(self._session.send("WebAuthn.getCredentials", {"authenticatorId": self._id})["credentials"])

    def forget_person(self) -> None:
        """No finger and no PIN is accepted any more."""
        self._session.send("WebAuthn.setUserVerified", {"authenticatorId": self._id, "isUserVerified": False})


@pytest.fixture
def page(browser: Any, site: str) -> Iterator[Page]:
    """A tab at a host name: browsers have no passkeys for addresses of numbers."""
    someone = Visitor(browser, site.replace("127.0.0.1", "localhost"))
    yield someone.tab()
    for context in someone.contexts:
        context.close()
    assert someone.complaints == []


def ask_to_add(page: Page) -> None:
    """The page is behind the question for the password."""
    page.goto("/accounts/2fa/webauthn/add/")
    page.wait_for_url("**/accounts/reauthenticate/**")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Confirm").click()
    page.wait_for_url("**/accounts/2fa/webauthn/add/")


def add(page: Page, name: str, *, alone: bool) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Passwordless").set_checked(alone)
    page.get_by_role("button", name="Add").click()
    page.wait_for_url("**/accounts/2fa/recovery-codes/")


def log_out(page: Page) -> None:
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("link", name="Log in")).to_be_visible()


def test_a_passkey_from_adding_to_removing(page: Page) -> None:
    keys = Keys(page)
    sign_up(page, "paula")
    ask_to_add(page)
    demand_fits(page)
    add(page, "my laptop", alone=True)
    assert keys.count() == 1
    log_out(page)

    page.goto("/accounts/login/?next=/accounts/tokens/")
    demand_fits(page)
    page.get_by_role("button", name="Log in with a passkey").click()
    page.wait_for_url("**/accounts/tokens/")
    expect(page.get_by_role("link", name="paula")).to_be_visible()

    page.goto("/accounts/2fa/webauthn/")
    expect(page.get_by_role("row").filter(has_text="my laptop")).to_contain_text("passkey")
    demand_fits(page)
    assert grave_violations(page) == []
    page.get_by_role("link", name="Remove").click()
    if "/reauthenticate/" in page.url:
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Confirm").click()
    page.get_by_role("button", name="Remove").click()
    expect(page.get_by_text("There is none.")).to_be_visible()

    log_out(page)
    page.goto("/accounts/login/")
    page.get_by_role("button", name="Log in with a passkey").click()
    expect(page.get_by_text("The passkey was not accepted.")).to_be_visible()


def test_a_security_key_is_asked_for_after_the_password(page: Page) -> None:
    Keys(page)
    sign_up(page, "sven")
    ask_to_add(page)
    add(page, "of steel", alone=False)
    log_out(page)
    page.goto("/accounts/login/")
    page.get_by_label("Username").fill("sven")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in", exact=True).click()
    page.wait_for_url("**/accounts/2fa/authenticate/**")
    demand_fits(page)
    page.goto("/accounts/tokens/")
    expect(page.get_by_role("link", name="sven")).to_have_count(0)  # the password alone opens nothing

    page.goto("/accounts/2fa/authenticate/")
    page.get_by_role("button", name="Use a security key").click()
    expect(page.get_by_role("button", name="Log out")).to_be_visible()


def test_a_passkey_alone_needs_its_owner(page: Page) -> None:
    keys = Keys(page)
    sign_up(page, "petra")
    ask_to_add(page)
    add(page, "lost on the train", alone=True)
    log_out(page)
    keys.forget_person()
    page.goto("/accounts/login/")
    page.get_by_role("button", name="Log in with a passkey").click()
    expect(page.get_by_text("The browser has used no passkey")).to_be_visible()
    expect(page.get_by_role("link", name="Log in")).to_be_visible()
