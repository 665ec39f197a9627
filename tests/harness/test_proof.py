"""The scripts that prove the GPU track choose what they should, and their tables read raw reports."""

import json
from pathlib import Path

from benchmarks.harness import Source, check_source, default_rules, default_suites, find_task, load_suite
from lab.bench import proof, proof_tables, published

TASKS = {task.name for task in load_suite(default_suites() / "robust_kbench")}


def test_every_task_has_a_cuda_example_and_five_operations_a_triton_one() -> None:
    works = list(proof.chosen("kernels"))
    assert {work.task for work in works if work.file.suffix == ".cu"} == TASKS
    assert len({work.task for work in works if work.file.suffix == ".py"}) >= 5


def test_ten_tasks_have_eager_as_a_submission() -> None:
    works = list(proof.chosen("eager"))
    assert len(works) == 10
    assert {work.task for work in works} <= TASKS


def test_what_the_scripts_judge_gets_past_the_static_check() -> None:
    for what in ("kernels", "eager", "repeat"):
        for work in proof.chosen(what):
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
