"""Logging in with a provider in a real browser: there and back, a new account, the same one again, and what is refused.

The provider is the OpenID Connect server of the tests, at a host that is another site to the browser. The site asks for
a confirmed e-mail address. What no browser is needed for is in `tests/web/test_providers.py`.
"""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.openid import CLIENT, SECRET, OpenIdServer, openid_server
from tests.stack import Stack

from .conftest import Visitor
from .seeded import demand_fits, grave_violations

pytestmark = pytest.mark.browser
INSTITUTE = "Example Institute"


@pytest.fixture(scope="module")
def provider_of_site() -> Iterator[OpenIdServer]:
    with openid_server() as server:
        server.has_page = True
        yield server


@pytest.fixture(scope="module")
def stack(provider_of_site: OpenIdServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    stack = Stack.prepared(tmp_path_factory.mktemp("stack"), "tests.stack_mail_settings")
    stack.environment |= {
        "KBENCH_OPENID_URL": provider_of_site.url,
        "KBENCH_OPENID_NAME": INSTITUTE,
        "KBENCH_OPENID_CLIENT_ID": CLIENT,
        "KBENCH_OPENID_CLIENT_SECRET": SECRET,
        "KBENCH_MAIL_URL": "smtp://mail.invalid",  # the settings put a folder in its place
        "KBENCH_MAIL_CONFIRMATION": "required",
        "NO_PROXY": "127.0.0.1",
    }
    yield stack.up()
    stack.end()


@pytest.fixture(scope="module")
def site(stack: Stack) -> str:
    return f"http://localhost:{stack.port}"


@pytest.fixture
def provider(provider_of_site: OpenIdServer, monkeypatch: pytest.MonkeyPatch) -> OpenIdServer:
    """What a test sets of it holds for that test alone."""
    for name in ("person", "claims", "answer"):
        monkeypatch.setattr(provider_of_site, name, getattr(provider_of_site, name))
    return provider_of_site


def log_in(page: Page, provider: OpenIdServer, after: str = "/") -> None:
    page.goto(f"/accounts/login/?next={after}")
    page.get_by_role("button", name=f"Log in with {INSTITUTE}").click()
    page.wait_for_url(f"{provider.url}/**")
    page.get_by_role("button", name="Let me in").click()


def demand_out(page: Page) -> None:
    page.goto("/accounts/tokens/")
    page.wait_for_url("**/accounts/login/?next=/accounts/tokens/")


def test_a_new_account_and_the_same_one_again(visitor: Visitor, provider: OpenIdServer) -> None:
    provider.person = {**provider.person, "email": "nora@mail.example", "email_verified": True}
    page = visitor.tab("/accounts/login/")
    demand_fits(page)
    assert grave_violations(page) == []
    log_in(page, provider, after="/accounts/email/")
    name = page.get_by_label("Username")
    expect(name).to_have_value("nora")
    expect(page.get_by_label("E-mail")).to_have_value("nora@mail.example")
    demand_fits(page)
    assert grave_violations(page) == []
    name.fill("admin")
    page.get_by_role("button", name="Sign up").click()
    expect(page.get_by_text("This name is reserved.")).to_be_visible()
    name.fill("nora-of-the-institute")
    page.get_by_role("button", name="Sign up").click()
    page.wait_for_url("**/accounts/email/")
    expect(page.get_by_text("nora@mail.example")).to_contain_text("Verified")
    demand_fits(page)

    page = visitor.tab()
    log_in(page, provider, after="/accounts/connections/")
    page.wait_for_url("**/accounts/connections/")
    expect(page.get_by_role("link", name="nora-of-the-institute")).to_be_visible()
    expect(page.get_by_role("radio")).to_have_count(1)
    demand_fits(page)
    assert visitor.complaints == []


def test_an_address_that_the_provider_has_not_confirmed_is_confirmed_here(
    visitor: Visitor, provider: OpenIdServer, stack: Stack
) -> None:
    provider.person = {"sub": "18", "preferred_username": "otto", "email": "otto@mail.example"}
    page = visitor.tab(java_script_enabled=False)
    log_in(page, provider)
    page.get_by_role("button", name="Sign up").click()
    expect(page.get_by_role("heading", name="Verify Your Email Address")).to_be_visible()
    demand_out(page)
    log_in(page, provider)
    expect(page.get_by_role("heading", name="Verify Your Email Address")).to_be_visible()
    demand_out(page)

    (message,) = [text for text in mails_of(stack) if "To: otto@mail.example" in text]
    page.goto(re.search(r"http\S+", message)[0])
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_text("You have confirmed otto@mail.example.")).to_be_visible()
    log_in(page, provider, after="/tasks/")
    page.wait_for_url("**/tasks/")
    expect(page.get_by_role("link", name="otto")).to_be_visible()
    assert visitor.complaints == []


def mails_of(stack: Stack) -> list[str]:
    return [file.read_text() for file in (stack.folder / "mail").iterdir()]


BAD = [  # what the browser takes back, what the ID token says otherwise, and the words of the page
    ({"error": "access_denied"}, {}, "You cancelled at the provider."),
    ({"error": "server_error"}, {}, f"{INSTITUTE} reported an error."),
    ({"code": "of nobody"}, {}, f"{INSTITUTE} gave no valid answer."),
    ({}, {"aud": "another site"}, f"{INSTITUTE} gave no valid answer."),
    ({"code": "of nobody", "state": "forged"}, {}, "This log-in was begun in another browser"),
]


def test_a_bad_answer_logs_nobody_in_and_the_page_says_why(visitor: Visitor, provider: OpenIdServer) -> None:
    page = visitor.tab()
    for provider.answer, provider.claims, reason in BAD:
        log_in(page, provider)
        expect(page.get_by_role("heading", name="You were not logged in")).to_be_visible()
        expect(page.get_by_text(reason)).to_be_visible()
    demand_fits(page)
    assert grave_violations(page) == []
    page.get_by_role("link", name="Back to the log-in").click()
    expect(page.get_by_role("button", name=f"Log in with {INSTITUTE}")).to_be_visible()
    demand_out(page)
    assert all("401 (Unauthorized)" in complaint for complaint in visitor.complaints), "those pages themselves"
