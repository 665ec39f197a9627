"""What commands print of texts that a submission or a foreign file has written: all of it, as it is."""

from pathlib import Path

import pytest

from benchmarks.harness import Verdict
from benchmarks.harness.report import ConfigReport, Flag, Report, StageReport
from benchmarks.importers import Found
from benchmarks.offline.outcomes import NOT_JUDGED, Outcome
from kbench_site import cli
from kbench_site.cli import local, output, profiling
from tests.profiled import profile

HOSTILE = "[/] [/bold] [bold]x[i] [link=https://example.org]y [[ ]] \\[z] :warning:"


def report(text: str) -> Report:
    return Report(
        task="t",
        suite="s",
        language="cpp",
        device_kind="cpu-avx2",
        ruleset="rk-2",
        verdict=Verdict.RUNTIME_ERROR,
        reason=text,
        source_sha256="0" * 64,
        configs=(ConfigReport(key="n=1", group="single", correct=False, failure=text),),
        stages=(StageReport("load", 1.0, log_tail=text),),
        flags=(Flag("f", text),),
        isolation="strong",
    )


def test_a_report_is_printed_with_its_brackets(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "400")
    local._print_report(report(HOSTILE))
    assert capsys.readouterr().out.count(HOSTILE) == 4


def test_a_profile_and_a_table_are_printed_with_their_brackets(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    profiling._print(profile(HOSTILE))
    assert HOSTILE in capsys.readouterr().out
    output.tell({}, [["a", HOSTILE]], ["one", "two"], as_json=False, title=HOSTILE)
    assert capsys.readouterr().out.count(HOSTILE) == 2


def test_no_command_has_a_screen_of_its_own_with_markup() -> None:
    """A closing tag in a text would end the command with a traceback."""
    for path in Path(cli.__file__).parent.glob("*.py"):
        assert path.name == "output.py" or " Console(" not in path.read_text(), path.name


def test_halves_of_characters_and_control_characters_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    text = "a\ud800b\x1b[31m"
    assert Found("op", "forward", "file", problem=text).problem == "a�b�[31m"
    assert Outcome("p", "f", NOT_JUDGED, text).reason == "a�b�[31m"
    with pytest.raises(SystemExit):
        output.leave(text, 2)
    assert capsys.readouterr().err == "a�b�[31m\n"
