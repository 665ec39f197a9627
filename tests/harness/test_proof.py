"""The scripts that prove the GPU track choose what they should, and their tables read raw reports."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.harness import Source, check_source, default_rules, default_suites, find_task, load_suite
from lab.bench import proof, proof_tables, proof_times, published

TASKS = {task.name for task in load_suite(default_suites() / "robust_kbench")}


def test_every_task_has_a_cuda_example_and_five_operations_a_triton_one() -> None:
    works = list(proof.chosen("kernels"))
    assert {work.task for work in works if work.file.suffix == ".cu"} == TASKS
    assert len({work.task for work in works if work.file.suffix == ".py"}) >= 5


def test_kernels_of_another_suite_are_named_with_it() -> None:
    tasks = {f"low-precision/{task.name}" for task in load_suite(default_suites() / "low_precision")}
    works = list(proof.chosen("kernels", suite="low_precision"))
    assert {work.task for work in works if work.file.suffix == ".cu"} == tasks
    assert {find_task(default_suites(), work.task).suite for work in works} == {"low-precision"}


def test_ten_tasks_have_eager_as_a_submission() -> None:
    works = list(proof.chosen("eager"))
    assert len(works) == 10
    assert {work.task for work in works} <= TASKS


def test_what_the_scripts_judge_gets_past_the_static_check() -> None:
    works = [work for what in ("kernels", "eager", "repeat") for work in proof.chosen(what)]
    for work in [*works, *proof.chosen("kernels", suite="low_precision")]:
        source: Source = work.source
        assert check_source(source, find_task(default_suites(), work.task), default_rules()).problem is None, work


def test_a_table_keeps_the_accepted_report_of_a_kernel(tmp_path: Path) -> None:
    raw = tmp_path / "raw.jsonl"
    accepted = {"name": "a", "verdict": "PASS", "reason": "fast", "score": None, "configs": []}
    raw.write_text("".join(json.dumps(item) + "\n" for item in (accepted, {**accepted, "verdict": "NOISY"})))
    assert [record["verdict"] for record in proof_tables.latest([raw])] == ["PASS"]


def test_a_row_says_absent_where_nothing_was_measured() -> None:
    item = {
        "key": "n=1",
        "eager_us": 20.0,
        "compile_us": None,
        "kernel_us": 10.0,
        "speedup": 2.0,
        "roofline_fraction": 0.5,
        "max_rel_error": None,
    }
    assert proof_tables.row(item) == "| n=1 | 20.0 | – | 10.0 | 2.00× | 50% | – |"


def test_a_table_of_another_suite_has_no_columns_of_the_paper() -> None:
    [kept] = proof_tables.latest([Path("docs/results/h100/kernels-rk2.jsonl")])[:1]
    other = {**kept, "suite": "low-precision"}
    assert [next(proof_tables.summary([item], {})).count("|") - 1 for item in (kept, other)] == [10, 8]
    assert len(list(proof_tables.summary([other], {}))[2].split("|")) - 2 == 8
    assert "proof kernels --suite low_precision`" in proof_tables.head(other)


def test_published_kernels_are_found_by_their_tasks(tmp_path: Path) -> None:
    for name in ("mnist_pool/forward/kernel.cu", "mnist_pool/sideways/kernel.cu", "mnist_pool/backward/kernel.txt"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("")
    works, unknown = published.published(tmp_path)
    assert [(work.task, work.language) for work in works] == [("mnist_pool/forward", "cuda")]
    assert {str(path.parent) for path in unknown} == {"mnist_pool/sideways", "mnist_pool/backward"}


def test_a_published_kernel_without_a_score_has_the_reason_in_its_place() -> None:
    record = {"task": "mnist_pool/backward", "verdict": "INCORRECT_VALUE", "reason": "1 of 2 | wrong", "stages": []}
    *_, row = published.table([record], with_paper=True)
    assert row == "| mnist_pool/backward | INCORRECT_VALUE | 1 of 2 / wrong | – | – | – | – | 0, 0 | 1.12× | 1.19× |"


def test_an_interrupted_run_judges_what_is_left_in_rounds() -> None:
    one, two = list(proof.chosen("repeat"))[:2]
    assert proof.left([one, two], 2, {}) == [one, two, one, two]
    assert proof.left([one, two], 2, {one.name: 1}) == [two, one, two]
    assert proof.left([one, two], 2, {one.name: 2, two.name: 3}) == []


@pytest.fixture
def judgings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[int, list[str], Path]]:
    """Runs the script with a judge that takes no time: its exit code, what was judged, and the reports."""
    reports = tmp_path / "reports.jsonl"

    def run(*arguments: str) -> tuple[int, list[str], Path]:
        names: list[str] = []

        def judged(work: proof.Work, *_: object) -> dict[str, object]:
            names.append(work.name)
            score = {
                "speedup": 2.0,
                "ci95": (1.9, 2.1),
                "vs_eager": 2.0,
                "vs_compile": None,
                "timing_trust": "replayed",
            }
            return {"name": work.name, "verdict": "PASS", "reason": "", "seconds": 50.0, "score": score}

        built = SimpleNamespace(exit_code=0, seconds=1.0, log="")
        monkeypatch.setattr(proof, "judged", judged)
        monkeypatch.setattr(proof, "compile_source", lambda *_, **__: built)
        monkeypatch.setattr(proof, "prepare_side_by_side", lambda task, *_, **__: 1.0)
        monkeypatch.setattr(proof, "keep_ready", lambda: None)
        monkeypatch.setattr("sys.argv", ["proof", *arguments, "--reports", str(reports), "--data", str(tmp_path)])
        return proof.main(), names, reports

    return run


def test_a_run_goes_on_where_the_last_one_stopped(judgings: Callable[..., tuple[int, list[str], Path]]) -> None:
    code, names, reports = judgings("kernels", "--only", "mnist_pool", "--ahead")
    assert (code, len(names)) == (0, 3)
    assert judgings("kernels", "--only", "mnist_pool")[1] == []
    assert judgings("repeat", "--only", "mnist_pool", "--times", "3")[1] == ["mnist_pool/forward forward_cuda.cu"] * 2
    assert len(reports.read_text().splitlines()) == 5


def test_nothing_begins_that_would_not_end_in_time(judgings: Callable[..., tuple[int, list[str], Path]]) -> None:
    """Each took 50 s before; of what is new, less is expected."""
    judgings("kernels", "--only", "mnist_pool/forward forward_cuda")
    code, names, _ = judgings("repeat", "--times", "2", "--only", "mnist_pool", "--budget-s", "40")
    assert (code, names) == (1, [])
    assert judgings("repeat", "--times", "2", "--only", "mnist_linear/", "--budget-s", "40")[1] != []


def test_seconds_leave_out_what_is_compiled_once(tmp_path: Path) -> None:
    raw = Path("docs/results/h200/kernels-timestamps.jsonl")
    records = proof_times.accepted([raw])
    assert len(records) == 25
    pool = records["mnist_pool/forward forward_cuda.cu"][0]
    assert proof_times.judging_s(pool) == pytest.approx(pool["seconds"] - 9.3, abs=0.2)
    assert json.loads(proof_times.summary([pool])) == {
        "accepted": 1, "replayed": 1, "cuda_up_to_500_us": 1, "longest": 6.1, "median": 6.1,
    }  # fmt: skip
    row = proof_times.again_row([pool, pool])
    assert row.startswith("| mnist_pool/forward forward_cuda.cu | 2 | 7.0 | ")
    assert row.endswith(" | 1.000 | 1.000 | 1.000 | 1.000 |")
