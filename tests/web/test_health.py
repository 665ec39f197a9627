"""What machines ask: alive, ready, metrics, and the lines of the log."""

import io
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpResponse
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.jobs import judging
from benchmarks.operations.logs import log_fields
from benchmarks.states import WorkerRole
from kbench_site.logs import JsonFormatter, TextFormatter

from . import factories
from .test_api import Program

DOCS = Path(__file__).parents[2] / "docs" / "operator-guide.md"
TOKEN = "m" * 32


def everybody() -> None:
    for role in (WorkerRole.JUDGE, WorkerRole.COMPILE, WorkerRole.MAINT):
        factories.worker(role)
    factories.worker(WorkerRole.AGENTS, device_kind=None)


def levels(response: HttpResponse) -> dict[str, str]:
    return {check["name"]: check["status"] for check in response.json()["checks"]}


def test_alive_asks_nothing_of_the_database(visitor: Client, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        response = visitor.get("/healthz")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


def test_with_everything_there_the_site_is_ready(visitor: Client, redis_server: Any) -> None:
    everybody()
    response = visitor.get("/readyz")
    assert (response.status_code, response.json()["status"]) == (200, "ok")
    assert set(levels(response)) == {
        "database", "migrations", "broker", "maint", "agents", "judge.cpu-avx2", "compile.cpu-avx2"
    }  # fmt: skip


def test_without_broker_or_judge_it_is_degraded_and_says_what(visitor: Client) -> None:
    response = visitor.get("/readyz")
    assert (response.status_code, response.json()["status"]) == (200, "degraded")
    assert (levels(response)["broker"], levels(response)["judge.cpu-avx2"]) == ("degraded", "degraded")
    assert "sock" not in response.content.decode()


@pytest.fixture
def database_away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def away() -> None:
        raise DatabaseError("password=secret host=db.example")

    with monkeypatch.context() as patch:
        patch.setattr(connection, "cursor", away)
        yield


def test_without_a_database_it_is_down(visitor: Client, database_away: None) -> None:
    response = visitor.get("/readyz")
    assert (response.status_code, response.json()["status"]) == (503, "down")
    assert b"secret" not in response.content
    assert visitor.get("/healthz").status_code == 200


def test_with_a_migration_missing_it_is_down(visitor: Client) -> None:
    MigrationRecorder(connection).record_unapplied("benchmarks", "0001_initial")
    response = visitor.get("/readyz")
    assert (response.status_code, levels(response)["migrations"]) == (503, "down")


def families(client: Client, **headers: str) -> dict[str, Any]:
    text = client.get("/metrics", headers=headers).content.decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(family: Any, **labels: str) -> float:
    [found] = [sample.value for sample in family.samples if sample.labels == labels]
    return float(found)


def test_metrics_tell_queue_workers_and_outcomes(visitor: Client, redis_server: Any) -> None:
    everybody()
    factories.judged()
    factories.queued(text=factories.SOURCE + "// 2\n")
    found = families(visitor)
    assert value(found["kbench_queue_depth"], device="cpu-avx2", **{"class": "people"}) == 1
    assert value(found["kbench_workers"], role="judge", device="cpu-avx2", state="online") == 1
    assert value(found["kbench_evaluations"], device="cpu-avx2", state="done", verdict="PASS") == 1
    stages = {(s.name, s.labels["stage"]): s.value for s in found["kbench_stage_seconds"].samples}
    assert stages["kbench_stage_seconds_sum", "compile"] == 6.2
    assert found["kbench_queue_oldest_seconds"].samples[0].value >= 0
    assert value(found["kbench_check_ok"], check="database") == 1


def test_metrics_are_told_without_a_broker(visitor: Client) -> None:
    assert value(families(visitor)["kbench_check_ok"], check="broker") == 0


def test_metrics_are_told_without_a_database(visitor: Client, database_away: None) -> None:
    assert value(families(visitor)["kbench_check_ok"], check="database") == 0


def test_the_documented_metrics_are_those_that_there_are(visitor: Client, redis_server: Any) -> None:
    everybody()
    factories.judged()
    factories.queued(text=factories.SOURCE + "// 2\n")
    documented = re.findall(r"^\| `(kbench_\w+)", DOCS.read_text(), re.MULTILINE)
    assert sorted(documented) == sorted(families(visitor))


def test_a_token_closes_the_metrics_to_others(visitor: Client, settings: Any) -> None:
    settings.KBENCH_METRICS_TOKEN = TOKEN
    assert visitor.get("/metrics").status_code == 403
    assert visitor.get("/metrics", headers={"Authorization": f"Bearer {'x' * 32}"}).status_code == 403
    assert "kbench_check_ok" in families(visitor, Authorization=f"Bearer {TOKEN}")


def test_a_public_site_without_a_token_shows_none(visitor: Client, settings: Any) -> None:
    settings.KBENCH_PUBLIC = True
    response = visitor.get("/metrics")
    assert (response.status_code, b"KBENCH_METRICS_TOKEN" in response.content) == (403, True)


@pytest.fixture
def program(owner: Any) -> Program:
    return Program(owner)


@pytest.fixture
def lines() -> Any:
    """What is logged while the test runs, as the JSON of each line."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.addHandler(handler)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.removeHandler(handler)


def test_a_request_has_one_line_with_its_id_and_account(program: Program, owner: Any, lines: Any) -> None:
    response = program.client.get("/api/v1/tasks?q=secret-word", headers={"X-Request-ID": "trace-12345678"})
    assert response["X-Request-ID"] == "trace-12345678"
    [line] = [line for line in lines() if line["logger"] == "kbench.request"]
    assert (line["request_id"], line["user_id"]) == ("trace-12345678", owner.pk)
    assert (line["method"], line["path"], line["status"]) == ("GET", "/api/v1/tasks", 200)
    assert line["duration_ms"] > 0


@pytest.mark.parametrize("given", ["", "short", "x" * 65, "with space 1", "line\nbreak-12", "é" * 10])
def test_an_id_that_is_not_harmless_is_replaced(visitor: Client, given: str) -> None:
    answered = visitor.get("/healthz", headers={"X-Request-ID": given})["X-Request-ID"]
    assert re.fullmatch("[0-9a-f]{32}", answered)


def test_neither_sources_nor_tokens_are_logged(program: Program, lines: Any) -> None:
    program.submit(factories.SOURCE + "// the-source-text\n")
    program.post("/submissions", {"task": 1, "source": "the-source-text"})
    text = json.dumps(lines())
    assert text.count("kbench.request") == 2
    assert "the-source-text" not in text
    assert program.token.text not in text


def test_probes_are_logged_when_they_fail_alone(visitor: Client, lines: Any, settings: Any) -> None:
    visitor.get("/healthz")
    settings.KBENCH_METRICS_TOKEN = TOKEN
    visitor.get("/metrics")
    assert [line["path"] for line in lines() if line["logger"] == "kbench.request"] == ["/metrics"]


def test_a_path_stays_on_one_line(visitor: Client, lines: Any) -> None:
    visitor.get("/nothing%0Aforged%20line")
    [line] = [line for line in lines() if line["logger"] == "kbench.request"]
    assert "\n" not in line["message"]


def test_the_lines_of_a_judging_say_which(lines: Any) -> None:
    evaluation = factories.queued()
    worker = factories.worker("compile").name
    judging._take(worker, "cpu-avx2", WorkerRole.COMPILE, lambda sitting: judging.logger.info("at it"))
    told = [line for line in lines() if line["logger"] == "benchmarks.jobs"]
    assert [line["message"].split(" after")[0] for line in told] == [
        "compile begins, attempt 1", "at it", "compile ends"
    ]  # fmt: skip
    assert {line["evaluation"] for line in told} == {str(evaluation.code)}


def test_text_lines_carry_the_fields_at_their_end() -> None:
    record = logging.LogRecord("kbench", logging.INFO, "", 0, "it %s", ("works",), None)
    with log_fields(run="r1", user_id=None):
        assert TextFormatter().format(record).endswith("INFO kbench it works [run=r1]")
    assert TextFormatter().format(record).endswith("INFO kbench it works")
