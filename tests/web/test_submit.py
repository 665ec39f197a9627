"""Submitting: every bad input gets its sentence, and the text is still there afterwards."""

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile, TemporaryUploadedFile
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from benchmarks.harness import Verdict
from benchmarks.judgings import moves
from benchmarks.judgings.moves import record_report
from benchmarks.models import Evaluation, Submission, TaskVersion
from benchmarks.states import Priority, Switch
from benchmarks.submissions import checking
from benchmarks.switches import switch_set

from . import factories

URL = reverse("submit", args=factories.TASK)
TYPED = "// typed by hand <b>&amp;</b>\n"


def post(client: Client, text: str = factories.SOURCE, **fields: Any) -> HttpResponse:
    return client.post(URL, {"text": text, "language": "cpp", **fields})


def upload(content: bytes) -> SimpleUploadedFile:
    return SimpleUploadedFile("kernel.cpp", content)


def test_a_submission_leads_to_its_evaluation(visitor: Client) -> None:
    response = post(visitor, title="First try")
    evaluation = Evaluation.objects.get()
    assert response.status_code == 302
    assert response["Location"] == evaluation.get_absolute_url()
    assert evaluation.submission.blob.text == factories.SOURCE
    assert evaluation.state == "queued"


def test_an_uploaded_file_takes_the_place_of_the_text(visitor: Client) -> None:
    post(visitor, "// the starter code", file=upload(factories.SOURCE.encode()))
    assert Submission.objects.get().blob.text == factories.SOURCE


def test_line_ends_and_byte_order_marks_of_windows_are_taken(visitor: Client) -> None:
    post(visitor, file=upload(b"\xef\xbb\xbf" + factories.SOURCE.replace("\n", "\r\n").encode()))
    assert Submission.objects.get().blob.text == factories.SOURCE


def test_the_editor_starts_with_the_starter_code(visitor: Client) -> None:
    assert b"PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)" in visitor.get(URL).content


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "The file is empty."),
        (b" \n\n", "The file is empty."),
        (b"\x7fELF\x02\x01\x01\x00\x00", "The file is binary (byte 8 is zero)"),
        ("kernel".encode("utf-16"), "written in UTF-16"),
        (b"// first\n// caf\xe9\n", "byte 16 (0xE9, line 2)"),
        (b"x" * 300_000, "The file has 293 KiB; the rules take at most 256 KiB."),
    ],
)
def test_a_file_that_cannot_be_taken_is_explained_and_the_text_kept(
    visitor: Client, content: bytes, sentence: str
) -> None:
    response = post(visitor, TYPED, file=upload(content))
    html = response.content.decode()
    assert response.status_code == 422
    assert sentence in html
    assert "// typed by hand &lt;b&gt;&amp;amp;&lt;/b&gt;" in html
    assert not Submission.objects.exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "source is empty"),
        ("// x\n" * 60_000, "The source has 293 KiB"),
        ("__global__ void kernel(float* x) {}\n", "looks like CUDA"),
        ("import torch\n\ndef forward(x):\n    return x\n", "looks like Python"),
        ("int main() {}\n", "no PYBIND11_MODULE"),
        (factories.SOURCE.replace("forward", "fwd"), "which the module must export"),
        ("// \x00\n", "Null characters are not allowed"),
    ],
)
def test_a_text_that_cannot_be_taken_is_explained_and_kept(visitor: Client, text: str, sentence: str) -> None:
    response = post(visitor, text)
    html = response.content.decode()
    assert response.status_code == 422
    assert sentence in html.lower() or sentence in html
    assert not Submission.objects.exists()
    assert text.splitlines()[:1] == [] or text.splitlines()[0].split("<")[0].strip("\x00 ") in html


def test_a_refused_file_that_is_text_moves_into_the_editor(visitor: Client) -> None:
    html = post(visitor, TYPED, file=upload(b"__global__ void k() {}\n")).content.decode()
    assert "__global__ void k() {}" in html


def test_a_large_file_is_refused_by_its_size_alone(visitor: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TemporaryUploadedFile, "read", lambda *_: pytest.fail("the file was read"))
    response = post(visitor, TYPED, file=upload(b"x" * 4_000_000))
    assert b"The file has 3.8 MiB" in response.content
    assert TYPED.split("<", maxsplit=1)[0].encode() in response.content


def test_an_unknown_language_is_refused(visitor: Client) -> None:
    assert post(visitor, language="fortran").status_code == 422


def test_the_check_shows_remarks_and_queues_nothing(visitor: Client) -> None:
    html = post(visitor, check="1").content.decode()
    assert "calls a library operator of torch" in html
    assert 'data-line="4"' in html
    assert not Submission.objects.exists()


def test_the_same_form_sent_twice_is_one_submission(visitor: Client) -> None:
    first = post(visitor, client_token="a-form")
    second = post(visitor, client_token="a-form")
    assert first["Location"] == second["Location"]


def test_the_same_form_with_another_text_is_another_submission(visitor: Client) -> None:
    post(visitor, client_token="a-form")
    post(visitor, factories.SOURCE + "// better\n", client_token="a-form")
    assert Submission.objects.count() == 2


def test_the_submission_belongs_to_the_account(as_owner: Client, owner: Any) -> None:
    post(as_owner, visibility="private")
    submission = Submission.objects.get()
    assert submission.owner == owner
    assert submission.visibility == "private"


def test_without_an_account_nothing_can_be_private(visitor: Client) -> None:
    assert post(visitor, visibility="private").status_code == 422


def test_a_public_site_asks_for_an_account_and_keeps_the_text(visitor: Client, settings: Any) -> None:
    settings.KBENCH_PUBLIC = True
    html = post(visitor, factories.SOURCE + "// mine\n").content.decode()
    assert "Log in to submit" in html
    assert "// mine" in html
    assert not Submission.objects.exists()


def test_paused_submissions_say_why_and_keep_the_text(visitor: Client) -> None:
    switch_set(Switch.SUBMISSIONS, on=False, message="disk is full")
    html = post(visitor, factories.SOURCE + "// mine\n").content.decode()
    assert "disk is full" in html
    assert "// mine" in html


def test_a_flood_from_one_address_is_stopped_with_a_sentence(visitor: Client, settings: Any) -> None:
    settings.KBENCH_IN_FLIGHT_MAX = 8  # a visitor without an account has a quarter
    for number in range(3):
        last = post(visitor, f"{factories.SOURCE}// {number}\n")
    assert last.status_code == 429
    assert last["Retry-After"] == "15"
    assert b"2 of your evaluations are waiting or being judged, which is the limit" in last.content
    assert b"// 2" in last.content
    assert Submission.objects.count() == 2


def test_a_flood_from_one_account_is_stopped(as_owner: Client, settings: Any) -> None:
    settings.KBENCH_PUBLIC_PER_DAY = 1
    post(as_owner)
    assert b"1 public submissions within 24 hours" in post(as_owner, factories.SOURCE + "// again\n").content
    assert post(as_owner, factories.SOURCE + "// again\n", visibility="private").status_code == 302


def test_the_address_behind_a_proxy_counts_only_where_proxies_are_configured(visitor: Client, settings: Any) -> None:
    settings.KBENCH_IN_FLIGHT_MAX = 4
    headers = [{"HTTP_X_FORWARDED_FOR": f"203.0.113.9, 198.51.100.{number}"} for number in range(4)]

    def flood() -> list[int]:
        Submission.objects.all().delete()
        data = {"text": factories.SOURCE, "language": "cpp", "judge_again": "1"}
        return [visitor.post(URL, data, **header).status_code for header in headers]

    assert flood() == [302, 429, 429, 429]
    settings.KBENCH_TRUSTED_PROXIES = 1
    assert flood() == [302, 302, 302, 302]
    settings.KBENCH_TRUSTED_PROXIES = 2
    assert flood() == [302, 429, 429, 429]


def test_what_is_left_stands_beside_the_button_before_the_click(as_owner: Client, settings: Any) -> None:
    settings.KBENCH_IN_FLIGHT_MAX = 1
    assert b"0 of 1" in as_owner.get(URL).content
    post(as_owner)
    html = as_owner.get(URL).content
    assert b"1 of 1" in html
    assert b"1 of your evaluations are waiting" in html


def test_the_same_source_is_offered_instead_of_judged_again(as_owner: Client, owner: Any) -> None:
    earlier = factories.judged(factories.passing(2.5), owner=owner)
    response = post(as_owner)
    html = response.content.decode()
    assert response.status_code == 409
    assert "You submitted this exact source" in html
    assert earlier.get_absolute_url() in html
    assert "2.50× over the stronger of eager and torch.compile (95 % interval" in html
    assert Submission.objects.count() == 1
    assert post(as_owner, judge_again="1").status_code == 302
    assert Submission.objects.count() == 2


def test_the_same_source_of_somebody_else_is_named_where_it_is_public(as_stranger: Client, owner: Any) -> None:
    factories.queued(owner=owner)
    assert "source was submitted by olga" in post(as_stranger).content.decode()


@pytest.mark.parametrize("visibility", ["private", "unlisted"])
def test_a_source_that_others_keep_to_themselves_is_never_given_away(
    as_stranger: Client, owner: Any, visibility: str
) -> None:
    factories.queued(owner=owner, visibility=visibility)
    assert post(as_stranger).status_code == 302


def test_what_said_nothing_about_the_source_is_not_offered(visitor: Client) -> None:
    moves.evaluation_cancel(factories.queued(), "Not wanted.")
    factories.judged(factories.report(Verdict.NOISY, "Too noisy."))
    assert post(visitor).status_code == 302


@pytest.mark.parametrize("priority", [Priority.AGENT, Priority.EXAMPLE])
def test_what_waits_behind_people_is_no_answer_for_them(visitor: Client, priority: Priority) -> None:
    factories.queued(priority=priority)
    assert post(visitor).status_code == 302


def test_the_same_source_on_another_device_is_another_thing(visitor: Client) -> None:
    factories.queued(device_kind=factories.gpu_kind())
    assert post(visitor).status_code == 302


def test_an_earlier_source_can_be_edited(visitor: Client) -> None:
    evaluation = factories.queued(text=factories.SOURCE + "// earlier\n")
    assert b"// earlier" in visitor.get(URL, {"from": evaluation.code}).content


def test_nobody_edits_a_private_source_of_somebody_else(as_stranger: Client, owner: Any) -> None:
    evaluation = factories.queued(owner=owner, visibility="private")
    assert as_stranger.get(URL, {"from": evaluation.code}).status_code == 404


def test_a_malformed_from_starts_afresh(visitor: Client) -> None:
    assert visitor.get(URL, {"from": "nonsense"}).status_code == 200


def test_a_quick_check_is_one_click_and_another_one_judges_it_in_full(as_owner: Client) -> None:
    response = post(as_owner, quick="1")
    evaluation = Evaluation.objects.get()
    assert response.url == evaluation.get_absolute_url()
    assert evaluation.is_quick
    record_report(factories.claimed_for_judging(), factories.passing(2.5))
    html = as_owner.get(response.url).content.decode()
    assert "Quick check passed" in html
    assert "a rough estimate, not a measurement" in html
    assert "score-number" not in html
    full = reverse("evaluation-full", args=[evaluation.code])
    assert full in html
    TaskVersion.objects.update(status="retired")
    assert full not in as_owner.get(response.url).content.decode()
    TaskVersion.objects.update(status="active")
    as_owner.post(full)
    assert Evaluation.objects.full().get().submission == evaluation.submission


def beside(client: Client, text: str = factories.SOURCE, **fields: Any) -> HttpResponse:
    return post(client, text, quick="1", beside="1", **fields)


def test_beside_the_editor_a_check_is_the_own_of_an_account_and_a_part_of_the_page(as_owner: Client) -> None:
    html = beside(as_owner, visibility="public").content.decode()
    evaluation = Evaluation.objects.get()
    assert (evaluation.is_quick, evaluation.submission.visibility) == (True, "private")
    part = reverse("evaluation-beside", args=[evaluation.code])
    assert f'hx-get="{part}?at=queued-"' in html
    assert "<html" not in html
    assert as_owner.get(part, {"at": "queued-"}).status_code == 204
    record_report(factories.claimed_for_judging(), factories.passing(2.5))
    html = as_owner.get(part, {"at": "queued-"}).content.decode()
    assert "Quick check passed" in html
    assert "Only you can see it" in html
    assert "hx-get" not in html


def test_beside_the_editor_a_check_without_an_account_has_a_link_alone(visitor: Client) -> None:
    beside(visitor)
    assert Submission.objects.get().visibility == "unlisted"


def test_what_was_checked_beside_the_editor_is_submitted_by_the_same_form(as_owner: Client) -> None:
    for _ in range(2):  # a double click is one check
        beside(as_owner, client_token="a-form")
    post(as_owner, client_token="a-form", visibility="public")
    assert [item.visibility for item in Submission.objects.order_by("pk")] == ["private", "public"]
    assert Evaluation.objects.full().get().submission.visibility == "public"


def test_what_cannot_be_checked_beside_the_editor_is_told_there(visitor: Client, settings: Any) -> None:
    refused = beside(visitor, "int main() {}\n")
    assert refused.status_code == 422
    assert "no PYBIND11_MODULE" in refused.content.decode()
    settings.KBENCH_PUBLIC = True
    settings.SECURE_SSL_REDIRECT = False
    assert "Log in to submit" in beside(visitor).content.decode()
    assert not Submission.objects.exists()


def test_errors_of_the_compiler_are_lines_beside_the_editor(visitor: Client) -> None:
    beside(visitor)
    record_report(factories.claimed_for_judging(), factories.failing(GXX))
    html = visitor.get(reverse("evaluation-beside", args=[Evaluation.objects.get().code])).content.decode()
    assert html.count("data-line=") == 2
    assert "was not declared &lt;b&gt;here&lt;/b&gt;" in html


def test_only_who_asked_for_a_quick_check_has_it_judged_in_full(visitor: Client, as_stranger: Client) -> None:
    post(visitor, quick="1")
    evaluation = Evaluation.objects.get()
    record_report(factories.claimed_for_judging(), factories.passing(2.5))
    full = reverse("evaluation-full", args=[evaluation.code])
    assert full not in as_stranger.get(evaluation.get_absolute_url()).content.decode()
    as_stranger.post(full)
    assert not Evaluation.objects.full().exists()
    visitor.post(full)
    assert Evaluation.objects.full().exists()


def test_a_public_site_looks_at_nothing_before_the_log_in(visitor: Client, settings: Any, monkeypatch: Any) -> None:
    settings.KBENCH_PUBLIC = True
    settings.SECURE_SSL_REDIRECT = False
    looked: list[Any] = []
    monkeypatch.setattr("benchmarks.submissions.checking.check_source", lambda *found: looked.append(found))
    response = visitor.post(URL, {"text": "typed here", "language": "cpp", "check": "1"})
    assert (response.status_code, looked) == (422, [])
    assert "Log in to submit" in response.content.decode()
    assert "typed here" in response.content.decode()


def test_while_others_are_checked_for_long_one_is_told_to_come_back(visitor: Client, monkeypatch: Any) -> None:
    monkeypatch.setattr("benchmarks.submissions.checking.WAIT_S", 0.01)
    with checking._turn:
        html = visitor.post(URL, {"text": factories.SOURCE, "language": "cpp"}).content.decode()
    assert "Too many sources are being checked now" in html
    assert not Evaluation.objects.exists()


GXX = """kernel.cpp: In function 'int f()':
kernel.cpp:3:5: error: 'y' was not declared <b>here</b>
/usr/include/x.h:9:1: error: not of the submission
kernel.cpp:3:5: error: 'y' was not declared <b>here</b>
kernel.cpp:7:1: warning: no return
kernel.cpp:9:2: fatal error: nothing.h: No such file
"""


def test_editing_a_source_that_did_not_compile_names_its_lines(visitor: Client) -> None:
    failed = factories.judged(factories.failing(GXX))
    page = visitor.get(URL, {"from": failed.code}).content.decode()
    assert page.count("data-line=") == 2
    assert (
        'data-severity="error">Line 3</a>: error: &#x27;y&#x27; was not declared &lt;b&gt;here&lt;/b&gt;</li>' in page
    )
    assert "Line 9</a>: error: nothing.h: No such file" in page
    assert failed.get_absolute_url() in page


def test_editing_a_source_that_compiled_names_no_lines(visitor: Client) -> None:
    passed = factories.judged(factories.passing())
    page = visitor.get(URL, {"from": passed.code}).content.decode()
    assert factories.SOURCE.splitlines()[0].replace("<", "&lt;").replace(">", "&gt;") in page
    assert "Messages of the compiler" not in page


def test_messages_of_the_compiler_are_only_for_those_who_may_read_them(visitor: Client, owner: Any) -> None:
    failed = factories.judged(factories.failing(GXX), owner=owner, visibility="private")
    assert visitor.get(URL, {"from": failed.code}).status_code == 404
