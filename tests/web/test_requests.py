"""The pages and the API of requests: posting, voting, accepting, closing, hiding, and that nothing private leaves."""

from typing import Any
from xml.etree import ElementTree

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from benchmarks.accounts.exports import files_of
from benchmarks.accounts.ownership import account_delete
from benchmarks.accounts.tokens import token_create
from benchmarks.dataset.rows import SUBMISSIONS
from benchmarks.models import Evaluation, KernelRequest, ModerationAction, Task
from benchmarks.requests import asking, examining, lists
from benchmarks.states import ActionKind, RequestState, TokenScope
from tests.asking import MODEL, examined, opened, posted, version_of
from tests.rows import cpu_kind

from . import factories

HOSTILE = "<script>alert(1)</script> <img src=x onerror=alert(1)> \"'>"
SECRET = "# known-to-the-owner-alone\n"


def bearer(user: Any, scope: str = TokenScope.SUBMIT) -> Any:
    return {"authorization": f"Bearer {token_create(user, 'test', scope).text}"}


def page(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, answer.status_code
    return answer.content.decode()


def answered(request: KernelRequest, owner: Any, speedup: float = 2.0) -> Evaluation:
    report = factories.passing(speedup)
    return factories.judged(report, version=version_of(request), text=f"// {speedup}\n", owner=owner)


def fields(**changed: Any) -> dict[str, Any]:
    given = {"title": "Row softmax", "reason": "Our model waits for it.", "definition": MODEL, "worth_s": "30"}
    return {**given, "licence": "MIT", "device_kinds": [cpu_kind().pk], **changed}


# --- posting -------------------------------------------------------------------------------------------------------


def test_a_request_is_posted_examined_and_listed(as_owner: Client, visitor: Client) -> None:
    answer = as_owner.post("/requests/new/", fields())
    row = KernelRequest.objects.get()
    assert answer["Location"] == f"/requests/{row.pk}/"
    assert (row.files, row.worth_s, row.licence) == ({"definition.py": MODEL}, 30, "MIT")
    assert "Only you can see this page" in page(as_owner, f"/requests/{row.pk}/")
    assert "Yours, not public" in page(as_owner, "/requests/")
    row = examined(row)
    shown = page(visitor, f"/requests/{row.pk}/")
    assert "Our model waits for it." in shown
    assert f"/tasks/{row.task.path}/submit/" in shown  # type: ignore[union-attr]
    assert "Row softmax" in page(visitor, "/requests/")
    task = page(visitor, f"/tasks/{row.task.path}/")  # type: ignore[union-attr]
    assert f'Requested in <a href="/requests/{row.pk}/">' in task
    assert "/suites/requests/imports/" not in task


def test_files_are_uploaded_together(as_owner: Client) -> None:
    uploads = [SimpleUploadedFile(f"{name}.py", f"# {name}\n".encode()) for name in ("func_forward", "other")]
    assert as_owner.post("/requests/new/", fields(definition="", uploads=uploads)).status_code == 302
    assert KernelRequest.objects.get().files == {"func_forward.py": "# func_forward\n", "other.py": "# other\n"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"definition": ""}, "Post the definition"),
        ({"uploads": [SimpleUploadedFile("a.py", b"x")]}, "not both"),
        ({"definition": "", "uploads": [SimpleUploadedFile("a.py", b"\xff\xfe")]}, "is not text in UTF-8"),
        ({"definition": "", "uploads": [SimpleUploadedFile("a.exe", b"x")]}, "Names of files"),
        ({"device_kinds": []}, "This field is required"),
        ({"worth_s": "99999999"}, "less than or equal to 3600"),
        ({"title": "\u202e "}, "The title is empty"),
        ({"title": "\u200b\u2060"}, "The title is empty"),
        ({"title": "\u3164\u2800"}, "The title is empty"),
        ({"licence": "\u3164"}, "The licence is empty"),
    ],
)
def test_a_form_says_what_it_refuses_and_keeps_what_was_typed(
    as_owner: Client, change: dict[str, Any], why: str
) -> None:
    answer = as_owner.post("/requests/new/", fields(**change))
    assert answer.status_code == 200
    assert why in answer.content.decode()
    assert "Our model waits for it." in answer.content.decode()
    assert not KernelRequest.objects.exists()


def test_a_refused_definition_shows_the_reason_of_the_importer(as_owner: Client, owner: Any) -> None:
    row = posted(owner, text="class Model(:\n")
    holding = examining.request_claim()
    assert holding is not None
    holding.record(*examining.examine_files(row))
    shown = page(as_owner, f"/requests/{row.pk}/")
    assert "The importer refused the definition: definition.py:1: " in shown


def test_a_visitor_is_asked_to_log_in(visitor: Client, owner: Any) -> None:
    row = opened(owner)
    for path in ("new/", f"{row.pk}/vote/", f"{row.pk}/accept/", f"{row.pk}/close/"):
        assert visitor.post(f"/requests/{path}")["Location"].startswith("/accounts/login/")
    assert "Log in to vote" in page(visitor, f"/requests/{row.pk}/")


# --- nothing private leaves ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("refused", [False, True])
def test_what_is_not_examined_or_refused_is_its_owners_alone(
    visitor: Client, as_stranger: Client, as_staff: Client, owner: Any, refused: bool
) -> None:
    row = posted(owner, title="Secret-softmax", text=f"class Model(:  {SECRET}" if refused else MODEL + SECRET)
    if refused:
        holding = examining.request_claim()
        assert holding is not None
        holding.record(*examining.examine_files(row))
    paths = [f"/requests/{row.pk}/", f"/api/v1/requests/{row.pk}", f"/moderation/requests/{row.pk}/"]
    for client in (visitor, as_stranger, as_staff):
        assert [client.get(path).status_code for path in paths[:2]] == [404, 404]
        for listing in ("/requests/", "/requests/newest.rss", "/api/v1/requests", "/tasks/", "/api/v1/tasks"):
            assert "Secret-softmax" not in client.get(listing).content.decode()
        assert client.post(f"/requests/{row.pk}/vote/").status_code in (302, 404)
    assert as_staff.get(paths[2]).status_code == 404
    assert as_staff.get("/suites/requests/imports/").status_code == 404
    assert not Task.objects.filter(suite__slug="requests").exists()
    assert Client(headers=bearer(owner)).get(paths[1]).status_code == 200


def test_posted_files_come_back_to_nobody(as_owner: Client, visitor: Client, owner: Any) -> None:
    row = posted(owner, files={"task.yml": SECRET, "reference.py": MODEL})
    assert "known-to-the-owner" not in page(as_owner, f"/requests/{row.pk}/")
    answer = as_owner.get(f"/api/v1/requests/{row.pk}", headers=bearer(owner))
    assert answer.json()["state"] == "queued"
    assert "known-to-the-owner" not in answer.content.decode()
    KernelRequest.objects.update(files={"definition.py": MODEL})
    row = examined(row)
    assert row.files == {}


def test_an_account_takes_its_requests_along_and_leaves_the_task(
    visitor: Client, as_staff: Client, owner: Any, stranger: Any
) -> None:
    row = opened(owner)
    asking.request_vote(row, by=stranger, wanted=True)
    packed = dict(files_of(owner))
    assert b"Row softmax" in packed["requests.json"]
    assert str(row.pk).encode() in dict(files_of(stranger))["votes.json"]
    posted(owner, text=MODEL + "# waits\n")
    account_delete(owner, keep_submissions=False)
    left = KernelRequest.objects.get()
    assert (left.owner, left.reason, left.state, left.votes.count()) == (None, "", "closed", 0)
    for client in (visitor, as_staff):
        assert client.get(f"/requests/{row.pk}/").status_code == 404
        assert "Row softmax" not in page(client, "/requests/")
    assert Task.objects.filter(pk=row.task_id, listed=True).exists()
    factories.judged(factories.passing(2.0), version=version_of(row), owner=stranger)  # nobody is told


def test_staff_decide_about_a_request_whose_owner_has_left(
    visitor: Client, as_staff: Client, owner: Any, stranger: Any, staff: Any
) -> None:
    row = opened(owner)
    answered(row, stranger)
    board = f"/leaderboards/{row.task.path}/cpu-avx2/?version=1"  # type: ignore[union-attr]
    decide = f"/moderation/requests/{row.pk}/"
    asking.request_decide(row, ActionKind.HIDE, by=staff, reason="Advertising.")
    account_delete(owner, keep_submissions=True)
    task = f"/tasks/{row.task.path}/"  # type: ignore[union-attr]
    assert visitor.get(board).status_code == 404
    assert not list(SUBMISSIONS.read())
    assert "a deleted account" in page(as_staff, decide)
    for kind, status in (("restore", 200), ("hide", 404)):
        as_staff.post(decide, {"kind": kind, "reason": "Looked again."})
        assert visitor.get(board).status_code == status
        if kind == "restore":
            assert (decide in page(as_staff, task), decide in page(visitor, task)) == (True, False)


def test_what_somebody_writes_is_never_markup(visitor: Client, as_staff: Client, owner: Any, staff: Any) -> None:
    row = opened(owner, title=HOSTILE, reason=HOSTILE, licence=HOSTILE)
    asking.request_close(row, HOSTILE)
    asking.request_decide(row, ActionKind.HIDE, by=staff, reason=HOSTILE)
    asking.request_decide(row, ActionKind.RESTORE, by=staff, reason=HOSTILE)
    pages = [page(visitor, path) for path in ("/requests/", f"/requests/{row.pk}/", f"/tasks/{row.task.path}/")]
    pages += [page(as_staff, f"/moderation/requests/{row.pk}/"), page(visitor, "/moderation/log/")]
    for shown in pages:
        assert "<script>alert" not in shown
        assert "<img src=x" not in shown
        assert "&lt;script&gt;" in shown
    opened(owner, title=HOSTILE, reason=HOSTILE, text=MODEL + "# 2\n")
    feed = ElementTree.fromstring(visitor.get("/requests/newest.rss").content)  # noqa: S314 - our own answer
    assert [item.findtext("title") for item in feed.findall("channel/item")] == [HOSTILE]


# --- votes, answers, ends ------------------------------------------------------------------------------------------


def test_a_vote_is_given_and_taken_back(as_stranger: Client, as_owner: Client, owner: Any) -> None:
    row = opened(owner)
    as_stranger.post(f"/requests/{row.pk}/vote/", {"vote": "1"})
    assert row.votes.count() == 1
    assert "Take your vote back" in page(as_stranger, f"/requests/{row.pk}/")
    as_stranger.post(f"/requests/{row.pk}/vote/", {"vote": "0"})
    assert row.votes.count() == 0
    assert "of your own" in as_owner.post(f"/requests/{row.pk}/vote/", follow=True).content.decode()
    assert row.votes.count() == 0


def test_the_best_answer_stands_with_baseline_interval_and_trust(
    visitor: Client, as_owner: Client, as_stranger: Client, owner: Any, stranger: Any
) -> None:
    row = opened(owner)
    best = answered(row, stranger, 3.0)
    first = best.configs.exclude(group="hidden").order_by("position")[0]
    shown = page(visitor, f"/requests/{row.pk}/")
    assert best.get_absolute_url() in shown
    assert "3.00×" in shown
    assert "2.94× to 3.06×" in shown
    assert f"{first.eager_us:.0f}"[:2] in shown
    assert "Accept this answer" not in shown
    assert "3.00×" in page(visitor, "/requests/")
    assert as_stranger.post(f"/requests/{row.pk}/accept/", {"evaluation": best.code}).status_code == 404
    as_owner.post(f"/requests/{row.pk}/accept/", {"evaluation": "nothing"})
    assert KernelRequest.objects.get().state == RequestState.OPEN
    as_owner.post(f"/requests/{row.pk}/accept/", {"evaluation": best.code})
    assert KernelRequest.objects.get().accepted == best
    assert "accepted <a" in page(visitor, f"/requests/{row.pk}/")


def test_its_owner_closes_it_with_a_reason(as_owner: Client, as_stranger: Client, visitor: Client, owner: Any) -> None:
    row = opened(owner)
    assert as_stranger.post(f"/requests/{row.pk}/close/", {"why": "no"}).status_code == 404
    assert "Write the reason" in as_owner.post(f"/requests/{row.pk}/close/", follow=True).content.decode()
    as_owner.post(f"/requests/{row.pk}/close/", {"why": "Bought elsewhere."})
    shown = page(visitor, f"/requests/{row.pk}/")
    assert "Closed by olga: Bought elsewhere." in shown
    assert page(visitor, f"/tasks/{row.task.path}/")  # type: ignore[union-attr]
    assert "There is no open request" in page(visitor, "/requests/?sort=open")


def test_staff_hide_one_with_its_task(visitor: Client, as_owner: Client, as_staff: Client, owner: Any) -> None:
    row = opened(owner)
    as_staff.post(f"/moderation/requests/{row.pk}/", {"kind": "hide", "reason": "An advertisement."})
    assert ModerationAction.objects.get().request == row
    task = f"/tasks/{row.task.path}/"  # type: ignore[union-attr]
    board = f"/leaderboards/{row.task.path}/cpu-avx2/?version=1"  # type: ignore[union-attr]
    for path in (f"/requests/{row.pk}/", f"/api/v1/requests/{row.pk}", task, board):
        assert visitor.get(path).status_code == 404
    assert "Row softmax" not in page(visitor, "/requests/")
    assert "Hidden by staff: An advertisement." in page(as_owner, f"/requests/{row.pk}/")
    assert "An advertisement." in page(visitor, "/moderation/log/")
    as_staff.post(f"/moderation/requests/{row.pk}/", {"kind": "restore", "reason": "It was none."})
    assert page(visitor, task)
    assert page(visitor, board)
    assert "Row softmax" in page(visitor, "/requests/")


CANARY = "zebrafish"
EVALUATION_PAGES = ("", "live/", "report.json", "badge.svg", "profile/")


def test_no_word_of_a_hidden_request_is_left_beside_the_entries_of_others(
    visitor: Client, as_stranger: Client, owner: Any, stranger: Any, staff: Any
) -> None:
    words = {"title": f"{CANARY} softmax", "licence": f"{CANARY} licence", "text": MODEL.replace("thing", CANARY)}
    row = opened(owner, **words)
    task = Task.objects.filter(pk=row.task_id)
    before = task.values("op", "title", "summary", "formula", "licence").get()
    assert CANARY in before["title"] + before["licence"]
    evaluation = answered(row, stranger)
    asking.request_decide(row, ActionKind.HIDE, by=staff, reason="An advertisement.")
    pages = [f"/evaluations/{evaluation.code}/{name}" for name in EVALUATION_PAGES]
    lists = ["/", "/status/", "/people/stefan/", "/accounts/submissions/", "/moderation/log/", "/api/v1/export"]
    for path in (*pages, *lists, f"/api/v1/evaluations/{evaluation.code}"):
        for client in (visitor, as_stranger):
            answer = client.get(path)
            told = b"".join(answer) if answer.streaming else answer.content  # type: ignore[arg-type]
            assert CANARY not in told.decode().lower(), path
    assert f"/evaluations/{evaluation.code}/" not in page(visitor, "/")
    asking.request_decide(row, ActionKind.RESTORE, by=staff, reason="It was none.")
    assert task.values("op", "title", "summary", "formula", "licence").get() == before
    assert f"/evaluations/{evaluation.code}/" in page(visitor, "/")


def test_the_list_asks_a_fixed_number_of_queries(
    visitor: Client, owner: Any, stranger: Any, django_assert_max_num_queries: Any
) -> None:
    for number in range(4):
        row = opened(owner, text=f"{MODEL}# {number}\n")
        asking.request_vote(row, by=stranger, wanted=True)
    with django_assert_max_num_queries(6):
        page(visitor, "/requests/")


# --- API -----------------------------------------------------------------------------------------------------------

BODY: dict[str, Any] = {
    "title": "Row softmax",
    "reason": "Our model waits for it.",
    "files": [{"name": "definition.py", "text": MODEL}],
    "devices": ["cpu-avx2"],
}


def test_the_api_posts_reads_lists_and_votes(visitor: Client, owner: Any, stranger: Any) -> None:
    sent = visitor.post("/api/v1/requests", {**BODY, "worth_s": 20}, "application/json", headers=bearer(owner))
    assert sent.status_code == 201, sent.content
    assert (sent.json()["state"], sent.json()["task"]) == ("queued", None)
    row = examined(KernelRequest.objects.get())
    best = answered(row, stranger, 2.0)
    vote = f"/api/v1/requests/{row.pk}/vote"
    assert visitor.post(vote, {"vote": True}, "application/json", headers=bearer(stranger)).json()["votes"] == 1
    told = visitor.get(f"/api/v1/requests/{row.pk}").json()
    assert (told["task"], told["votes"], told["voted"]) == (row.task.path, 1, False)  # type: ignore[union-attr]
    [answer] = told["answers"]
    assert (answer["evaluation"], answer["speedup"], answer["accepted"]) == (str(best.code), 2.0, False)
    assert answer["ci95"] == [1.96, 2.04]
    listed = visitor.get("/api/v1/requests?sort=open").json()
    assert [item["id"] for item in listed["requests"]] == [row.pk]
    assert not visitor.post(vote, {"vote": False}, "application/json", headers=bearer(stranger)).json()["voted"]


def test_cpu_means_the_processors_of_this_site(visitor: Client, owner: Any) -> None:
    wanted = {**BODY, "devices": ["cpu", "cpu-avx2"]}
    sent = visitor.post("/api/v1/requests", wanted, "application/json", headers=bearer(owner))
    assert (sent.status_code, sent.json().get("devices")) == (201, ["cpu-avx2"])


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"devices": ["abacus"]}, 409, "request-refused"),
        ({"files": [{"name": "../a.py", "text": "x"}]}, 409, "request-refused"),
        ({"reason": "\u200b \u3164"}, 409, "request-refused"),
        ({"files": []}, 422, "invalid-request"),
        ({"worth_s": -1}, 422, "invalid-request"),
        ({"title": "x" * 200}, 422, "invalid-request"),
    ],
)
def test_the_api_names_what_it_refuses(
    visitor: Client, owner: Any, change: dict[str, Any], status: int, code: str
) -> None:
    answer = visitor.post("/api/v1/requests", {**BODY, **change}, "application/json", headers=bearer(owner))
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert not KernelRequest.objects.exists()


def test_the_api_says_when_to_come_back(visitor: Client, owner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "PER_DAY", 0)
    answer = visitor.post("/api/v1/requests", BODY, "application/json", headers=bearer(owner))
    assert (answer.status_code, answer.json()["code"]) == (429, "too-many-requests")
    assert answer["Retry-After"] == "3600"


def test_a_token_for_reading_posts_nothing(visitor: Client, owner: Any) -> None:
    answer = visitor.post("/api/v1/requests", BODY, "application/json", headers=bearer(owner, TokenScope.READ))
    assert (answer.status_code, answer.json()["code"]) == (403, "scope-missing")


def test_an_answer_that_a_gate_holds_is_not_the_best_one_of_an_unranked_task() -> None:
    """Beside a board nobody counts it until staff have looked; on the page of a request it was the best answer."""
    request = opened(factories.user("asks"), worth_s=1000)
    Task.objects.filter(pk=request.task_id).update(labels=["small-output"])
    version = version_of(request)
    factories.judged(factories.passing(2.0), owner=factories.user("honest"), version=version, text="// honest\n")
    factories.judged(factories.gated(12.0), owner=factories.user("cheat"), version=version, text="// cheat\n")
    answers = lists.answers_of(KernelRequest.objects.get(pk=request.pk))
    assert [round(answer.evaluation.score or 0.0, 1) for answer in answers] == [2.0]
