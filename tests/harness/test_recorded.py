"""Recorded values: which tensors a call gets, what is refused, who may read the file; and the weights of calls."""

import hashlib
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save, save_file

from benchmarks.harness import default_rules, default_suites, find_task
from benchmarks.harness.child import inputs, recorded
from benchmarks.harness.child.check import load_reference
from benchmarks.harness.measuring.session import files_of
from benchmarks.harness.report import ConfigReport
from benchmarks.harness.scores import scoring
from benchmarks.harness.scores.stats import PairedTimes
from benchmarks.harness.tasks.spec import VALUES, Config, TaskSpec, load_operation

SEGMENTS = find_task(default_suites(), "real-inputs/segment_sum/forward")
SCAN = find_task(default_suites(), "real-inputs/gated_scan/forward")


def config_of(task: TaskSpec, *, has_record: bool) -> Config:
    return next(item for item in task.configs_for("cpu") if ("recorded" in item.values) is has_record)


def drawn(task: TaskSpec, config: Config, seed: int) -> list[torch.Tensor]:
    out = [torch.empty(item.shape, dtype=getattr(torch, item.dtype)) for item in config.tensors]
    inputs.draw_for(load_reference(task.folder), config, hashlib.sha256(bytes([seed])).digest(), out)
    return out


def test_a_call_gets_one_of_the_recorded_tensors_and_fresh_values_beside_it() -> None:
    config = config_of(SEGMENTS, has_record=True)
    known = load_reference(SEGMENTS.folder).RECORDED["batch/bounds"].tolist()
    calls = [drawn(SEGMENTS, config, seed) for seed in range(40)]
    met = {tuple(bounds.tolist()) for _, bounds in calls}
    assert met <= set(map(tuple, known))
    assert len(met) > 4
    assert not torch.equal(calls[0][0], calls[1][0])
    assert all(torch.equal(*pair) for pair in zip(drawn(SEGMENTS, config, 3), calls[3], strict=True))


def test_without_a_record_bounds_follow_the_one_pattern() -> None:
    config = config_of(SEGMENTS, has_record=False)
    for seed in range(5):
        bounds = drawn(SEGMENTS, config, seed)[1]
        assert (int(bounds[0]), int(bounds[-1])) == (0, config.tensors[0].shape[0])
        assert len(set(bounds.diff().tolist())) == 1


def test_values_are_drawn_by_their_recorded_quantiles() -> None:
    with_record, without = (drawn(SCAN, config_of(SCAN, has_record=has), 1)[1] for has in (True, False))
    assert float(without.median()) < 0.6
    assert float(with_record.median()) > 0.97
    assert bool((with_record < 1).all())
    assert not torch.equal(with_record, drawn(SCAN, config_of(SCAN, has_record=True), 2)[1])


def test_quantiles_are_followed() -> None:
    tensors = {"a/x.quantiles": torch.tensor([-1.0, 0.0, 10.0])}
    out = torch.empty(20_000)
    assert recorded.fill(tensors, "a/x", bytes(32), out, torch.Generator().manual_seed(1))
    assert float(out.min()) >= -1
    assert float(out.max()) <= 10
    assert float((out < 0).float().mean()) == pytest.approx(0.5, abs=0.02)
    assert float(out[out > 0].mean()) == pytest.approx(5, abs=0.2)
    assert not recorded.fill(tensors, "a/y", bytes(32), out, torch.Generator())


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"a/x": torch.zeros(2, 5)}, r"holds \(5,\), the argument is \(4,\)"),
        ({"a/x": torch.zeros(2, 4, dtype=torch.int64)}, "holds"),
        ({"a/x.quantiles": torch.zeros(1)}, "not a list of at least two"),
    ],
)
def test_what_does_not_fit_is_named(stored: dict[str, torch.Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recorded.fill(stored, "a/x", bytes(32), torch.empty(4), torch.Generator())


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    tensors = {
        "a": torch.randn(3, 4),
        "b": torch.arange(5, dtype=torch.int32),
        "c": torch.randn(2, 2).bfloat16(),
        "d": torch.tensor(1.5, dtype=torch.float64),
    }
    save_file(tensors, tmp_path / "v", metadata={"source": "here"})
    found = recorded.read(tmp_path / "v")
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:7],
        lambda data: struct.pack("<Q", 1 << 40) + data[8:],
        lambda data: data[:-1],
        lambda data: data.replace(b'"F32"', b'"C64"'),
        lambda data: data.replace(b"[3,4]", b"[3,5]"),
        lambda data: data.replace(b"[0,48]", b"[9,57]"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, damage) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "v").write_bytes(damage(save({"a": torch.randn(3, 4)})))
    with pytest.raises(ValueError, match=r"v |cut off|a "):
        recorded.read(tmp_path / "v")


def test_other_values_are_another_task_and_no_values_change_nothing() -> None:
    assert SEGMENTS.values_sha256
    assert SEGMENTS.content_sha256 != replace(SEGMENTS, values_sha256="0" * 64).content_sha256
    pool = find_task(default_suites(), "mnist_pool/forward")
    assert pool.values_sha256 == ""
    assert [item.name for item in files_of(pool)] == ["reference.py"]
    assert [item.name for item in files_of(SEGMENTS)] == ["reference.py", VALUES]


def test_a_folder_without_the_file_draws_by_rule(tmp_path: Path) -> None:
    for name in ("task.toml", "reference.py"):
        (tmp_path / name).write_text((SEGMENTS.folder / name).read_text())
    [task] = load_operation(tmp_path)
    bounds = drawn(task, config_of(task, has_record=True), 1)[1]
    assert set(bounds.diff().tolist()) == {32}


def result(key: str, speedup: float) -> ConfigReport:
    return ConfigReport(
        key=key, group="multi", correct=True, calls=1, max_abs_error=0.1, max_rel_error=0.1, speedup=speedup
    )


def test_a_score_is_weighted_by_calls() -> None:
    def times(kernel_us: float, weight: float) -> PairedTimes:
        steps = np.ones(20)
        return PairedTimes(kernel_us * steps, 8 * steps, None, np.arange(20) % 2, weight)

    found = scoring.score(
        [result("a", 8.0), result("b", 1.0)], {"a": times(1, 3), "b": times(8, 1)}, default_rules(), "supervisor"
    )
    assert found.speedup == pytest.approx(8 ** (3 / 4))
    assert found.vs_eager == pytest.approx(found.speedup)
    assert found.ci95 == pytest.approx((found.speedup, found.speedup))
    assert [item.weight for item in SEGMENTS.configs_for("cpu")] == [1.0, 3.0, 1.0, 1.0, 1.0]


def test_a_call_in_which_nothing_is_new_is_no_call() -> None:
    """A kernel could keep the results of the few tensors that there are."""
    config = config_of(SCAN, has_record=True)
    x, gates = (torch.zeros(2, *item.shape) for item in config.tensors)
    quantiles = {"trained/gates.quantiles": torch.tensor([0.0, 1.0])}
    out = [torch.empty(item.shape) for item in config.tensors]
    assert inputs.draw(config, bytes(32), out, tensors={"trained/x": x, **quantiles})
    with pytest.raises(ValueError, match="no argument of a call is drawn anew"):
        inputs.draw(config, bytes(32), out, tensors={"trained/x": x, "trained/gates": gates})


def test_a_record_that_is_not_there_is_missed() -> None:
    config = config_of(SCAN, has_record=True)
    out = [torch.empty(item.shape) for item in config.tensors]
    with pytest.raises(ValueError, match="there are no values for 'trained'"):
        inputs.draw(config, bytes(32), out, tensors={"other/x": torch.zeros(2, 4)})
