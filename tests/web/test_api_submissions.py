"""The life of a submission over the API: listed, changed, deleted, offered again, metered."""

from typing import Any

import pytest
from django.test import Client

from benchmarks import quotas, services
from benchmarks.judgings import moves
from benchmarks.models import LedgerEntry, Standing, Submission
from benchmarks.states import EvaluationReason, LedgerKind, Origin, Priority

from . import factories
from .test_api import API, NAME, Program, refused


@pytest.fixture
def program(owner: Any) -> Program:
    return Program(owner)


@pytest.fixture
def other(stranger: Any) -> Program:
    return Program(stranger)


@pytest.fixture
def reader(owner: Any) -> Program:
    """The owner, with a token that may only read."""
    return Program(owner, scope="read")


def change(program: Program, code: Any, **fields: Any) -> Any:
    return program.client.patch(f"{API}/submissions/{code}", fields, content_type="application/json")


def delete(program: Program, code: Any) -> Any:
    return program.client.delete(f"{API}/submissions/{code}")


def test_the_owner_hides_and_shows_a_submission(program: Program, owner: Any) -> None:
    code = factories.judged(owner=owner).submission.code
    assert change(program, code, visibility="private").json()["visibility"] == "private"
    assert not Standing.objects.exists()
    assert change(program, code, visibility="public", title="Better").json()["title"] == "Better"
    assert Standing.objects.get().rank == 1


def test_what_is_not_named_is_not_changed(program: Program, owner: Any) -> None:
    submission = factories.judged(owner=owner, visibility="unlisted").submission
    found = change(program, submission.code).json()
    assert (found["visibility"], found["title"]) == ("unlisted", submission.title)


def test_the_owner_deletes_a_submission(program: Program, owner: Any) -> None:
    code = factories.judged(owner=owner).submission.code
    assert delete(program, code).status_code == 204
    refused(program.get(f"/submissions/{code}"), 404, "not-found")
    refused(delete(program, code), 404, "not-found")


@pytest.mark.parametrize("act", [delete, lambda who, code: change(who, code, visibility="unlisted")])
def test_nobody_else_changes_or_deletes_it(
    act: Any, other: Program, reader: Program, owner: Any, visitor: Client
) -> None:
    code = factories.judged(owner=owner).submission.code
    refused(act(other, code), 403, "not-yours")
    refused(act(reader, code), 403, "scope-missing")
    other.client = visitor
    refused(act(other, code), 401, "token-required")
    staff = factories.user("stella")
    type(staff).objects.update(is_staff=True)
    refused(act(Program(staff), code), 403, "not-yours")
    assert Submission.objects.get().visibility == "public"


def test_a_private_one_does_not_exist_for_others(other: Program, owner: Any) -> None:
    code = factories.queued(owner=owner, visibility="private").submission.code
    refused(delete(other, code), 404, "not-found")


def test_what_a_run_made_is_not_deleted(program: Program, owner: Any) -> None:
    code = factories.judged(owner=owner, origin=Origin.AGENT).submission.code
    assert "make the submission private" in refused(delete(program, code), 409, "made-by-a-run")["detail"]


def test_the_code_of_a_refusal_is_that_of_its_reason(program: Program, owner: Any) -> None:
    payer = quotas.payer_of(owner, "")
    judged = factories.judged(owner=owner)
    code = judged.submission.code
    audit = {"reason": EvaluationReason.SITE_AUDIT, "priority": Priority.AGENT}
    services.evaluation_create(judged.submission, device_kind=judged.device_kind, **audit)
    assert "The site itself" in refused(delete(program, code), 409, "cannot-be-changed")["detail"]
    LedgerEntry.objects.create(evaluation=judged, payer=payer, kind=LedgerKind.GRANT, judging_s=1.0)
    for answer in (delete(program, code), change(program, code, visibility="private")):
        assert "paid for by a request" in refused(answer, 409, "paid-answer")["detail"]


def test_an_unknown_visibility_is_refused(program: Program, owner: Any) -> None:
    code = factories.queued(owner=owner).submission.code
    refused(change(program, code, visibility="secret"), 422, "invalid-request")


def test_the_same_source_is_answered_with_the_evaluation_there_is(program: Program) -> None:
    first = program.submit().json()
    body = refused(program.submit(), 409, "identical-source")
    assert body["evaluation"] == first["evaluations"][0]["id"]
    assert program.client.get(body["url"]).status_code == 200
    assert program.submit(judge_again=True).status_code == 202
    assert Submission.objects.count() == 2


def test_a_quick_check_keeps_nobody_from_having_it_judged(program: Program) -> None:
    checked = program.submit(quick=True).json()["evaluations"][0]
    assert checked["quick"]
    judged = program.submit().json()["evaluations"][0]
    assert not judged["quick"]


def test_the_same_key_comes_before_the_same_source(program: Program) -> None:
    assert program.submit(key="k1")["Location"] == program.submit(key="k1")["Location"]


def test_a_full_meter_is_429_with_the_time_to_come_back(program: Program, settings: Any) -> None:
    settings.KBENCH_IN_FLIGHT_MAX = 1
    program.submit()
    response = program.submit(factories.SOURCE + "// again\n")
    body = refused(response, 429, "too-many-submissions")
    assert response["Retry-After"] == str(body["retry_after_s"]) == "15"
    assert (body["meter"]["code"], body["meter"]["used"], body["meter"]["limit"]) == ("in-flight", 1, 1)


def test_publishing_beyond_the_limit_is_429(program: Program, settings: Any) -> None:
    settings.KBENCH_PUBLIC_PER_DAY = 1
    program.submit()
    hidden = program.submit(factories.SOURCE + "// mine\n", visibility="private").json()["id"]
    response = change(program, hidden, visibility="public")
    refused(response, 429, "too-many-submissions")
    assert 86_000 < int(response["Retry-After"]) <= 86_400


def test_the_quota_is_that_of_the_token_or_of_the_address(program: Program, visitor: Client, settings: Any) -> None:
    settings.KBENCH_IN_FLIGHT_MAX = 8
    settings.KBENCH_JUDGING_S_PER_DAY = 0
    program.submit()
    mine = {item["code"]: item for item in program.get("/quota").json()["meters"]}
    assert (mine["in-flight"]["used"], mine["in-flight"]["left"]) == (1, 7)
    assert mine["judging-seconds-per-day"]["limit"] is None
    assert visitor.get(f"{API}/quota").json()["meters"][0] == {
        "code": "in-flight",
        "title": "Waiting or being judged",
        "unit": "evaluations",
        "used": 0,
        "limit": 2,
        "left": 2,
        "retry_after_s": None,
    }


def test_a_list_holds_what_its_reader_may_list(
    program: Program, other: Program, visitor: Client, owner: Any, stranger: Any
) -> None:
    seen = factories.judged(owner=stranger).submission.code
    mine = {factories.queued(owner=owner, visibility=item).submission.code for item in ("private", "unlisted")}

    def codes(response: Any) -> set[str]:
        return {item["id"] for item in response.json()["submissions"]}

    assert codes(program.get("/submissions", mine=True)) == set(map(str, mine))
    for response in (visitor.get(f"{API}/submissions"), program.get("/submissions"), other.get("/submissions")):
        assert codes(response) == {str(seen)}
    refused(visitor.get(f"{API}/submissions", {"mine": True}), 401, "token-required")


def test_a_line_of_the_list_tells_how_its_newest_evaluation_stands(visitor: Client) -> None:
    evaluation = factories.judged(factories.passing(1.5))
    again = services.evaluation_create(evaluation.submission)
    line = visitor.get(f"{API}/submissions", {"task": NAME}).json()["submissions"][0]
    assert (line["evaluation"], line["state"], line["verdict"]) == (str(again.code), "queued", None)
    moves.evaluation_cancel(again, "Not wanted.")
    assert visitor.get(f"{API}/submissions", {"task": "layernorm/forward"}).json()["submissions"] == []
    refused(visitor.get(f"{API}/submissions", {"task": "nothing/forward"}), 404, "unknown-task")


def test_a_list_takes_the_same_number_of_queries_whatever_its_length(
    visitor: Client, django_assert_max_num_queries: Any
) -> None:
    for number in range(12):
        factories.queued(text=f"{factories.SOURCE}// {number}\n")
    with django_assert_max_num_queries(4):
        assert len(visitor.get(f"{API}/submissions").json()["submissions"]) == 12
