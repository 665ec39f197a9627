"""The page of attacks shows what the files of the last runs say, and nothing that they do not.

Not covered: how the files come about (`tests/harness/test_redteam.py`), widths and colours (`tests/browser`).
"""

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from benchmarks.catalogue import attacks


def record(**changes: object) -> dict[str, Any]:
    values = {
        "case": "mnist_linear_relu-forward/timer", "kind": "attack", "exploit": "undone freeze",
        "task": "mnist_linear_relu/forward", "language": "cpp", "about": "A timer <b>continues</b> it.",
        "verdict": "TAMPERING", "reason": "it ran while frozen", "noticed": "the supervisor", "control": "honest_loop",
        "control_speedup": 0.17, "speedup": None, "naive": "agrees", "naive_speedup": 7.04, "seconds": 3.0,
        "objection": "",
    }  # fmt: skip
    return {**values, **changes}


def run(*items: dict[str, Any], **changes: object) -> dict[str, Any]:
    values = {
        "date": "2026-11-22", "device_kind": "cpu-avx2", "processor": "EPYC of the test", "ruleset": "rk-2",
        "torch": "2.13", "isolation": "bubblewrap", "steps_per_config": 100, "cases_in_corpus": 180, "controls": 12,
        "attacks": list(items),
    }  # fmt: skip
    return {**values, **changes}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("benchmarks.views.attacks.results_folder", lambda: tmp_path)
    return tmp_path


def write(folder: Path, name: str, data: dict[str, Any]) -> None:
    (folder / f"{name}.json").write_text(json.dumps(data))


def test_says_so_when_nobody_has_run_them(visitor: Client, folder: Path) -> None:
    assert b"The attacks have not been run here yet" in visitor.get("/rules/attacks/").content


def test_shows_date_device_rules_and_every_column(visitor: Client, folder: Path) -> None:
    write(folder, "cpu-avx2", run(record(), record(case="a/honest", kind="honest", exploit="", speedup=1.5)))
    page = visitor.get("/rules/attacks/").content.decode()
    for text in ("2026-11-22", "EPYC of the test", "rule set rk-2", "undone freeze", "TAMPERING", "0.17×", "7.04×"):
        assert text in page
    assert "A timer &lt;b&gt;continues" in page
    assert "All ended as the rules require" in page
    assert "1 hostile or broken and 1 honest" in page
    assert "the active one is" not in page


def test_a_control_that_failed_after_a_file_is_no_further_file(visitor: Client, folder: Path) -> None:
    after = record(case="mnist_linear_relu-forward/honest_loop after", objection="the honest control got TAMPERING")
    write(folder, "cpu-avx2", run(record(), after, cases_in_corpus=1))
    page = visitor.get("/rules/attacks/").content.decode()
    assert "1 of 1 files in the corpus" in page
    assert "1 hostile or broken and 0 honest" in page
    assert "the honest control got TAMPERING" in page


def test_what_is_not_as_demanded_is_said_and_counted(visitor: Client, folder: Path) -> None:
    write(folder, "cpu-avx2", run(record(speedup=0.5, verdict="PASS", objection="it scores 0.50")))
    page = visitor.get("/rules/attacks/").content.decode()
    assert "it scores 0.50" in page
    assert "1 did not end as the rules require" in page
    assert "passed each time" not in page


def test_every_device_has_a_page_and_old_rules_are_named(visitor: Client, folder: Path) -> None:
    write(folder, "cpu-avx2", run(record()))
    write(folder, "cpu-avx512", run(record(), device_kind="cpu-avx512", ruleset="rk-0"))
    assert b"the active one is" in visitor.get("/rules/attacks/?device=cpu-avx512").content
    assert b"?device=cpu-avx512" in visitor.get("/rules/attacks/").content
    assert visitor.get("/rules/attacks/?device=abacus").status_code == 404


def test_is_linked_from_the_rules(visitor: Client) -> None:
    assert b'href="/rules/attacks/"' in visitor.get("/rules/").content


def test_what_a_run_writes_is_what_the_page_reads() -> None:
    written = attacks.run_from_json(run(record(speedup=0.18)))
    assert attacks.run_from_json(json.loads(json.dumps(written.to_json()))) == written
    assert written.attacks[0].gain == pytest.approx(0.18 / 0.17)


def test_the_committed_runs_can_be_read() -> None:
    folder = Path(__file__).parents[2] / "docs" / "results" / "redteam"
    for found in attacks.runs(folder):
        assert found.attacks
        assert (folder / f"{found.device_kind}.json").exists()
