"""Comments: who writes, reads, deletes, reports and hides them, and that a text stays text wherever it appears."""

from datetime import timedelta
from typing import Any

import pytest
from django.core import mail
from django.test import Client
from django.utils import timezone

from benchmarks import comments, switches
from benchmarks.accounts.ownership import account_delete, visibility_change
from benchmarks.accounts.tokens import token_create
from benchmarks.models import Comment, Evaluation, ModerationAction, Notification
from benchmarks.moderation import decisions
from benchmarks.services import Refused
from benchmarks.states import ActionKind, Switch, TokenScope
from benchmarks.templatetags.texts import plain_text

from . import factories

HOSTILE = "<script>alert(1)</script> <img src=x onerror=alert(1)> javascript:alert(1) \"'>"


@pytest.fixture
def evaluation(owner: Any) -> Evaluation:
    return factories.judged(owner=owner)


def write(evaluation: Evaluation, by: Any, text: str = "Well done.") -> Comment:
    return comments.comment_create(evaluation.submission, by=by, text=text)


def place(evaluation: Evaluation) -> str:
    return f"/evaluations/{evaluation.code}/comments/"


def page_of(client: Client, evaluation: Evaluation) -> str:
    return client.get(f"/evaluations/{evaluation.code}/").content.decode()


def api_path(evaluation: Evaluation) -> str:
    return f"/api/v1/submissions/{evaluation.submission.code}/comments"


def bearer(user: Any, scope: str = TokenScope.SUBMIT) -> Any:
    return {"authorization": f"Bearer {token_create(user, 'test', scope).text}"}


def test_a_comment_is_written_and_read_by_everybody(visitor: Client, as_stranger: Client, evaluation: Any) -> None:
    answer = as_stranger.post(
        place(evaluation), {"text": "  Which tile size?\r\n\r\n\r\n\r\nSee https://a.example.org/x.  "}
    )
    row = Comment.objects.get()
    assert answer["Location"] == f"/evaluations/{evaluation.code}/?page=1#comment-{row.pk}"
    assert row.text == "Which tile size?\n\nSee https://a.example.org/x."
    shown = page_of(visitor, evaluation)
    assert "stefan" in shown
    assert (
        '<a href="https://a.example.org/x" rel="nofollow ugc noopener noreferrer">https://a.example.org/x</a>.' in shown
    )
    assert "Log in</a> to comment" in shown


def test_a_visitor_is_asked_to_log_in(visitor: Client, evaluation: Any) -> None:
    assert visitor.post(place(evaluation), {"text": "Hello"})["Location"].startswith("/accounts/login/")
    assert not Comment.objects.exists()


def test_what_somebody_writes_is_never_markup(
    visitor: Client, as_staff: Client, stranger: Any, evaluation: Any
) -> None:
    row = write(evaluation, stranger, HOSTILE)
    comments.comment_report(row, by=stranger, text=HOSTILE)
    paths = (f"/moderation/comments/{row.pk}/", "/moderation/", f"/comments/{row.pk}/report/")
    for shown in (page_of(visitor, evaluation), *(as_staff.get(path).content.decode() for path in paths)):
        assert "<script>alert" not in shown
        assert "<img src=x" not in shown
        assert "&lt;script&gt;" in shown


@pytest.mark.parametrize(
    "text",
    [
        "https://bank.example.org@evil.example.org/",
        "https://bank.example.org\\@evil.example.org/",
        "https://127.0.0.1/",
        "http://localhost/x",
        "https://example.org:444/",
        "javascript://example.org/%0aalert(1)",
        "data:text/html,https:/x",
        "https://b\u00e4nk.example.org/",
        "https://[::1]/",
        "https://",
    ],
)
def test_what_could_mislead_is_no_link(text: str) -> None:
    assert "<a" not in plain_text(text)


def test_an_address_cannot_leave_its_attribute() -> None:
    shown = plain_text("""https://example.org/'onmouseover='alert(1)' x="y" <b>""")
    assert shown.count("<") == shown.count(">") == 2
    assert 'href="https://example.org/&#x27;onmouseover=&#x27;alert(1"' in shown


def test_characters_that_cannot_be_seen_are_left_out(stranger: Any, evaluation: Any) -> None:
    assert write(evaluation, stranger, "a\u202eb\x1b[31m\u2066c\x07\td").text == "ab[31mc\td"
    for unseen in ("\u202e \n\u2066", "\u200b\u2060", "\u3164", "\u2800 \u115f"):
        with pytest.raises(Refused, match="empty"):
            write(evaluation, stranger, unseen)


def test_the_owner_is_told_by_whom_and_not_what(
    settings: Any, owner: Any, stranger: Any, evaluation: Any, as_owner: Client
) -> None:
    row = write(evaluation, stranger, HOSTILE)
    told = Notification.objects.get(owner=owner, kind="comment")
    assert told.text == "stefan commented on your submission “Fused loop”, mnist_linear_relu/forward."
    assert told.path == f"/evaluations/{evaluation.code}/#comment-{row.pk}"
    write(evaluation, owner, "Thank you.")
    assert Notification.objects.filter(kind="comment").count() == 1
    assert not Notification.objects.filter(owner=stranger).exists()
    assert mail.outbox == []


@pytest.mark.parametrize("closing", ["private", "hidden", "unlisted"])
def test_an_entry_that_is_not_public_has_none(
    *, closing: str, as_owner: Client, as_staff: Client, staff: Any, owner: Any, stranger: Any, evaluation: Any
) -> None:
    row = write(evaluation, stranger, "It was here.")
    if closing == "hidden":
        decisions.decide(evaluation.submission, ActionKind.HIDE, by=staff, reason="It was copied.")
    else:
        visibility_change(evaluation.submission, closing)
    for client in (as_owner, Client(), as_staff):
        assert "It was here." not in client.get(f"/evaluations/{evaluation.code}/").content.decode()
        assert client.get(api_path(evaluation)).status_code == 404
        assert client.get(f"/comments/{row.pk}/report/").status_code in (302, 404)
    assert as_owner.post(place(evaluation), {"text": "More"}).status_code == 404
    answer = Client().post(
        api_path(evaluation), {"text": "More"}, content_type="application/json", headers=bearer(owner)
    )
    assert answer.status_code == 404
    evaluation.submission.refresh_from_db()
    with pytest.raises(Refused, match="Only public"):
        write(evaluation, stranger, "More")
    assert Comment.objects.count() == 1


def test_authors_delete_their_own(
    as_owner: Client, as_stranger: Client, as_staff: Client, stranger: Any, evaluation: Any
) -> None:
    row = write(evaluation, stranger)
    for client in (as_owner, as_staff):
        assert client.post(f"/comments/{row.pk}/delete/").status_code == 404
    assert as_stranger.get(f"/comments/{row.pk}/delete/").status_code == 405
    assert as_stranger.post(f"/comments/{row.pk}/delete/").status_code == 302
    assert as_stranger.post(f"/comments/{row.pk}/delete/").status_code == 404
    assert "Well done." not in page_of(Client(), evaluation)
    assert Client().get(api_path(evaluation)).json()["comments"] == []
    assert Comment.objects.get().text == ""
    Comment.objects.update(deleted=timezone.now() - timedelta(days=2))
    assert comments.forget() == 1


def test_deleting_does_not_make_room_for_more(stranger: Any, evaluation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a script could notify an owner all day."""
    monkeypatch.setattr(comments, "PER_HOUR", 1)
    comments.comment_delete(write(evaluation, stranger))
    with pytest.raises(Refused, match="within an hour"):
        write(evaluation, stranger, "again")


def test_an_account_takes_its_comments_along(stranger: Any, evaluation: Any) -> None:
    write(evaluation, stranger)
    account_delete(stranger, keep_submissions=True)
    assert not Comment.objects.exists()


def test_a_reported_comment_is_hidden_and_shown_again(
    *, visitor: Client, as_owner: Client, as_staff: Client, owner: Any, stranger: Any, evaluation: Any
) -> None:
    row = write(evaluation, stranger, "Buy my kernels.")
    assert as_owner.post(f"/comments/{row.pk}/report/", {"text": "An advertisement."}).status_code == 302
    assert "already reported" in as_owner.post(f"/comments/{row.pk}/report/", {"text": "Again."}).content.decode()
    assert "An advertisement." in as_staff.get("/moderation/").content.decode()

    path, words = f"/moderation/comments/{row.pk}/", {"kind": "hide", "reason": "It advertises."}
    assert as_owner.post(path, words).status_code == 403
    assert as_staff.post(path, words).status_code == 302
    shown = page_of(visitor, evaluation)
    assert "Hidden by staff: It advertises." in shown
    assert "Buy my kernels." not in shown
    assert "Buy my kernels." in page_of(as_staff, evaluation)
    told = visitor.get(api_path(evaluation)).json()["comments"][0]
    assert (told["text"], told["hidden_reason"]) == (None, "It advertises.")
    assert visitor.get("/moderation/log/").content.decode().count("It advertises.") == 1
    assert "Buy my kernels." not in visitor.get("/moderation/log/").content.decode()
    assert Notification.objects.get(owner=owner, kind="report-decided").text.endswith("Hidden. It advertises.")
    assert as_owner.get(f"/comments/{row.pk}/report/").status_code == 404

    assert as_staff.post(path, {"kind": "hide", "reason": "Twice."}).status_code == 200
    assert as_staff.post(path, {"kind": "restore", "reason": "It did not."}).status_code == 302
    assert "Buy my kernels." in page_of(visitor, evaluation)
    assert ModerationAction.objects.filter(comment=row).count() == 3


def test_reports_are_dismissed(as_staff: Client, owner: Any, stranger: Any, evaluation: Any) -> None:
    row = write(evaluation, stranger)
    comments.comment_report(row, by=owner, text="I do not like it.")
    assert (
        as_staff.post(f"/moderation/comments/{row.pk}/", {"kind": "dismiss", "reason": "It is fine."}).status_code
        == 302
    )
    assert not comments.open_reports(row).exists()
    assert "Well done." in page_of(Client(), evaluation)


def test_an_account_writes_a_limited_number(
    as_stranger: Client, stranger: Any, evaluation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comments, "PER_HOUR", 2)
    write(evaluation, stranger, "one")
    with pytest.raises(Refused, match="already written"):
        write(evaluation, stranger, "one")
    write(evaluation, stranger, "two")
    assert "2 comments within an hour" in as_stranger.post(place(evaluation), {"text": "three"}).content.decode()
    answer = Client().post(
        api_path(evaluation), {"text": "three"}, content_type="application/json", headers=bearer(stranger)
    )
    assert (answer.status_code, answer.json()["code"]) == (429, "too-many-comments")
    assert Comment.objects.count() == 2


def test_staff_pause_new_comments(as_stranger: Client, evaluation: Any) -> None:
    switches.switch_set(Switch.COMMENTS, on=False, message="a flood of advertisements")
    assert "New comments are paused" in as_stranger.post(place(evaluation), {"text": "Hello"}).content.decode()
    assert not Comment.objects.exists()


def test_programs_read_and_write(stranger: Any, evaluation: Any) -> None:
    def post(body: Any, **options: Any) -> Any:
        return Client().post(api_path(evaluation), body, content_type="application/json", **options)

    assert post({"text": "From an agent"}).status_code == 401
    assert post({"text": "From an agent"}, headers=bearer(stranger, TokenScope.READ)).json()["code"] == "scope-missing"
    made = post({"text": HOSTILE}, headers=bearer(stranger))
    assert (made.status_code, made.json()["author"], made.json()["text"]) == (201, "stefan", HOSTILE)
    assert post({"text": "x" * 4_001}, headers=bearer(stranger)).status_code == 422
    assert post({"text": "\u202e"}, headers=bearer(stranger)).json()["code"] == "comment-refused"
    found = Client().get(api_path(evaluation)).json()
    assert (found["page"], found["pages"]) == (1, 1)
    assert [item["text"] for item in found["comments"]] == [HOSTILE]


def test_a_long_discussion_has_pages(
    as_stranger: Client, owner: Any, evaluation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comments, "PAGE_ROWS", 1)
    write(evaluation, owner, "first")
    assert as_stranger.post(place(evaluation), {"text": "second"})["Location"].partition("?")[2].startswith("page=2#")
    link = Client().get(api_path(evaluation))["Link"]
    assert link.endswith('comments?page=2>; rel="next"')
