"""What an account sees and does about itself: quota and ledger, its data, leaving; and counters at the door."""

import io
import json
import re
import zipfile
from datetime import timedelta
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session
from django.http import HttpRequest
from django.test import AsyncClient, Client
from django.utils import timezone

from agents.models import Run
from benchmarks import jobs, quotas
from benchmarks.accounts import limits, tokens
from benchmarks.accounts.limits import address_of
from benchmarks.models import CachedValue, Evaluation, LedgerEntry, Method, Submission
from benchmarks.states import MethodKind, Switch
from benchmarks.switches import switch_set
from tests.agents import factories as runs

from . import factories

LOG_IN, QUOTA, DATA, ARCHIVE = "/accounts/login/", "/accounts/quota/", "/accounts/data/", "/accounts/data/archive.zip"
PASSWORD = "olga-has-a-long-password"


def request_from(address: str, forwarded: str = "") -> HttpRequest:
    request = HttpRequest()
    request.META = {"REMOTE_ADDR": address, **({"HTTP_X_FORWARDED_FOR": forwarded} if forwarded else {})}
    return request


def log_in(client: Client, name: str = "olga", **fields: str) -> Any:
    return client.post(LOG_IN, {"login": name, "password": "wrong", **fields})


# --- the door ------------------------------------------------------------------------------------------------------


BY_NAME, BY_ADDRESS, SIGN_UPS = 10, 40, 20


def test_guessing_a_password_is_slowed_down_by_name(visitor: Client, owner: Any) -> None:
    for number in range(BY_NAME):
        assert b"not correct" in log_in(visitor, name=("olga", "OLGA")[number % 2]).content
    assert b"Too many failed attempts" in log_in(visitor, password=PASSWORD).content
    assert b"not correct" in log_in(visitor, name="somebody else").content


def test_guessing_names_is_slowed_down_by_address(visitor: Client) -> None:
    for number in range(BY_ADDRESS):
        assert log_in(visitor, name=f"name{number}").status_code == 200
    refused = log_in(visitor, name="another")
    assert refused.status_code == 429
    assert b"Too many attempts" in refused.content


def test_who_gets_in_does_not_use_up_attempts(owner: Any) -> None:
    for _ in range(BY_NAME + 1):
        assert log_in(Client(), password=PASSWORD).status_code == 302


def test_the_door_of_the_admin_is_the_same_door(visitor: Client, as_stranger: Client) -> None:
    assert visitor.get("/admin/login/?next=/admin/")["Location"] == "/accounts/login/?next=%2Fadmin%2F"
    assert as_stranger.get("/admin/login/").status_code == 403


def test_the_admin_takes_no_password(as_staff: Client, staff: Any, owner: Any) -> None:
    """Staff who guess there would have no limit, and would need no second factor of the other account."""
    get_user_model().objects.filter(pk=owner.pk).update(is_staff=True, is_superuser=True)
    sent = {"username": "olga", "password": PASSWORD}
    assert as_staff.post("/admin/login/?next=/tasks/", sent)["Location"] == "/tasks/"
    assert as_staff.post("/admin/login/?next=https://elsewhere.example/", sent)["Location"] == "/admin/"
    assert as_staff.get("/accounts/data/").context["user"] == staff


def test_the_admin_shows_no_secret_of_a_second_factor(as_staff: Client, owner: Any) -> None:
    get_user_model().objects.filter(username="sam").update(is_superuser=True)
    factor = Authenticator.objects.create(user=owner, type="totp", data={"secret": "JBSWY3DPEHPK3PXP"})
    page = f"/admin/mfa/authenticator/{factor.pk}/"
    shown = [as_staff.get(f"{page}{part}/") for part in ("change", "delete", "history")]
    assert [answer.status_code for answer in shown] == [200, 200, 200]
    assert not any(b"JBSWY3DPEHPK3PXP" in answer.content for answer in shown)
    assert as_staff.get("/admin/mfa/authenticator/add/").status_code == 403
    as_staff.post(f"{page}delete/", {"post": "yes"})  # for who has lost the device
    assert not Authenticator.objects.exists()


def test_the_admin_deletes_no_account(as_staff: Client, owner: Any) -> None:
    """It would leave the account's entries to a holder who is nobody, beside those of a later judging."""
    get_user_model().objects.filter(username="sam").update(is_superuser=True)
    page = f"/admin/auth/user/{owner.pk}/"
    assert [as_staff.get(f"{page}{part}/").status_code for part in ("change", "delete")] == [200, 403]
    as_staff.post("/admin/auth/user/", {"action": "delete_selected", "_selected_action": owner.pk, "post": "yes"})
    assert get_user_model().objects.filter(pk=owner.pk).exists()


def test_the_admin_does_not_change_who_holds_the_entries_of_a_method(as_staff: Client) -> None:
    """The rows that are on leaderboards would stay, and the next judging would add another of the same holder."""
    get_user_model().objects.filter(username="sam").update(is_superuser=True)
    method = Method.objects.create(slug="by-hand", title="By hand", kind=MethodKind.HUMAN)
    page = f"/admin/benchmarks/method/{method.pk}/change/"
    assert as_staff.post(page, {"slug": "other", "title": "Otherwise", "kind": MethodKind.AGENT}).status_code == 302
    method.refresh_from_db()
    assert (method.slug, method.title, method.kind) == ("by-hand", "Otherwise", MethodKind.HUMAN)


def test_sessions_that_have_ended_are_deleted(as_stranger: Client, as_owner: Client) -> None:
    """Everybody makes them, without an account, too: rows of them must not stay for ever."""
    ended = Session.objects.filter(pk=as_stranger.session.session_key)
    ended.update(expire_date=timezone.now() - timedelta(minutes=1))
    jobs.prune_events.apply().get()
    assert [row.pk for row in Session.objects.all()] == [as_owner.session.session_key]


def test_staff_reach_the_admin_through_it(visitor: Client, owner: Any) -> None:
    get_user_model().objects.update(is_staff=True, is_superuser=True)
    assert log_in(visitor, password=PASSWORD, next="/admin/")["Location"] == "/admin/"
    assert visitor.get("/admin/").status_code == 200


def test_making_accounts_in_bulk_is_slowed_down(visitor: Client) -> None:
    fields = {"password1": PASSWORD, "password2": PASSWORD}
    codes = [
        Client().post("/accounts/signup/", {"username": f"user{number}", **fields}).status_code
        for number in range(SIGN_UPS + 1)
    ]
    assert codes == [302] * SIGN_UPS + [429]


def test_no_accounts_are_made_while_staff_have_turned_it_off(visitor: Client) -> None:
    switch_set(Switch.SIGN_UPS, on=False, message="too many robots")
    assert b"too many robots" in visitor.get("/accounts/signup/").content
    fields = {"username": "nora", "password1": PASSWORD, "password2": PASSWORD}
    assert visitor.post("/accounts/signup/", fields).status_code == 200
    assert not get_user_model().objects.exists()


def test_attempts_are_kept_without_name_or_address_and_forgotten(visitor: Client) -> None:
    log_in(visitor)
    assert CachedValue.objects.exists()
    assert all(re.fullmatch("[0-9a-f]{64}", row.cache_key) for row in CachedValue.objects.all())
    CachedValue.objects.update(expires=timezone.now() - timedelta(seconds=1))
    jobs.prune_events()
    assert not CachedValue.objects.exists()


@pytest.mark.parametrize(
    ("proxies", "forwarded", "address"),
    [
        (0, "203.0.113.9", "192.0.2.1"),
        (1, "", "192.0.2.1"),
        (1, "203.0.113.9", "203.0.113.9"),
        (1, "1.2.3.4, 203.0.113.9", "203.0.113.9"),
        (2, "1.2.3.4, 203.0.113.9", "1.2.3.4"),
        (2, "203.0.113.9", "192.0.2.1"),
        (1, "nonsense", "192.0.2.1"),
        (1, "2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        (1, "::ffff:203.0.113.9", "203.0.113.9"),
    ],
)
def test_proxies_are_believed_as_far_as_they_are_configured(
    settings: Any, proxies: int, forwarded: str, address: str
) -> None:
    settings.KBENCH_TRUSTED_PROXIES = proxies
    assert address_of(request_from("192.0.2.1", forwarded)) == address


def test_a_socket_without_an_address_is_one_visitor() -> None:
    assert address_of(request_from("")) == limits.UNKNOWN


# --- quota ---------------------------------------------------------------------------------------------------------


def test_the_quota_page_shows_meters_and_the_ledger(as_owner: Client, owner: Any, settings: Any) -> None:
    settings.KBENCH_IN_FLIGHT_MAX = 7
    charged = factories.judged(owner=owner, payer=quotas.payer_of(owner, ""))
    html = as_owner.get(QUOTA).content.decode()
    assert "0 of 7" in html
    assert charged.get_absolute_url() in html
    assert "mnist_linear_relu/forward on cpu-avx2: PASS" in html
    Submission.objects.all().delete()
    assert "(deleted)" in as_owner.get(QUOTA).content.decode()


def test_nobody_reads_the_ledger_of_somebody_else(as_stranger: Client, visitor: Client, owner: Any) -> None:
    factories.judged(owner=owner, payer=quotas.payer_of(owner, ""))
    for client in (as_stranger, visitor):
        assert b"mnist_linear_relu" not in client.get(QUOTA).content
    assert b"Log in" in visitor.get(QUOTA).content


def test_a_visitor_sees_the_meters_of_the_address_but_no_ledger(visitor: Client, settings: Any) -> None:
    settings.KBENCH_IN_FLIGHT_MAX = 8
    url = "/tasks/{}/{}/{}/submit/".format(*factories.TASK)
    visitor.post(url, {"text": factories.SOURCE, "language": "cpp", "visibility": "unlisted"})
    html = visitor.get(QUOTA).content.decode()
    assert "1 of 2" in html
    assert Evaluation.objects.get().get_absolute_url() not in html


# --- data ----------------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
async def test_the_archive_holds_everything_of_the_account_and_nothing_else(owner: Any, stranger: Any) -> None:
    def prepare() -> tuple[Submission, Evaluation]:
        factories.queued(owner=stranger, text=factories.SOURCE + "// not mine\n")
        tokens.token_create(owner, "script")
        runs.started(owner)
        mine = {"owner": owner, "visibility": "private", "payer": quotas.payer_of(owner, "")}
        Evaluation.objects.update(priority=30)
        judged = factories.judged(**mine)
        return judged.submission, judged

    submission, evaluation = await sync_to_async(prepare)()
    client = AsyncClient()
    await client.aforce_login(owner)
    response = await client.get(ARCHIVE)
    body = b"".join([piece async for piece in response.streaming_content])
    archive = zipfile.ZipFile(io.BytesIO(body))
    assert archive.testzip() is None
    code = submission.code
    assert archive.read(f"submissions/{code}/kernel.cpp").decode() == factories.SOURCE
    report = json.loads(archive.read(f"submissions/{code}/evaluations/{evaluation.code}.json"))
    assert (report["verdict"], report["report"]["verdict"]) == ("PASS", "PASS")
    assert json.loads(archive.read("account.json"))["username"] == "olga"
    assert json.loads(archive.read("tokens.json"))[0]["name"] == "script"
    assert json.loads(archive.read("ledger.json"))[0]["kind"] == "charge"
    assert any(name.startswith("runs/") and name.endswith("events.jsonl") for name in archive.namelist())
    assert sum(name.endswith("kernel.cpp") for name in archive.namelist()) == 1


@pytest.mark.parametrize("url", [DATA, ARCHIVE])
def test_without_an_account_there_is_no_data(visitor: Client, url: str) -> None:
    assert visitor.get(url)["Location"].startswith("/accounts/login/")


def leave(client: Client, password: str = PASSWORD, submissions: str = "keep") -> Any:
    return client.post(DATA, {"password": password, "submissions": submissions})


def test_an_account_is_deleted_with_its_password_alone(as_owner: Client, owner: Any) -> None:
    response = leave(as_owner, password="wrong")
    assert b"Wrong password. Nothing was deleted." in response.content
    assert get_user_model().objects.filter(username="olga").exists()


def test_guessing_the_password_there_is_slowed_down_too(as_owner: Client) -> None:
    for _ in range(BY_NAME):
        leave(as_owner, password="wrong")
    assert b"Too many failed attempts" in leave(as_owner).content
    assert get_user_model().objects.filter(username="olga").exists()


@pytest.mark.parametrize(("choice", "left"), [("keep", 1), ("delete", 0)])
def test_an_account_leaves_as_it_chooses(as_owner: Client, owner: Any, choice: str, left: int) -> None:
    evaluation = factories.judged(owner=owner, payer=quotas.payer_of(owner, ""))
    response = as_owner.post(DATA, {"password": PASSWORD, "submissions": choice}, follow=True)
    assert b"The account was deleted." in response.content
    assert not get_user_model().objects.exists()
    assert Submission.objects.count() == left
    assert LedgerEntry.objects.get().payer.account is None
    assert as_owner.get(QUOTA).status_code == 200
    assert as_owner.get(DATA).status_code == 302
    page = Client().get(evaluation.get_absolute_url())
    assert page.status_code == (200 if left else 404)
    assert b"olga" not in page.content


def test_an_account_without_a_password_is_deleted_by_its_name(as_owner: Client, owner: Any) -> None:
    owner.set_unusable_password()
    owner.save()
    as_owner.force_login(owner)
    assert b"not the name" in as_owner.post(DATA, {"name": "OLGA", "submissions": "keep"}).content
    as_owner.post(DATA, {"name": "olga", "submissions": "keep"})
    assert not get_user_model().objects.exists()


def test_its_runs_are_stopped(as_owner: Client, owner: Any) -> None:
    run = runs.started(owner)
    leave(as_owner)
    run.refresh_from_db()
    assert (run.state, run.owner) == ("finished", None)
    assert not Run.objects.exclude(state="finished").exists()


def test_a_token_that_has_expired_says_so(as_owner: Client, owner: Any) -> None:
    made = tokens.token_create(owner, "old", days=1)
    type(made.row).objects.update(expires=timezone.now() - timedelta(days=1))
    assert b"expired" in as_owner.get("/accounts/tokens/").content
