"""The public record: what it contains and leaves out, its pages, and the files that `kbench export` makes of it."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pyarrow import parquet

from benchmarks.moderation import decisions
from benchmarks.states import ActionKind
from kbench_site.cli import main
from kbench_site.cli.exporting import columns

from . import factories

URL = "/api/v1/export"


def submitted(speedup: float, **options: Any) -> Any:
    text = f"{factories.SOURCE}// {speedup}\n"
    return factories.judged(factories.passing(speedup, 0.01), text=text, **options).submission


def page(client: Client, **query: Any) -> dict[str, Any]:
    found: dict[str, Any] = client.get(URL, query).json()
    return found


@pytest.fixture
def export(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Runs `kbench export` against this site, two submissions at a time."""

    class Here:
        def get(self, path: str, **query: Any) -> Any:
            given = {name: value for name, value in query.items() if value}
            return Client().get(f"/api/v1/{path}", {**given, "rows": 2}).json()

    monkeypatch.setattr("kbench_site.cli.exporting.Client", Here)

    def run(name: str) -> tuple[Result, Path]:
        return CliRunner().invoke(main, ["export", str(tmp_path / name)]), tmp_path / name

    return run


def test_a_submission_comes_with_source_score_rank_and_configurations(visitor: Client, owner: Any) -> None:
    made = submitted(2.0, owner=owner)
    (row,) = page(visitor)["submissions"]
    assert (row["id"], row["task"], row["by"], row["method"]) == (
        str(made.code),
        "robust-kbench/mnist_linear_relu/forward",
        "olga",
        "human",
    )
    assert row["source"] == made.blob.text
    (judged,) = row["evaluations"]
    assert (judged["verdict"], judged["speedup"], judged["rank"], judged["device"]) == ("PASS", 2.0, 1, "cpu-avx2")
    assert judged["speedup_lo"] < judged["speedup"] < judged["speedup_hi"]
    assert {config["kernel_us"] for config in judged["configs"] if config["group"] != "hidden"} == {50.0}


def test_rejected_and_waiting_submissions_are_part_of_the_record(visitor: Client) -> None:
    factories.judged(factories.failing(), text="// fails\n")
    factories.queued()
    failed, waiting = page(visitor)["submissions"]
    assert (failed["evaluations"][0]["verdict"], failed["evaluations"][0]["speedup"]) == ("COMPILE_ERROR", None)
    assert waiting["evaluations"] == []


def test_what_is_not_public_or_hidden_is_left_out_even_for_its_owner(owner: Any, as_owner: Client, staff: Any) -> None:
    for visibility in ("private", "unlisted"):
        submitted(1.5 if visibility == "private" else 1.6, owner=owner, visibility=visibility)
    hidden = submitted(1.7, owner=owner)
    decisions.decide(hidden, ActionKind.HIDE, by=staff, reason="Not a kernel.", note="")
    assert page(as_owner) == {"submissions": [], "next": None}


def test_pages_contain_each_submission_once(visitor: Client) -> None:
    made = [str(submitted(speedup).code) for speedup in (1.1, 1.2, 1.3)]
    first = page(visitor, rows=2)
    second = page(visitor, rows=2, after=first["next"])
    assert [row["id"] for row in (*first["submissions"], *second["submissions"])] == made
    assert second["next"] is None


def test_a_page_after_something_unknown_or_private_is_a_problem(visitor: Client, owner: Any) -> None:
    private = submitted(1.5, owner=owner, visibility="private")
    for code in (uuid.uuid4(), private.code):
        response = visitor.get(URL, {"after": code})
        assert (response.status_code, response.json()["code"]) == (404, "not-found")


def test_a_page_makes_as_many_queries_for_one_as_for_three(visitor: Client) -> None:
    counts = []
    for speedups in ((1.1,), (1.2, 1.3)):
        for speedup in speedups:
            submitted(speedup)
        with CaptureQueriesContext(connection) as caught:
            page(visitor)
        counts.append(len(caught))
    assert counts[0] == counts[1]


def test_lines_of_json_hold_every_submission(export: Any) -> None:
    made = [str(submitted(speedup).code) for speedup in (1.1, 1.2, 1.3)]
    result, file = export("record.jsonl")
    assert result.exit_code == 0, result.output
    assert [json.loads(line)["id"] for line in file.read_text().splitlines()] == made


def test_parquet_holds_the_same_as_the_api(export: Any, visitor: Client) -> None:
    for speedup in (1.1, 1.2):
        submitted(speedup)
    factories.judged(factories.failing(), text="// fails\n")
    result, file = export("record.parquet")
    assert result.exit_code == 0, result.output
    assert parquet.read_table(file).to_pylist() == page(visitor)["submissions"]


def test_parquet_has_every_column_of_the_description(visitor: Client) -> None:
    schemas = visitor.get("/api/v1/openapi.json").json()["components"]["schemas"]
    schema = columns()
    evaluation = schema.field("evaluations").type.value_type
    config = evaluation.field("configs").type.value_type
    for name, kind in (("ExportedSubmission", schema), ("ExportedEvaluation", evaluation), ("ExportedConfig", config)):
        assert {field.name for field in kind} == set(schemas[name]["properties"])


@pytest.mark.parametrize("name", ["record.csv", "record"])
def test_a_file_of_another_kind_is_refused_and_nothing_is_written(export: Any, name: str) -> None:
    result, file = export(name)
    assert result.exit_code == 2
    assert "must end with .jsonl or .parquet" in result.output
    assert not file.exists()
