"""The corpus of CUDA kernels and its labelling: what is made, and what becomes of a judge's words.

The judge is replaced here, and once a stand-in for a GPU judges C++. Not covered: labels, which need a GPU.
"""

import json
import multiprocessing
import os
import re
import tempfile
from collections import Counter
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.harness import Paths, Report, SupervisorError, Verdict, judge, tracks
from benchmarks.harness.compilers.builds import Build
from benchmarks.harness.rules import quick_rules
from lab.bench.emulated_corpus import agreement, table
from lab.cuda_corpus.__main__ import main as write_corpus
from lab.cuda_corpus.operators import CUDA_OPERATORS, PARALLEL_FAULTS
from lab.cuda_corpus.specimens import LABELS, CudaSpecimen, planned, read_labels
from lab.gpu import label_cuda, label_together
from lab.gpu.child_process import ChildEndedError, LineChild
from tests.fakes import GPU, report_for
from tests.harness.test_gpu_track import RIGHT, STAND_IN, WRONG


@pytest.fixture(scope="module")
def specimens() -> tuple[CudaSpecimen, ...]:
    return planned()


def test_there_are_more_than_300_kernels_by_more_than_20_operators(specimens: tuple[CudaSpecimen, ...]) -> None:
    counts = Counter(item.operator.name if item.operator else "seed" for item in specimens)
    assert len(specimens) >= 400
    assert len(counts) - 1 == len(CUDA_OPERATORS) >= 40
    assert len({item.sha256 for item in specimens}) == len({item.name for item in specimens}) == len(specimens)
    assert {item.fault for item in CUDA_OPERATORS} == set(PARALLEL_FAULTS)
    assert len({item.seed.task for item in specimens if item.operator}) >= 12


def test_mutants_differ_from_their_seeds_and_keep_the_interface(specimens: tuple[CudaSpecimen, ...]) -> None:
    for item in specimens:
        if item.operator is not None:
            assert item.text != item.seed.text, item.name
            assert re.findall(r"m\.def\(.*", item.text) == re.findall(r"m\.def\(.*", item.seed.text)


def test_the_same_files_are_made_again(tmp_path: Path) -> None:
    assert write_corpus([str(tmp_path), "--faulty", "1", "--equivalent", "1"]) == 0
    lines = [json.loads(line) for line in (tmp_path / "manifest.jsonl").read_text().splitlines()]
    assert {f"{line['name']}.cu" for line in lines} == {path.name for path in tmp_path.glob("*.cu")}
    planned.cache_clear()
    assert [line["sha256"] for line in lines] == [item.sha256 for item in planned(1, 1)]


def test_every_label_belongs_to_a_file_that_can_be_made(specimens: tuple[CudaSpecimen, ...]) -> None:
    made = {item.name: item.sha256 for item in specimens}
    for label in read_labels(LABELS):
        assert made.get(label.name) == label.sha256, f"{label.name} has changed since it was judged"


class PoolHere:
    """Does at once, in this process, what a pool is asked for."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> "PoolHere":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, function, *arguments):  # type: ignore[no-untyped-def]
        future: Future[object] = Future()
        try:
            future.set_result(function(*arguments))
        except SupervisorError as error:
            future.set_exception(error)
        return future


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU by the word of its judge, which finds mutants wrong and fails itself at one of them."""

    def fake_judge(source, task, rules, paths, *, device, quick):  # type: ignore[no-untyped-def]
        assert (device, quick, rules.gpu_time.launches) == ("cuda:0", True, 1)
        if "atomicAdd" in source.text:
            raise SupervisorError("the device was lost")
        wrong = any(item.text == source.text and item.operator for item in planned(1, 1))
        return report_for(source, task, device=GPU, verdict="INCORRECT_VALUE" if wrong else "PASS")

    monkeypatch.setattr(label_cuda, "read_labels", lambda path=Path("/nonexistent"): read_labels(path))  # none shipped
    monkeypatch.setattr(label_cuda, "devices_here", lambda: (GPU,))
    monkeypatch.setattr(label_cuda, "ProcessPoolExecutor", PoolHere)
    monkeypatch.setattr(label_cuda, "judge", fake_judge)


def labelling(file: Path, *more: str) -> int:
    return label_cuda.main(["--labels", str(file), "--faulty", "1", "--equivalent", "1", "--jobs", "1", *more])


def test_labels_are_what_the_judge_says_and_labelling_goes_on_where_it_stopped(
    device: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "labels.jsonl"
    assert labelling(file, "--limit", "3") == 1  # the device was lost at a seed
    assert len(read_labels(file)) == 2
    assert labelling(file) == 1
    labels = read_labels(file)
    lost = [item for item in planned(1, 1) if "atomicAdd" in item.text]
    assert len(labels) == len(planned(1, 1)) - len(lost)
    assert all(label.correct == (label.operator is None) for label in labels)
    out, err = capsys.readouterr()
    summary = json.loads(out.splitlines()[-1])
    assert (summary["labelled"], summary["left"]) == (len(labels) - 2, len(lost))
    assert err.count("our own fault: the device was lost") == len(lost) + 1


def test_nothing_begins_after_the_budget(device: None, tmp_path: Path) -> None:
    assert labelling(tmp_path / "labels.jsonl", "--budget-s", "-1") == 1
    assert read_labels(tmp_path / "labels.jsonl") == []


def test_a_plan_judges_nothing(device: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert labelling(tmp_path / "labels.jsonl", "--plan") == 0
    assert f"{len(planned(1, 1))} to do" in capsys.readouterr().out


def test_without_the_device_nothing_is_labelled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert labelling(tmp_path / "labels.jsonl", "--device", "cuda:77") == 2
    assert "no device 'cuda:77'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verdict", "correct"),
    [
        (Verdict.PASS, True),
        (Verdict.TAMPERING, True),  # about time alone: every configuration was right
        (Verdict.INCORRECT_VALUE, False),
        (Verdict.COMPILE_ERROR, False),
        (Verdict.TIMEOUT, False),
    ],
)
def test_verdicts_about_time_say_nothing_against_results(verdict: Verdict, correct: bool) -> None:
    report = report_for(planned(1, 1)[0].source, planned(1, 1)[0].task, device=GPU)
    report = replace(report, verdict=verdict, score=report.score if verdict is Verdict.PASS else None)
    assert label_cuda.is_correct(report) is correct
    unchecked = replace(report, configs=tuple(replace(item, checked_calls=0) for item in report.configs))
    assert label_cuda.is_correct(unchecked) is (False if not correct else None)


def test_a_quick_judging_takes_two_steps() -> None:
    rules = quick_rules(label_cuda.labelling_rules())
    assert (rules.gpu_time.steps_per_config, rules.gpu_time.launches) == (2, 1)


def place() -> tuple[str, tuple[int, ...]]:
    return tempfile.gettempdir(), tuple(sorted(os.sched_getaffinity(0)))


def test_judgings_side_by_side_have_locks_and_cores_of_their_own() -> None:
    context = multiprocessing.get_context("spawn")
    found = []
    lanes = context.Value("i", 0)
    for _ in range(2):
        with ProcessPoolExecutor(1, mp_context=context, initializer=label_cuda.settle, initargs=(lanes, 2)) as pool:
            found.append(pool.submit(place).result())
    (first, cores), (second, others) = found
    assert first != second
    assert {*cores, *others} <= os.sched_getaffinity(0)
    if len(os.sched_getaffinity(0)) > 1:
        assert not {*cores} & {*others}


@pytest.mark.sandbox
@pytest.mark.parametrize(("text", "correct"), [(RIGHT, True), (WRONG, False)])
def test_the_rules_of_labelling_judge_on_a_stand_in(
    text: str, correct: bool, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracks, "gpus", lambda: (STAND_IN,))
    monkeypatch.setattr(tracks.GpuTrack, "speaks", lambda *_: True)
    rules = label_cuda.labelling_rules()
    rules = replace(rules, gpu=replace(rules.gpu, flush_bytes=1 << 20, spare_bytes=1 << 20, burst_calls=8))
    specimen = next(item for item in planned(1, 1) if item.name == "right.naive")
    source = replace(specimen.source, text=text, language="cpp")
    report: Report = judge(source, specimen.task, rules, paths, device="host:0", quick=True)
    assert label_cuda.is_correct(report) is correct, report.reason


def test_the_table_says_how_often_the_emulator_agrees_with_the_labels() -> None:
    said = {"a": "CORRECT_HERE", "b": "WRONG", "c": "WRONG", "d": "ABSTAINED", "e": "WRONG"}
    words = [{"sha256": key, "verdict": word, "fault": "race", "operator": "x"} for key, word in said.items()]
    labels = {"a": True, "b": True, "c": False, "d": False}
    found = agreement(words, labels)
    assert found == {
        "labelled": 4,
        "right_accepted": 0.5,
        "wrong_rejected": 1.0,
        "balanced_accuracy": 0.75,
        "abstained": 0.25,
    }
    assert "| race | x | 5 | 1 | 3 | 1 | 4 | 2 of 3 |" in list(table(words, labels))
    assert agreement(words, {})["balanced_accuracy"] is None


class TestTogether:
    """Several specimens in one extension, on a GPU that is replaced by a process that answers from a list."""

    def test_each_text_lies_in_a_namespace_and_leaves_no_macro(self) -> None:
        texts = [
            f'#include <torch/extension.h>\n#define TILE {size}\nextern "C" __global__ void k() {{}}\n'
            'PYBIND11_MODULE(TORCH_EXTENSION_NAME, mod) { mod.def("forward", &forward); }\n'
            for size in (8, 16)
        ]
        text = label_together.merged(texts)
        assert text.count("#include <torch/extension.h>") == 1
        assert text.index("#undef TILE") < text.index("namespace specimen1 {")
        assert 'extern "C"' not in text
        assert text.count("static void bind_all(pybind11::module_& mod)") == 2
        assert 'auto m1 = m.def_submodule("specimen1"); specimen1::bind_all(m1);' in text
        assert text.count("PYBIND11_MODULE") == 1

    def test_every_specimen_can_be_merged(self, specimens: tuple[CudaSpecimen, ...]) -> None:
        text = label_together.merged([item.text for item in specimens])
        assert text.count("bind_all(pybind11::module_&") == len(specimens)

    def test_a_kernel_that_ends_the_process_is_wrong_and_the_next_has_a_new_one(
        self, specimens: tuple[CudaSpecimen, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ends = [ChildEndedError(f"exit code {code}") for code in (-6, 1)]
        said = iter(["PASS", ends[0], "INCORRECT_VALUE", "over", ends[1], "PASS"])
        started = []

        class Scripted:
            def __init__(self, *words: str) -> None:
                started.append(words)

            def ask(self, request: dict[str, str], limit_s: float) -> dict[str, object]:
                if "what" in request:
                    return {}
                answer = next(said)
                if isinstance(answer, ChildEndedError):
                    raise answer
                over = answer == "over"
                return {"verdict": "RUNTIME_ERROR" if over else answer, "reason": "", "over": over}

            def close(self) -> None:
                pass

        monkeypatch.setattr(label_together, "LineChild", Scripted)
        extension = Build(binary=Path("extension.so"), log="", seconds=1.0, cached=False, exit_code=0)
        labels = label_together.group_labels(specimens[:6], extension, float("inf"))
        verdicts = [label.verdict for label in labels]
        assert verdicts == ["PASS", "RUNTIME_ERROR", "INCORRECT_VALUE", "RUNTIME_ERROR", "PASS"]
        assert [label.correct for label in labels] == [True, False, False, False, True]
        assert len(started) == 4
        assert specimens[4].name not in [label.name for label in labels]  # the fault was ours
        assert {label.labelled_by for label in labels} == {"comparison"}

    def test_a_process_that_does_not_answer_is_ended(self, monkeypatch: pytest.MonkeyPatch) -> None:
        child = LineChild("timeit", "-n1", "-r1", "import time; time.sleep(100)")
        with pytest.raises(ChildEndedError, match="no answer"):
            child.ask({}, 0.1)
