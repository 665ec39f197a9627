"""The HTTP API: what it takes, what it refuses with which code, and whose token may do what."""

import json
import threading
import time
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchmarks import services, switches
from benchmarks.accounts import tokens
from benchmarks.judgings import moves
from benchmarks.models import ApiToken, Evaluation, Submission
from benchmarks.states import Switch

from . import factories

API = "/api/v1"
NAME = "mnist_linear_relu/forward"


class Program:
    """Somebody with a token."""

    def __init__(self, owner: Any, **options: Any) -> None:
        self.token = tokens.token_create(owner, "test", **options)
        self.client = Client(headers={"Authorization": f"Bearer {self.token.text}"})

    def get(self, path: str, **query: Any) -> HttpResponse:
        return self.client.get(API + path, query)

    def post(self, path: str, body: Any = None, **headers: str) -> HttpResponse:
        return self.client.post(API + path, body or {}, content_type="application/json", headers=headers)

    def submit(self, source: str = factories.SOURCE, key: str = "", **fields: Any) -> HttpResponse:
        headers = {"Idempotency-Key": key} if key else {}
        return self.post("/submissions", {"task": NAME, "language": "cpp", "source": source, **fields}, **headers)


@pytest.fixture
def program(owner: Any) -> Program:
    return Program(owner)


def refused(response: HttpResponse, status: int, code: str) -> dict[str, Any]:
    assert (response.status_code, response["Content-Type"]) == (status, "application/problem+json")
    body: dict[str, Any] = response.json()
    assert body["code"] == code
    return body


def test_a_submission_is_queued_and_its_location_tells_how_it_goes_on(program: Program, owner: Any) -> None:
    response = program.submit(title="By program")
    evaluation = Evaluation.objects.get()
    assert response.status_code == 202
    assert response["Location"] == f"{API}/evaluations/{evaluation.code}"
    assert (evaluation.submission.owner, evaluation.submission.origin) == (owner, "api")
    found = program.client.get(response["Location"]).json()
    assert (found["state"], found["task"], found["device"]) == ("queued", f"robust-kbench/{NAME}", "cpu-avx2")
    assert "worker" in found["waiting"]


def test_the_remarks_of_a_look_at_the_text_come_along(program: Program) -> None:
    remarks = program.submit().json()["remarks"]
    assert any(remark["line"] == 4 for remark in remarks)


def test_the_same_key_is_one_submission(program: Program) -> None:
    first, second = program.submit(key="k1"), program.submit(key="k1")
    assert first["Location"] == second["Location"]
    assert Submission.objects.count() == 1


def test_the_same_key_with_another_source_is_a_conflict(program: Program) -> None:
    program.submit(key="k1")
    refused(program.submit(factories.SOURCE + "// other\n", key="k1"), 409, "idempotency-key-reused")


def test_keys_of_two_accounts_do_not_meet(program: Program, stranger: Any) -> None:
    other = Program(stranger).submit(key="k1")
    assert program.submit(key="k1", judge_again=True)["Location"] != other["Location"]


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"task": "nothing/forward"}, 404, "unknown-task"),
        ({"task": "nothing"}, 404, "unknown-task"),
        ({"language": "fortran"}, 422, "unknown-language"),
        ({"device": "abacus"}, 422, "no-such-device"),
        ({"source": "int main() {}"}, 422, "source-refused"),
        ({"source": "// x\n" * 60_000}, 413, "source-too-large"),
        ({"visibility": "secret"}, 422, "invalid-request"),
    ],
)
def test_what_cannot_be_submitted_is_refused_with_a_code(
    program: Program, fields: dict[str, str], status: int, code: str
) -> None:
    assert refused(program.submit(**fields), status, code)["detail"]
    assert not Submission.objects.exists()


def test_a_body_that_is_no_json_is_refused(program: Program) -> None:
    response = program.client.post(f"{API}/submissions", "{", content_type="application/json")
    refused(response, 400, "bad-request")


def test_without_a_token_nothing_is_submitted(visitor: Client) -> None:
    response = visitor.post(f"{API}/submissions", json.dumps({"task": NAME, "language": "cpp", "source": "x"}),
                            content_type="application/json")  # fmt: skip
    refused(response, 401, "token-required")
    assert "Bearer" in response["WWW-Authenticate"]


def test_the_session_of_a_browser_counts_for_nothing(as_owner: Client, owner: Any) -> None:
    response = as_owner.post(f"{API}/submissions", {"task": NAME, "language": "cpp", "source": factories.SOURCE},
                             content_type="application/json")  # fmt: skip
    refused(response, 401, "token-required")
    private = factories.queued(owner=owner, visibility="private")
    refused(as_owner.get(f"{API}/evaluations/{private.code}"), 404, "not-found")


def test_a_token_that_may_read_only_cannot_submit(owner: Any) -> None:
    refused(Program(owner, scope="read").submit(), 403, "scope-missing")


@pytest.mark.parametrize("end", ["expired", "revoked", "unknown", "account closed"])
def test_a_token_that_has_ended_is_refused_everywhere(program: Program, owner: Any, end: str) -> None:
    row = ApiToken.objects.filter(pk=program.token.row.pk)
    acts = {
        "expired": lambda: row.update(expires=timezone.now() - timedelta(seconds=1)),
        "revoked": lambda: tokens.token_revoke(owner, program.token.row.pk),
        "unknown": row.delete,
        "account closed": lambda: type(owner).objects.update(is_active=False),
    }
    acts[end]()
    refused(program.get("/tasks"), 401, "invalid-token")


def test_the_text_of_a_token_is_kept_nowhere(program: Program) -> None:
    row = ApiToken.objects.values().get()
    assert program.token.text not in str(row)


def test_private_evaluations_are_read_with_the_token_of_their_owner_alone(program: Program, stranger: Any) -> None:
    code = program.submit(visibility="private").json()["evaluations"][0]["id"]
    assert program.get(f"/evaluations/{code}").status_code == 200
    refused(Program(stranger).get(f"/evaluations/{code}"), 404, "not-found")
    refused(Program(stranger).get(f"/submissions/{Submission.objects.get().code}"), 404, "not-found")


def test_a_finished_evaluation_has_score_and_report(visitor: Client) -> None:
    evaluation = factories.judged(factories.passing(1.5))
    found = visitor.get(f"{API}/evaluations/{evaluation.code}").json()
    assert (found["verdict"], found["score"]["speedup"], found["waiting"]) == ("PASS", 1.5, None)
    assert found["report"]["configs"][0]["correct"] is True


def test_a_submission_lists_its_evaluations(visitor: Client) -> None:
    evaluation = factories.judged()
    found = visitor.get(f"{API}/submissions/{evaluation.submission.code}").json()
    assert [item["id"] for item in found["evaluations"]] == [str(evaluation.code)]


def test_waiting_for_what_has_ended_takes_no_time(visitor: Client) -> None:
    evaluation = factories.judged()
    assert visitor.get(f"{API}/evaluations/{evaluation.code}", {"wait": 30}).json()["state"] == "done"
    refused(visitor.get(f"{API}/evaluations/{evaluation.code}", {"wait": 600}), 422, "invalid-request")


def test_a_search_is_short(visitor: Client) -> None:
    """Each word is one more condition of the query."""
    assert visitor.get(f"{API}/tasks", {"q": "a " * 50}).status_code == 200
    refused(visitor.get(f"{API}/tasks", {"q": "a " * 51}), 422, "invalid-request")


@pytest.mark.alone
@pytest.mark.django_db(transaction=True)
def test_waiting_ends_when_the_evaluation_does(visitor: Client) -> None:
    evaluation = factories.queued()
    started = time.monotonic()
    cancel = threading.Timer(0.5, lambda: (moves.evaluation_cancel(evaluation, "Not wanted."), connection.close()))
    cancel.start()
    response = visitor.get(f"{API}/evaluations/{evaluation.code}", {"wait": 30})
    cancel.join()
    assert response.json()["state"] == "cancelled"
    assert time.monotonic() - started < 10


def test_its_owner_cancels_an_evaluation_once(program: Program, stranger: Any) -> None:
    code = program.submit().json()["evaluations"][0]["id"]
    refused(Program(stranger).post(f"/evaluations/{code}/cancel"), 403, "not-yours")
    assert program.post(f"/evaluations/{code}/cancel").json()["state"] == "cancelled"
    refused(program.post(f"/evaluations/{code}/cancel"), 409, "already-ended")


@pytest.mark.parametrize("reason", ["rejudge", "audit", "contest"])
def test_what_staff_or_a_contest_have_judged_is_not_its_authors_to_cancel(
    program: Program, staff: Any, reason: str
) -> None:
    """Otherwise nobody whose entry is doubted would ever be judged again."""
    mine = Submission.objects.get(code=program.submit().json()["id"])
    again = services.evaluation_create(mine, reason=reason)
    why = (404, "not-found") if reason == "contest" else (403, "not-yours")  # nobody but staff reads an open final
    refused(program.post(f"/evaluations/{again.code}/cancel"), *why)
    again.refresh_from_db()
    assert again.state == "queued"
    assert Program(staff).post(f"/evaluations/{again.code}/cancel").json()["state"] == "cancelled"


def test_paused_submissions_are_told_with_their_reason(program: Program) -> None:
    switches.switch_set(Switch.SUBMISSIONS, on=False, message="disk is full")
    assert "disk is full" in refused(program.submit(), 503, "submissions-closed")["detail"]


def test_a_queued_evaluation_tells_its_place_and_how_long_it_waits(visitor: Client) -> None:
    for number in range(3):
        factories.judged(text=factories.SOURCE + f"// {number}\n")
    rows = [factories.queued(text=factories.SOURCE + f"// waits {number}\n") for number in range(2)]
    found = [visitor.get(f"{API}/evaluations/{row.code}").json()["queue"] for row in rows]
    assert [(queue["position"], queue["ahead"], queue["running"]) for queue in found] == [(1, 0, 0), (2, 1, 0)]
    assert 0 < found[0]["wait_s_low"] <= found[0]["wait_s_high"] < found[1]["wait_s_low"]
    assert found[0]["no_estimate"] is None


def test_without_judgings_before_there_is_a_place_and_no_estimate(visitor: Client) -> None:
    factories.worker()
    queue = visitor.get(f"{API}/evaluations/{factories.queued().code}").json()["queue"]
    assert (queue["position"], queue["wait_s_low"], queue["wait_s_high"]) == (1, None, None)
    assert "Fewer than 3" in queue["no_estimate"]


def test_what_has_ended_has_no_place(visitor: Client) -> None:
    assert visitor.get(f"{API}/evaluations/{factories.judged().code}").json()["queue"] is None


def test_tasks_are_listed_with_their_best_entry(visitor: Client) -> None:
    factories.judged(factories.passing(1.5))
    found = {item["name"]: item for item in visitor.get(f"{API}/tasks").json()}
    assert (found[NAME]["entries"], found[NAME]["best"]) == (1, 1.5)
    assert len(found) == 4


def test_a_task_comes_with_configurations_and_starter_code(visitor: Client) -> None:
    found = visitor.get(f"{API}/tasks/robust-kbench/{NAME}").json()
    assert found["configurations"]["cpu"]["shown"] == 5
    assert "PYBIND11_MODULE" in found["starter"]["cpp"]
    refused(visitor.get(f"{API}/tasks/robust-kbench/nothing/forward"), 404, "not-found")


def test_a_leaderboard_is_json_or_csv(visitor: Client) -> None:
    factories.judged(factories.passing(1.5))
    board = visitor.get(f"{API}/leaderboards", {"task": NAME}).json()
    assert [(entry["rank"], entry["score"]["speedup"]) for entry in board["entries"]] == [(1, 1.5)]
    text = visitor.get(f"{API}/leaderboards", {"task": NAME, "format": "csv"}).content.decode()
    assert text.splitlines()[1].startswith("1,1,1.5,")


def test_a_name_in_a_csv_is_no_formula(visitor: Client) -> None:
    factories.judged(factories.passing(1.5), owner=factories.user("+1"))
    text = visitor.get(f"{API}/leaderboards", {"task": NAME, "format": "csv"}).content.decode()
    assert ",'+1," in text


def test_the_status_tells_queues_and_workers(visitor: Client) -> None:
    factories.worker()
    factories.queued()
    found = visitor.get(f"{API}/status").json()
    assert (found["queues"][0]["queued"], found["queues"][0]["workers"]) == (1, 1)
    assert found["workers"][0]["state"] == "online"


def test_unknown_addresses_and_wrong_methods_are_told_as_json(visitor: Client) -> None:
    refused(visitor.get(f"{API}/nothing"), 404, "not-found")
    refused(visitor.delete(f"{API}/tasks"), 405, "method-not-allowed")


def test_the_description_names_every_endpoint(visitor: Client) -> None:
    paths = visitor.get(f"{API}/openapi.json").json()["paths"]
    assert {path.removeprefix(API) for path in paths} == {
        "/tasks", "/tasks/{suite}/{op}/{direction}", "/submissions", "/submissions/{id}", "/quota", "/whoami",
        "/evaluations/{id}", "/evaluations/{id}/cancel", "/evaluations/{id}/source", "/evaluations/{id}/profile",
        "/leaderboards", "/status",
        "/leaderboards/record", "/methods", "/methods/{slug}", "/overall", "/compare", "/data", "/export",
        "/runs", "/runs/{id}", "/runs/{id}/events", "/runs/{id}/fork", "/runs/{id}/{wish}",
        "/runs/{id}/candidates", "/runs/{id}/candidates/{key}", "/runs/{id}/close",
        "/checks", "/checks/{id}", "/contests", "/contests/{slug}", "/contests/{slug}/join", "/notifications",
        "/notifications/read", "/recorded", "/recorded/{bundle}", "/recorded/{bundle}/entries/{id}",
        "/submissions/{id}/comments", "/requests", "/requests/{id}", "/requests/{id}/vote",
    }  # fmt: skip


def test_the_description_says_where_a_token_is_asked_for(visitor: Client) -> None:
    described = visitor.get(f"{API}/openapi.json").json()
    assert described["components"]["securitySchemes"]["Token"]["scheme"] == "bearer"
    assert described["paths"][f"{API}/submissions"]["post"]["security"] == [{"Token": []}]
    assert {} in described["paths"][f"{API}/evaluations/{{id}}"]["get"]["security"]


def test_the_page_of_the_api_loads_nothing_from_elsewhere(visitor: Client) -> None:
    html = visitor.get(f"{API}/docs").content.decode()
    assert "swagger-ui-bundle" in html
    assert "://" not in html


@pytest.mark.django_db(transaction=True)
def test_the_event_stream_takes_a_token(program: Program) -> None:
    code = program.submit(visibility="private").json()["evaluations"][0]["id"]
    path = f"{reverse('events')}?topics=evaluation:{code}"
    assert Client().get(path).status_code == 404
    assert program.client.get(path).status_code == 200


def test_a_token_is_made_at_the_command_line(visitor: Client) -> None:
    with pytest.raises(CommandError, match="no account"):
        call_command("create_token", "nina")
    out = StringIO()
    call_command("create_token", "nina", "--create", stdout=out)
    token = tokens.token_find(out.getvalue().split()[-1])
    assert token is not None
    assert token.owner.get_username() == "nina"
