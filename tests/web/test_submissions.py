"""A submission in the hands of its owner, and two of them side by side."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from benchmarks.models import Standing, Submission
from benchmarks.states import Origin

from . import factories

DIFF = reverse("submission-diff")
OTHER = factories.SOURCE.replace("relu_()", "relu()") + "// <script>alert(1)</script>\n"


def edit(code: Any) -> str:
    return reverse("submission-edit", args=[code])


def end(code: Any) -> str:
    return reverse("submission-end", args=[code])


@pytest.fixture
def as_staff() -> Client:
    staff = factories.user("stella")
    type(staff).objects.filter(pk=staff.pk).update(is_staff=True)
    client = Client()
    client.force_login(staff)
    return client


def test_the_owner_hides_a_submission_and_the_board_follows(as_owner: Client, owner: Any) -> None:
    evaluation = factories.judged(owner=owner)
    page = as_owner.get(edit(evaluation.submission.code)).content.decode()
    assert "Everyone with the link can see it; it appears on no leaderboard" in page
    response = as_owner.post(edit(evaluation.submission.code), {"title": "Mine", "visibility": "private"})
    assert response["Location"] == evaluation.get_absolute_url()
    submission = Submission.objects.get()
    assert (submission.title, submission.visibility) == ("Mine", "private")
    assert not Standing.objects.exists()


def test_publishing_beyond_the_limit_is_explained(as_owner: Client, owner: Any, settings: Any) -> None:
    settings.KBENCH_PUBLIC_PER_DAY = 1
    url = reverse("submit", args=factories.TASK)
    as_owner.post(url, {"text": factories.SOURCE, "language": "cpp"})
    as_owner.post(url, {"text": OTHER, "language": "cpp", "visibility": "private"})
    hidden = Submission.objects.get(visibility="private")
    response = as_owner.post(edit(hidden.code), {"title": "", "visibility": "public"})
    assert response.status_code == 422
    assert b"1 public submissions within 24 hours" in response.content


def test_the_owner_deletes_a_submission_with_a_tick(as_owner: Client, owner: Any) -> None:
    code = factories.judged(owner=owner).submission.code
    response = as_owner.post(end(code))
    assert response.status_code == 422
    assert b"Tick the box" in response.content
    assert as_owner.post(end(code), {"sure": "on"})["Location"] == reverse("own-submissions")
    assert not Submission.objects.exists()


def test_what_a_run_made_says_why_it_stays(as_owner: Client, owner: Any) -> None:
    code = factories.judged(owner=owner, origin=Origin.AGENT).submission.code
    response = as_owner.post(end(code), {"sure": "on"})
    assert "The log of an agent run contains this source" in response.content.decode()
    assert Submission.objects.exists()


@pytest.mark.parametrize("who", ["as_stranger", "as_staff"])
def test_nobody_else_changes_or_deletes_it(request: pytest.FixtureRequest, who: str, owner: Any) -> None:
    client: Client = request.getfixturevalue(who)
    code = factories.judged(owner=owner).submission.code
    assert client.get(edit(code)).status_code == 403
    assert client.post(edit(code), {"visibility": "private"}).status_code == 403
    assert client.post(end(code), {"sure": "on"}).status_code == 403
    assert Submission.objects.get().visibility == "public"


@pytest.mark.parametrize("who", ["as_stranger", "as_staff"])
def test_a_private_one_does_not_exist_for_others(request: pytest.FixtureRequest, who: str, owner: Any) -> None:
    client: Client = request.getfixturevalue(who)
    code = factories.judged(owner=owner, visibility="private").submission.code
    assert client.get(edit(code)).status_code == 404
    assert client.post(end(code), {"sure": "on"}).status_code == 404


def test_a_visitor_is_asked_to_log_in(visitor: Client) -> None:
    code = factories.judged().submission.code
    for url in (edit(code), end(code)):
        assert visitor.post(url, {"sure": "on"})["Location"].startswith("/accounts/login/")
    assert Submission.objects.exists()


def test_the_page_of_an_evaluation_leads_to_them(as_owner: Client, as_stranger: Client, owner: Any) -> None:
    evaluation = factories.judged(owner=owner)
    link = edit(evaluation.submission.code).encode()
    assert link in as_owner.get(evaluation.get_absolute_url()).content
    assert link not in as_stranger.get(evaluation.get_absolute_url()).content


def test_two_sources_are_compared_line_by_line_and_escaped(visitor: Client) -> None:
    first, second = factories.judged(factories.passing(2.5)), factories.queued(text=OTHER)
    html = visitor.get(DIFF, {"a": first.submission.code, "b": second.submission.code}).content.decode()
    assert '<span class="line gone">' in html
    assert "relu();" in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "<script>alert" not in html
    assert "<strong>2.50×</strong> over the stronger baseline" in html


def test_they_are_shown_in_two_columns(visitor: Client) -> None:
    first, second = factories.queued(), factories.queued(text=OTHER)
    query = {"a": first.submission.code, "b": second.submission.code, "view": "split"}
    html = visitor.get(DIFF, query).content.decode()
    assert '<td class="gone"><code>−' in html
    assert '<td class="new"><code>+' in html
    assert "<script>alert" not in html


def test_addresses_of_pages_are_taken_as_well(visitor: Client) -> None:
    first, second = factories.queued(), factories.queued(text=OTHER)
    query = {"a": f"https://kbench.example{first.get_absolute_url()}", "b": str(second.code)}
    assert b"What changed" in visitor.get(DIFF, query).content


def test_the_same_source_and_one_that_is_too_long_say_so(visitor: Client) -> None:
    evaluation = factories.queued()
    long = factories.queued(text=factories.SOURCE + "\n" * 6000)
    code = evaluation.submission.code
    assert b"The sources are identical" in visitor.get(DIFF, {"a": code, "b": code}).content
    assert b"5000 lines per side" in visitor.get(DIFF, {"a": code, "b": long.submission.code}).content


def test_other_tasks_are_compared_with_a_warning(visitor: Client) -> None:
    first = factories.queued()
    second = factories.queued(version=factories.version("layernorm"), text=OTHER)
    html = visitor.get(DIFF, {"a": first.submission.code, "b": second.submission.code}).content
    assert b"their speedups cannot be compared" in html


def test_nothing_that_may_not_be_read_is_compared(
    as_owner: Client, as_stranger: Client, visitor: Client, as_staff: Client, owner: Any
) -> None:
    secret = factories.queued(owner=owner, visibility="private")
    query = {"a": factories.queued(text=OTHER).submission.code, "b": secret.submission.code}
    assert as_owner.get(DIFF, query).status_code == 200
    for client in (as_stranger, visitor, as_staff):
        assert client.get(DIFF, query).status_code == 404
        assert client.get(DIFF, query | {"b": secret.code}).status_code == 404


def test_without_two_codes_the_page_asks_for_them(visitor: Client) -> None:
    assert visitor.get(DIFF).status_code == 200
    assert b"The right field does not name a submission" in visitor.get(DIFF, {"b": "nonsense"}).content


def test_an_evaluation_offers_the_record_the_own_best_and_the_version_before(as_owner: Client, owner: Any) -> None:
    record = factories.judged(factories.passing(5.0), text=factories.SOURCE + "// record\n")
    best = factories.judged(factories.passing(3.0), text=factories.SOURCE + "// best\n", owner=owner)
    before = factories.judged(factories.passing(2.0), text=factories.SOURCE + "// before\n", owner=owner)
    now = factories.judged(factories.passing(1.0), owner=owner)
    html = as_owner.get(now.get_absolute_url()).content.decode()
    for evaluation, title in ((record, "the record"), (best, "your best"), (before, "the version before")):
        link = f'?a={evaluation.submission.code}&amp;b={now.submission.code}">{title}</a>'
        assert link in html


def test_a_copy_names_the_original(as_stranger: Client, visitor: Client, owner: Any, stranger: Any) -> None:
    first = factories.judged(owner=owner)
    copy = factories.judged(owner=stranger)
    words = f'submitted earlier by olga: <a\n    href="{first.get_absolute_url()}">'
    assert words in visitor.get(copy.get_absolute_url()).content.decode()
    assert "submitted earlier" not in visitor.get(first.get_absolute_url()).content.decode()
    Submission.objects.filter(pk=first.submission_id).update(visibility="unlisted")
    assert "submitted earlier" not in as_stranger.get(copy.get_absolute_url()).content.decode()


def test_a_stranger_is_not_led_to_hidden_versions(as_stranger: Client, owner: Any) -> None:
    hidden = factories.judged(text=factories.SOURCE + "// hidden\n", owner=owner, visibility="unlisted")
    now = factories.judged(owner=owner)
    assert str(hidden.submission.code) not in as_stranger.get(now.get_absolute_url()).content.decode()


def test_failures_come_with_advice(visitor: Client) -> None:
    evaluation = factories.judged(factories.failing())
    html = visitor.get(evaluation.get_absolute_url()).content.decode()
    assert "What to try next" in html
