"""Examining tasks for a GPU: its limits with the stand-in, and what keeps large tensors within memory."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.harness import TOO_LARGE_FOR_A_GPU, Examined, Paths, UsageError, examine
from benchmarks.harness.child import check
from benchmarks.harness.child.admitting import naive
from benchmarks.harness.child.admitting.admission import _rounded, _tiled
from benchmarks.harness.child.admitting.place import PROCESSOR, place_of, with_aim
from benchmarks.harness.child.foreign import _model_call, _without_memory, drawn_model
from benchmarks.harness.child.python.slots import slots_of
from benchmarks.harness.foreign import examine as examine_module
from benchmarks.harness.foreign.examine import CUDA_BYTES_MAX, gpu_bytes_max
from benchmarks.harness.gpu.discovery import Gpu
from benchmarks.importers import Found
from benchmarks.offline import problems

from .conftest import FIXTURES, foreign
from .test_sizes import INPUTS, MODEL

STAND_IN = Gpu("host:0", "Stand-in", "host-0", "none", 8 << 30, "sm_90", (), accelerator="host")
ON_IT = {"accelerator": "host", "memory_bytes": 8 << 30}


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examine_module, "gpus", lambda: (STAND_IN,))


@pytest.mark.sandbox
@pytest.mark.usefixtures("stand_in")
def test_it_becomes_a_task_for_gpus_alone(paths: Paths) -> None:
    """No processor has computed what its tolerances are taken of."""
    source = (FIXTURES / "kernelbench/level1/2_Affine_tanh.py").read_text()
    found = examine(foreign(source), paths, device="host:0", compare_compiled=False)
    assert found.task is not None, found.problem
    assert set(found.task.configs) == {"cuda"}
    assert "examined on a GPU: the CPU has no configuration of it" in found.notes
    assert all(0 < item.results[0].tolerance < 1e-3 for item in found.task.configs["cuda"])
    variants = [item.values["variant"] for item in found.task.configs["cuda"]]
    assert variants == ["published", "scaled", "spread", "stirred"]


@pytest.mark.sandbox
@pytest.mark.usefixtures("stand_in")
def test_the_limit_follows_from_the_memory_of_the_gpu(paths: Paths) -> None:
    source = MODEL.format(result="x + y") + INPUTS.format(inputs="torch.rand(N, 4000), torch.rand(N, 4000)")
    problem = examine(foreign(source), paths, device="host:0").problem
    sizes = "Its arguments and results take at least 2.88 GB; at most 1.07 GB are examined there, as it has 8.6 GB"
    assert problem == f"{TOO_LARGE_FOR_A_GPU}. {sizes}"


@pytest.mark.sandbox
@pytest.mark.usefixtures("stand_in")
def test_what_no_judging_there_has_room_for_is_refused(paths: Paths) -> None:
    """A product of a column and a row, 0.7 GB: of 8.6 GB each of four contestants needs twice as much."""
    source = MODEL.format(result="x @ y") + INPUTS.format(inputs="torch.rand(N, 1), torch.rand(1, 2800)")
    problem = examine(foreign(source), paths, device="host:0").problem
    assert problem.startswith(f"{TOO_LARGE_FOR_A_GPU}: a judging of it takes at least "), problem


@pytest.mark.usefixtures("stand_in")
def test_a_device_that_is_not_here_is_refused(paths: Paths) -> None:
    with pytest.raises(UsageError, match=r"no device 'cuda:3' here; there are: cpu, host:0"):
        examine(foreign("x = 1"), paths, device="cuda:3")


def test_no_limit_is_over_what_is_judged() -> None:
    assert gpu_bytes_max(80 << 30) == 10 << 30
    assert gpu_bytes_max(1 << 40) == CUDA_BYTES_MAX


def test_what_needs_more_memory_than_a_gpu_has_is_told_apart_from_other_errors() -> None:
    place = place_of(ON_IT)
    assert "it needs more" in place.no_memory(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 8 GiB"))
    assert "it needs more" in place.no_memory(RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"))
    assert not place.no_memory(RuntimeError("shapes differ"))
    assert not PROCESSOR.no_memory(RuntimeError("out of memory"))


def test_only_a_gpu_has_an_aim() -> None:
    assert with_aim(PROCESSOR) is PROCESSOR
    place = with_aim(place_of(ON_IT))
    assert place.is_bounded
    assert place.has_time_for(0.0)
    assert not replace(place, until_s=0.0).has_time_for(0.0)
    assert place.stacked_bytes_max == 128 << 20


def test_a_gpu_adds_term_after_term_as_a_processor_does() -> None:
    rows = torch.randn(3, 4, 5000)
    assert torch.equal(naive.added(rows), torch.from_numpy(np.add.accumulate(rows.numpy(), axis=-1)[..., -1]))


def test_sums_that_take_a_gpu_too_long_are_not_made() -> None:
    x, weight = torch.ones(2, 3, 8, 8), torch.ones(4, 3, 3, 3)
    calls = [lambda: torch.ones(8, 5000) @ torch.ones(5000, 8), lambda: torch.ones(5000, 4).sum(0)]
    for call in (*calls, lambda: torch.ones(5000).mean(), lambda: torch.conv2d(x, weight)):
        with naive.NaiveSums():
            expected = call()
        with naive.NaiveSums(limit_s=1.0):
            assert torch.equal(call(), expected)
        with pytest.raises(naive.TooLong), naive.NaiveSums(limit_s=1e-4):
            call()


@pytest.mark.parametrize("kind", ["right", "one is wrong", "transposed", "mean", "NaN", "zeros"])
def test_large_results_are_compared_in_pieces(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    expected = torch.linspace(-4, 4, 63, dtype=torch.float64).reshape(7, 9)
    answer = expected.float()
    if kind == "one is wrong":
        answer[5, 2] = 7.0
    others = {
        "transposed": answer.t().contiguous().t(),
        "mean": expected.mean().expand(7, 9),
        "NaN": torch.full((7, 9), math.nan),
        "zeros": torch.zeros(7, 9),
    }
    whole = check.compare(others.get(kind, answer), expected, 1e-4, 1e-4)
    monkeypatch.setattr(check, "PIECE", 10)
    parts = check.compare(others.get(kind, answer), expected, 1e-4, 1e-4)
    for name in ("max_abs_error", "max_rel_error", "rms_error"):
        assert getattr(parts, name) == pytest.approx(getattr(whole, name), rel=1e-12), name
    assert (parts.ok, parts.bad_elements) == (whole.ok, whole.bad_elements)
    assert ("(5, 2)" in parts.reason) is (kind == "one is wrong")


def test_values_are_rounded_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.randn(5, 7)
    whole = _rounded(values, 11)
    monkeypatch.setattr(check, "PIECE", 4)
    assert torch.equal(_rounded(values, 11), whole)
    assert not torch.equal(whole, values)


def test_an_operand_is_cut_or_repeated_to_the_form_of_a_result() -> None:
    operand = torch.arange(6.0)
    assert _tiled(operand, (2, 2)).tolist() == [[0, 1], [2, 3]]
    assert _tiled(operand, (2, 4)).tolist() == [[0, 1, 2, 3], [4, 5, 0, 1]]


def test_a_gpu_has_a_cache_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []

    def examined(_foreign, _paths, *, device: str, **_how) -> Examined:
        asked.append(device)
        return Examined(None, f"refused on {device}")

    monkeypatch.setattr(problems, "examine", examined)
    found = Found("task", "forward", "task.py", foreign("x = 1"))
    for device in ("cpu", "cuda:0", "cpu", "cuda:0", "cuda:1"):
        kept = problems.examined(found, Paths(tmp_path), device=device).problem
        assert kept == f"refused on {'cuda:0' if device == 'cuda:1' else device}"
    assert asked == ["cpu", "cuda:0"]


def test_a_module_computes_the_same_without_memory_of_its_own() -> None:
    """What a GPU's processes make of a file gives up its weights: every call brings its own, tied ones too."""

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
            self.two.weight = self.one.weight
            self.norm, self.scale = torch.nn.BatchNorm1d(4), torch.ones(4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(self.two(self.one(x))) * self.scale

    names = {"Model": Model, "get_inputs": lambda: [torch.randn(3, 4)]}
    inputs, state = drawn_model(names, bytes(32))
    arguments = [*inputs, *(slot.tensor for slot in state)]
    (whole, _), (bare, slots) = (_model_call(names, ["norm.running_mean"]) for _ in range(2))
    assert {_without_memory(slot).tensor.device.type for slot in slots} == {"meta"}
    assert len(slots_of(bare.model)) == len(slots)
    assert torch.equal(whole(*arguments), bare(*arguments))
