"""`kbench eval` from end to end: problems examined, solutions judged, the usual script asked; and what it prints."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import Result

from benchmarks.harness import Device, Paths
from benchmarks.offline import Evaporation, Outcome, Why
from benchmarks.offline import running as running_module
from kbench_site.cli import evaluating

from .conftest import EVALUATED, kbench


@pytest.mark.forkable
@pytest.mark.sandbox
@pytest.mark.usefixtures("sandbox")
def test_a_folder_of_solutions_is_judged_and_the_second_run_judges_nothing(
    paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("1_sample_0", "1_sample_1", "5_sample_0"):
        shutil.copy(EVALUATED / f"solutions/level_1_problem_{name}_kernel.py", tmp_path)
    (tmp_path / "level1_6_broken_file.py").write_text("class ModelNew: pass")
    command = ("eval", str(EVALUATED / "suite"), str(tmp_path), "--quick", "--naive", "--json")
    done = kbench(paths, *command)
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout.splitlines()[-1])
    right, wrong, large, broken = document["solutions"]
    assert (right["verdict"], right["naive"]) == ("PASS", "agrees")
    assert (wrong["verdict"], wrong["naive"], wrong["evaporation"]["why"]) == (
        "INCORRECT_VALUE",
        "agrees",
        "other values",
    )
    assert (large["verdict"], broken["verdict"]) == ("NOT_JUDGED", "NOT_JUDGED")
    assert "too large for a processor: a GPU task. Its arguments and results take at least 19.20 GB" in large["reason"]
    assert "6_Broken_file.py:4" in broken["reason"]
    assert document["summary"]["correct"] == 0.5
    assert document["usual_script"]["reasons"]["other values"] == 1

    monkeypatch.setattr(running_module, "judge", None)
    monkeypatch.setattr(running_module, "opinion", None)
    monkeypatch.setattr("benchmarks.offline.problems.examine", None)
    assert json.loads(kbench(paths, *command).stdout.splitlines()[-1]) == document


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> list[Outcome]:
    """In place of judging."""
    made = [
        Outcome("a/forward", "a.py", "PASS", "told", speedup=1.5, ci95=(1.4, 1.6), vs_eager=2.5, naive="agrees",
                naive_speedup=3.0, evaporation=Evaporation(3.0, 1.5, Why.BASELINE)),
        Outcome("b/forward", "b.py", "INCORRECT_VALUE", "[bold]wrong", naive="agrees", naive_speedup=9.0,
                evaporation=Evaporation(9.0, None, Why.FRESH_INPUTS)),
    ]  # fmt: skip
    monkeypatch.setattr(evaluating, "evaluate", lambda *_: iter(made))
    monkeypatch.setattr(evaluating, "devices_here", lambda: (Device("cpu", "cpu-avx2", "A processor", "cpu"),))
    monkeypatch.setenv("COLUMNS", "200")
    return made


def evaluated(paths: Paths, *options: str) -> Result:
    return kbench(paths, "eval", str(EVALUATED / "suite"), str(EVALUATED / "solutions"), *options)


def test_people_get_a_table_and_the_figures(outcomes: list[Outcome], paths: Paths) -> None:
    done = evaluated(paths, "--naive")
    assert done.exit_code == 0
    lines = [" ".join(line.replace("│", " ").replace("┃", " ").split()) for line in done.stdout.splitlines()]
    assert "a/forward a.py PASS 1.50 1.40 to 1.60 2.50 3.00 2.00×: baseline" in lines
    assert "b/forward b.py INCORRECT_VALUE – – – [bold]wrong 9.00 all: fresh inputs" in lines
    assert (
        "2 of 2 solutions judged, of 2 problems; 0 cannot be judged here, 0 ended with an error of the judge."
        in done.stdout
    )
    assert {"correct 50%", "fast_1 50% 50%", "fast_2 0% 50%"} <= set(lines)
    assert "geometric mean of the correct 1.50 2.50" in lines


def test_without_naive_nobody_asks_the_usual_script(outcomes: list[Outcome], paths: Paths) -> None:
    assert "usual script" not in evaluated(paths).stdout.lower()


def test_an_error_of_ours_is_the_exit_code(outcomes: list[Outcome], paths: Paths) -> None:
    outcomes.append(Outcome("c/forward", "c.py", "NOISY", "too noisy"))
    assert evaluated(paths).exit_code == 3


def test_an_interrupt_says_how_to_go_on(outcomes: list[Outcome], paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_):
        yield outcomes[0]
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluating, "evaluate", interrupted)
    done = evaluated(paths)
    assert (done.exit_code, "continues" in done.stderr) == (130, True)


@pytest.mark.parametrize(
    ("options", "words"),
    [(("--device", "tpu:0"), "there is no device 'tpu:0' here; there are: cpu"), (("--rules", "none"), "none")],
)
def test_wrong_usage_exits_2(outcomes: list[Outcome], paths: Paths, options: tuple[str, ...], words: str) -> None:
    done = evaluated(paths, *options)
    assert (done.exit_code, words in done.stderr) == (2, True)


def test_folders_that_have_nothing_in_common_exit_2(outcomes: list[Outcome], paths: Paths, tmp_path: Path) -> None:
    done = kbench(paths, "eval", str(EVALUATED / "suite"), str(tmp_path))
    assert (done.exit_code, "is named after a problem" in done.stderr) == (2, True)
