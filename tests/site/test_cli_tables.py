"""Tables of the commands: whole cells, within the width of the terminal."""

import pytest
from click.testing import CliRunner
from rich.cells import cell_len

from benchmarks.harness import Verdict
from benchmarks.harness.report import ConfigReport, Report
from kbench_site.cli import boards, evaluating, local, main, output
from kbench_site.cli.following import Lines
from kbench_site.cli.tables import table_lines
from tests.site.test_cli_output import report

RUN = "3c34fd35-3f09-454f-82c3-072839922324"


def test_a_table_that_fits_is_aligned() -> None:
    lines = table_lines(("task", "best speedup"), [("pool", "1.50"), ("x·Wᵀ", "–")], 40)
    assert lines == ["      best", "task  speedup", "pool  1.50", "x·Wᵀ  –"]


def test_without_a_width_each_row_is_one_line() -> None:
    lines = table_lines(("task", "computes"), [("pool", "y = max " * 30)], None, prose="computes")
    assert len(lines) == 2
    assert lines[1].count("max") == 30


def test_prose_is_wrapped_before_anything_else() -> None:
    lines = table_lines(("task", "computes"), [("pool", "one two three four five six")], 26, prose="computes")
    assert lines == ["task  computes", "pool  one two three four", "      five six"]


def test_leading_cells_stand_above_the_others_if_the_table_is_too_wide() -> None:
    row = (RUN, "mnist_conv_relu_pool/backward", "agent-template-evo", "finished", "40", "1.50")
    lines = table_lines(("run", "task", "method", "state", "judgings", "best speedup"), [row], 80, heads=2)
    assert lines[-2:] == [f"{RUN}  mnist_conv_relu_pool/backward", "  agent-template-evo  finished  40        1.50"]
    assert max(map(cell_len, lines)) <= 80


def test_control_characters_and_line_ends_of_a_cell_do_not_break_its_row() -> None:
    assert table_lines(("a", "b"), [("x\ny\x1b[1m", "z")], 80)[1] == "x y�[1m  z"


CONFIG = "batch_size=64,num_output_features=128,init_method=kaiming,num_input_features=16000"


def judged(*configs: ConfigReport) -> Report:
    return Report(**{**vars(report("wrong")), "configs": configs, "verdict": Verdict.INCORRECT_VALUE})


@pytest.mark.parametrize(
    "failure", [None, "the result is 3.2 times as far off as the task allows, first at element 17"]
)
def test_every_figure_of_a_report_is_readable_at_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, failure: str | None
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    times = {"kernel_us": 3800.3, "eager_us": 5520.2, "compile_us": 7520.8, "max_rel_error": 4.8e-7}
    times |= {"speedup": 1.44} if failure is None else {}
    first = ConfigReport(key=CONFIG, group="single", correct=failure is None, failure=failure, **times)
    local._print_report(judged(first))
    printed = capsys.readouterr().out
    assert "…" not in printed
    assert CONFIG in printed
    for figure in times.values():
        assert f"{figure:.1e}" in printed or f"{figure:g}" in printed
    assert all(word in printed.split() for word in (failure or "").split())


def test_the_figures_of_a_suite_are_readable_at_80_columns() -> None:
    cells = ("level1/2_Root_mean_square_norm", "level_1_problem_2_sample_0_kernel.py", "NONDETERMINISTIC")
    figures = (
        "12.34",
        "10.12 to 14.56",
        "13.21",
        "wrong on one of seven configurations",
        "12.34",
        "12.34×: other values",
    )
    columns = (*evaluating._COLUMNS, "usual script", "evaporates")
    lines = table_lines(columns, [(*cells, *figures)], 80, prose="remark", heads=2)
    assert max(map(cell_len, lines)) <= 80, lines
    assert "12.34×: other values" in "\n".join(lines)


def test_a_table_without_rows_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    output.tell([], [], ("run", "task"), as_json=False, none="No runs.")
    assert capsys.readouterr().out == "No runs.\n"


def test_addresses_are_never_broken(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    address = f"https://kbench.example/evaluations/{RUN}/"
    output.screen().print(f"submitted: {address}")
    assert address in capsys.readouterr().out


def test_outside_of_a_terminal_a_long_stage_is_told_in_tenths(capsys: pytest.CaptureFixture[str]) -> None:
    told = Lines()
    for done in range(100):
        told.tell("time: paired steps", done, 100)
    lines = capsys.readouterr().err.splitlines()
    assert (len(lines), lines[-1]) == (10, "time: paired steps (90 of 100)")


@pytest.mark.parametrize("command", [("judge", "mnist_pool/forward", __file__), ("tasks",)])
def test_an_interrupted_command_exits_130_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(local, "_judge", interrupt)
    monkeypatch.setattr(boards, "Client", interrupt)
    done = CliRunner().invoke(main, list(command))
    assert (done.exit_code, done.stderr) == (130, "kbench: Interrupted.\n")
