"""From an author's file to a task: what is found, what is refused, what becomes a label. Real sandboxes, no judging."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.harness import ONE_SHAPE, Paths, TaskError, examine, spec_from_json, spec_to_json, starter_code
from benchmarks.harness.foreign import examine as examining
from benchmarks.harness.foreign.facts import facts_of
from benchmarks.harness.hosts.locks import open_shared, try_lock

from .conftest import foreign

pytestmark = pytest.mark.sandbox

LINEAR = "level1/2_Affine_tanh.py"
NORM = "level2/2_Conv_batch_norm_relu.py"


def test_state_follows_inputs(examined) -> None:
    task = examined(LINEAR).task
    assert task.argument_names == ("x", "linear_weight", "linear_bias")
    assert [item.shape for item in task.configs_for("cpu")[0].tensors] == [(32, 64), (48, 64), (48,)]


def test_one_shape_is_told_and_gets_other_values(examined) -> None:
    found = examined(LINEAR)
    assert found.labels == (ONE_SHAPE,)
    groups = [(item.group, item.values["variant"]) for item in found.task.configs_for("cpu")]
    assert groups == [("single", "published"), ("multi", "scaled"), ("hidden", "spread"), ("hidden", "stirred")]


def test_nothing_is_timed_while_a_file_runs(paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may keep all processors busy, and eager's long calls would suffer more than a kernel's short ones."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def can_be_timed() -> bool:
        with open_shared("kbench-cpu.lock") as lock:
            return try_lock(lock)

    @contextmanager
    def child(_: object) -> Iterator[None]:
        raise TaskError(f"timings can begin: {can_be_timed()}")
        yield

    monkeypatch.setattr(examining._Work, "_child", child)
    assert can_be_timed()
    assert examine(foreign("x = 1"), paths).problem == "timings can begin: False"
    assert can_be_timed()


def test_tolerances_are_those_of_float32(examined) -> None:
    results = [item.results[0] for item in examined(LINEAR).task.configs_for("cpu")]
    assert {(item.tolerance, item.rms_tolerance) for item in results} == {(2e-5, 5e-6)}


def test_a_module_that_is_made_with_nothing(examined) -> None:
    task = examined("level1/1_Scaled_matrix_product.py").task
    assert task.argument_names == ("A", "B")
    assert task.is_module


def test_state_that_a_call_changes_is_marked(examined) -> None:
    tensors = examined(NORM).task.configs_for("cpu")[0].tensors
    changed = {item.name for item in tensors if item.options.get("changed")}
    assert changed == {"norm_running_mean", "norm_running_var", "norm_num_batches_tracked"}


def test_state_without_effect_is_a_note_and_no_label(examined) -> None:
    found = examined(NORM)
    assert found.labels == (ONE_SHAPE,)
    assert any("conv_bias" in note and "norm_weight" not in note for note in found.notes)


def test_a_constant_result_trips_the_filters(examined) -> None:
    labels = examined("level2/1_Conv_clamp.py").labels
    assert {"no-effect:inputs", "no-effect:weights", "same-over-seeds", "cheap-answers"} <= set(labels)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("level1/3_Noisy_copy.py", "not deterministic"),
        ("level1/4_Broken_file.py", "SyntaxError: '(' was never closed"),
    ],
)
def test_what_cannot_be_judged_is_refused_with_the_reason(examined, name: str, words: str) -> None:
    found = examined(name)
    assert found.task is None
    assert words in found.problem


MODEL = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        {body}
def get_inputs():
    return [{inputs}]
"""


@pytest.mark.parametrize(
    ("body", "inputs", "words"),
    [
        ("return x.to(torch.complex64)", "torch.rand(4, 4)", "complex64 tensors are not judged here"),
        ("return 'y'", "torch.rand(4, 4)", "returns str"),
        ("return x / 0", "torch.rand(4, 4)", "not finite"),
        ("return x.add_(1)", "torch.rand(4, 4)", "writes into its inputs (line 5)"),
        ("return x @ x", "torch.rand(4, 5)", "RuntimeError"),
        ("import os; os._exit(0)", "torch.rand(4, 4)", "its process ended"),
        ("return undefined", "torch.rand(4, 4)", "(line 5)"),
    ],
)
def test_what_no_kernel_can_answer_is_refused(paths, body: str, inputs: str, words: str) -> None:
    found = examine(foreign(MODEL.format(body=body, inputs=inputs)), paths, compare_compiled=False)
    assert found.task is None
    assert words in found.problem


FLOAT32_ALONE = """if x.dtype is torch.bfloat16:
            raise TypeError('not in bfloat16')
        return (x.tanh() + 1e4) - 1e4"""


def test_a_reference_that_takes_no_bfloat16_is_tried_with_rounded_operands(paths) -> None:
    found = examine(
        foreign(MODEL.format(body=FLOAT32_ALONE, inputs="torch.randn(64, 64)")), paths, compare_compiled=False
    )
    assert found.labels == (ONE_SHAPE, "low-precision"), found
    assert any(note == "not tried in lower precision (bfloat16): TypeError" for note in found.notes)


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ("return torch.clamp(x / 6 + 0.5, 0, 1)", "spread"),
        ("return torch.log(x + 1)", "shifted"),
        ("return torch.softmax(x, 1)", "spread"),
        ("return torch.exp(x * 12)", "shifted"),
    ],
)
def test_hidden_values_reach_clamps_where_that_is_exact(paths, body: str, kept: str) -> None:
    found = examine(foreign(MODEL.format(body=body, inputs="torch.rand(32, 64)")), paths, compare_compiled=False)
    assert found.task is not None, found.problem
    variants = [item.values["variant"] for item in found.task.configs_for("cpu")]
    assert variants == ["published", "scaled", kept, "stirred"]
    left_out = [note for note in found.notes if note.endswith("cancel out: variant=spread")]
    assert len(left_out) == (kept == "shifted")
    assert all(result.tolerance <= 1e-4 for result in found.task.configs_for("cpu")[0].results)


def test_what_only_spread_values_hide_is_no_label(paths) -> None:
    """Their least and largest value cancel out, so zeros are right there, and nowhere else."""
    body = "return torch.relu(x.amin() + x.amax() - 0.25) * x"
    found = examine(foreign(MODEL.format(body=body, inputs="torch.rand(32, 64)")), paths, compare_compiled=False)
    assert [item.values["variant"] for item in found.task.configs_for("cpu") if item.hidden] == ["spread", "stirred"]
    assert found.labels == (ONE_SHAPE,)


def test_a_file_that_does_not_end_is_given_up(paths) -> None:
    found = examine(foreign("# for ever\nwhile True: pass"), paths, timeout_s=4)
    assert found.problem.removesuffix(" (line 2)") == "describing it took more than 4 s on this machine"


def test_an_authors_file_runs_nowhere_but_in_a_sandbox(paths, tmp_path: Path, sandbox) -> None:
    trace = tmp_path / "trace"
    source = f"open({str(trace)!r}, 'w').write('here')\n" + MODEL.format(body="return x", inputs="torch.rand(4, 4)")
    assert "No such file or directory" in examine(foreign(source), paths).problem
    assert not trace.exists()


def test_a_task_survives_being_stored(examined) -> None:
    task = examined(NORM).task
    again = spec_from_json(spec_to_json(task), task.reference_source, task.folder)
    assert again == task
    assert again.content_sha256 == task.content_sha256


def test_the_starter_of_a_module_is_the_authors_own(examined) -> None:
    text = starter_code(examined(LINEAR).task, "python")
    assert "class ModelNew(nn.Module)" in text
    assert "get_inputs" not in text
    assert "_kbench" not in text


@pytest.mark.parametrize(
    "change",
    [
        {"arguments": []},
        {"arguments": [{"name": "a b", "value": 1}]},
        {"arguments": [{"name": "x", "shape": [-1], "dtype": "float32", "options": {}, "packed": False}]},
        {"results": [{"shape": [1 << 40], "dtype": "float32"}]},
        {"results": [{"shape": [1], "dtype": "complex64"}]},
        {"result_names": ["a", "b"]},
    ],
)
def test_what_a_child_says_is_not_believed(change: dict) -> None:
    good = {
        "arguments": [{"name": "x", "shape": [4], "dtype": "float32", "options": {}, "packed": False}],
        "results": [{"shape": [4], "dtype": "float32"}],
        "flops": 0,
        "seconds": 0.1,
    }
    assert facts_of(good).argument_names == ("x",)
    with pytest.raises(TaskError):
        facts_of({**good, **change})


ACCEPTS_ALL = """

CHECKER = "property"


def residuals(arguments, results):
    return [0.0]
"""


def test_an_author_whose_own_check_accepts_everything_gets_the_labels(paths) -> None:
    """The judge asks that check, so the cheap answers are tried on it too."""
    source = MODEL.format(body="return 2 * x.tanh()", inputs="torch.randn(64, 64)") + ACCEPTS_ALL
    found = examine(foreign(source), paths, compare_compiled=False)
    assert found.labels == (ONE_SHAPE, "cheap-answers", "low-precision"), found
