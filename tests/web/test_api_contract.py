"""The API against its own description: schemathesis sends what fits it and what does not, and checks every answer.

In-process and with a fixed seed. Each test has a parameter of pytest as well: without one, pytest 9.2 gives the tests
of all operations the same name. Does NOT cover what single operations do (`test_api.py`).
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from django.test import Client
from hypothesis import HealthCheck, Phase, settings
from schemathesis import GenerationMode

from benchmarks import switches
from benchmarks.accounts import tokens
from benchmarks.api.description import PROBLEMS, STATUS_OF
from benchmarks.states import Switch

from . import factories
from .test_api import API, NAME, Program, refused

ROOT = Path(__file__).parents[2]
EXAMPLES = settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def described(*modes: GenerationMode) -> Any:
    """The description as the site serves it, with the application behind it.

    The site takes no text with NUL (a test of its own says so) and ignores parameters that it does not know.
    """
    schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", get_wsgi_application())
    schema.config.generation.update(modes=list(modes), allow_x00=False, allow_extra_parameters=False)
    return schema


everything = described(GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
fitting = described(GenerationMode.POSITIVE)


@pytest.fixture(autouse=True)
def one_connection() -> Iterator[None]:
    """A request must not close the connection in whose transaction the test lives."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture
def token(owner: Any) -> str:
    return tokens.token_create(owner, "contract").text


@pytest.fixture
def headers(request: pytest.FixtureRequest) -> dict[str, str]:
    """Of somebody without a token, or with one."""
    if request.param == "none":
        return {}
    return {"Authorization": f"Bearer {request.getfixturevalue('token')}"}


@pytest.fixture
def program(owner: Any) -> Program:
    return Program(owner)


@everything.parametrize()
@pytest.mark.parametrize("headers", ["none", "token"], indirect=True)
@EXAMPLES
def test_every_answer_is_as_described(case: Any, headers: dict[str, str]) -> None:
    case.call_and_validate(headers=headers)


@fitting.include(path_regex="(submissions|evaluations)/{id}").parametrize()
@pytest.mark.parametrize("wait_s", [0])
@EXAMPLES
def test_of_things_that_exist_every_answer_is_as_described(case: Any, wait_s: int, token: str, owner: Any) -> None:
    evaluation = factories.queued(owner=owner, text=f"{factories.SOURCE}// {id(case)}\n")
    found = evaluation.submission if "/submissions/" in case.path else evaluation
    case.path_parameters["id"] = str(found.code)
    case.query = {**(case.query or {}), **({"wait": wait_s} if "wait" in (case.query or {}) else {})}
    case.call_and_validate(headers={"Authorization": f"Bearer {token}"})


@pytest.mark.parametrize(
    ("body", "content_type", "status", "code"),
    [
        (b"<xml/>", "text/xml", 415, "unsupported-media-type"),
        (b"task=1", "application/x-www-form-urlencoded", 415, "unsupported-media-type"),
        (b"{", "application/json", 400, "bad-request"),
        (b'{"source": "\xff\xfe"}', "application/json", 400, "bad-request"),
        (b'{"task": NaN}', "application/json", 400, "bad-request"),
        (b"[" * 100_000, "application/json", 400, "bad-request"),
        (b"[1, 2]", "application/json", 422, "invalid-request"),
        (b'{"title": "a\\u0000b"}', "application/json", 422, "invalid-request"),
        (b'{"title": ["\\ud800"]}', "application/json", 422, "invalid-request"),
        (b"", "application/json", 422, "invalid-request"),
        (b'{"task": 99999999999999999999999999}', "application/json", 422, "invalid-request"),
    ],
)
def test_bodies_that_cannot_be_read_are_problems(
    program: Program, body: bytes, content_type: str, status: int, code: str
) -> None:
    refused(program.client.post(f"{API}/submissions", body, content_type=content_type), status, code)


def test_source_may_speak_of_nul_without_containing_it(program: Program) -> None:
    assert program.submit(factories.SOURCE + "// not NUL: \\u0000\n").status_code == 202


@pytest.mark.parametrize("address", ["/tasks?q=%00", "/tasks?%00=1", "/methods/a%00b", "/leaderboards?task=%00/x"])
def test_nul_in_an_address_is_a_problem(visitor: Client, address: str) -> None:
    refused(visitor.get(API + address), 400, "bad-request")


def test_bad_utf8_and_doubled_parameters_in_an_address_do_no_harm(visitor: Client) -> None:
    assert visitor.get(f"{API}/tasks?q=%ff%fe").status_code == 200
    assert visitor.get(f"{API}/submissions?page=1&page=1").json()["page"] == 1


@pytest.mark.parametrize(
    "address",
    [
        "/evaluations/no-uuid",
        "/submissions/12345",
        f"/submissions?page={10**30}",
        "/submissions?page=0",
        "/runs?page=-1",
        f"/runs/00000000-0000-0000-0000-000000000000/events?after={10**30}",
        "/evaluations/00000000-0000-0000-0000-000000000000?wait=61",
    ],
)
def test_values_out_of_range_are_problems(visitor: Client, address: str) -> None:
    refused(visitor.get(API + address), 422, "invalid-request")


def test_a_wrong_method_is_told_which_there_are(visitor: Client) -> None:
    response = visitor.put(f"{API}/submissions")
    refused(response, 405, "method-not-allowed")
    assert set(response["Allow"].split(", ")) == {"GET", "POST"}


def test_a_full_quota_says_when_to_come_back(program: Program, settings: Any) -> None:
    settings.KBENCH_IN_FLIGHT_MAX = 1
    program.submit()
    response = program.submit(factories.SOURCE + "// 2\n")
    refused(response, 429, "too-many-submissions")
    assert int(response["Retry-After"]) > 0


def test_a_closed_site_says_when_to_come_back(program: Program) -> None:
    switches.switch_set(Switch.SUBMISSIONS, on=False)
    assert int(program.submit()["Retry-After"]) > 0


def test_pages_link_to_the_next_one(program: Program, visitor: Client) -> None:
    factories.many_entries(60)
    first = visitor.get(f"{API}/submissions", {"task": NAME})
    assert first["Link"] == f'<{API}/submissions?task=mnist_linear_relu%2Fforward&page=2>; rel="next"'
    assert "Link" not in visitor.get(f"{API}/submissions", {"task": NAME, "page": 2})


def test_the_documented_codes_are_those_of_the_description() -> None:
    rows = re.findall(r"^\| (\d{3}) \| (.+) \|$", (ROOT / "docs" / "user-guide.md").read_text(), re.MULTILINE)
    assert {int(status): tuple(re.findall(r"`([a-z-]+)`", codes)) for status, codes in rows} == PROBLEMS


def test_every_code_that_is_raised_is_described() -> None:
    sources = [
        *(ROOT / "benchmarks" / "api").glob("*.py"),
        *(ROOT / "agents" / "api").glob("*.py"),
        ROOT / "agents" / "driving" / "external.py",
        ROOT / "kbench_site" / "middleware.py",
    ]
    raised = {
        code
        for source in sources
        for code in re.findall(r'(?:Problem\(\s*HTTPStatus\.\w+,|SendRefused\()\s*"([a-z-]+)"', source.read_text())
    }
    assert len(raised) > 15
    assert raised <= set(STATUS_OF)
