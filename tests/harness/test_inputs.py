"""Values drawn from a seed."""

from pathlib import Path

import pytest
import torch

import benchmarks
from benchmarks.harness.child.inputs import DISTRIBUTIONS, call_arguments, draw
from benchmarks.harness.child.kinks import KINKS
from benchmarks.harness.tasks.spec import Config, TaskSpec, load_suite

TASKS = load_suite(Path(benchmarks.__path__[0]) / "suites" / "robust_kbench")
SEED = bytes(range(32))


def _tensors(config: Config) -> list[torch.Tensor]:
    return [torch.full(item.shape, -7, dtype=getattr(torch, item.dtype)) for item in config.tensors]


def _drawn(config: Config, seed: bytes = SEED, distribution: str | None = None) -> list[torch.Tensor]:
    out = _tensors(config)
    draw(config, seed, out, distribution)
    return out


def _smallest(task: TaskSpec) -> Config:
    return min(task.configs_for("cpu"), key=lambda config: config.bytes_moved)


def _task(name: str) -> TaskSpec:
    return next(task for task in TASKS if task.name == name)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_every_value_is_filled_and_finite(task, distribution):
    for tensor in _drawn(_smallest(task), distribution=distribution):
        assert torch.isfinite(tensor).all()
        assert not (tensor == -7).all()


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_seed_gives_its_values_again_and_another_seed_gives_others(task):
    first, again, other = (_drawn(_smallest(task), seed, "normal") for seed in (SEED, SEED, bytes(32)))
    for a, b, c in zip(first, again, other, strict=True):
        assert torch.equal(a, b)
        assert a.numel() < 3 or not torch.equal(a, c)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_values_of_one_byte_are_finite_and_differ(distribution):
    argument = {"name": "x", "draw": "quantised", "options": {}, "packed": False}
    drawn = []
    for seed in (SEED, SEED, bytes(32)):
        out = torch.zeros(64, 32, dtype=torch.float8_e4m3fn)
        draw({"arguments": [argument]}, seed, [out], distribution)
        drawn.append(out.double())
    assert all(torch.isfinite(values).all() and values.unique().numel() > 3 for values in drawn)
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_drawing_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    _drawn(_smallest(TASKS[0]))
    assert torch.equal(before, torch.get_rng_state())


def test_the_seed_picks_every_distribution():
    config = _smallest(_task("mnist_linear_relu/forward"))
    seen = {draw(config, number.to_bytes(32, "big"), _tensors(config)) for number in range(200)}
    assert seen == set(DISTRIBUTIONS)


def test_a_short_seed_is_refused():
    config = _smallest(TASKS[0])
    with pytest.raises(ValueError, match="32 bytes"):
        draw(config, b"42", _tensors(config))


def test_parameters_are_never_constant_outside_the_published_initialiser():
    for distribution in set(DISTRIBUTIONS) - {"published"}:
        for task in TASKS:
            config = task.configs_for("cpu")[0]
            for item, tensor in zip(config.tensors, _drawn(config, distribution=distribution), strict=True):
                assert tensor.numel() < 8 or tensor.unique().numel() > 1, (task.name, item.name, distribution)


def test_gradients_vanish_at_kinks_and_only_there():
    task = _task("mnist_linear_relu/backward")
    config = task.configs_for("cpu")[0]
    named = dict(zip((item.name for item in config.tensors), _drawn(config, distribution="normal"), strict=True))
    kinks = KINKS["linear_relu"](named)
    assert (named["grad_output"] == 0).equal(kinks)
    assert kinks.float().mean() < 0.01


def test_a_config_may_come_as_plain_json():
    config = _smallest(_task("mnist_linear_relu/forward"))
    plain = {"arguments": [vars(item) for item in config.arguments]}
    out = _tensors(config)
    draw(plain, SEED, out, "uniform")
    assert all(torch.equal(a, b) for a, b in zip(out, _drawn(config, distribution="uniform"), strict=True))


def test_call_arguments_stand_in_the_order_of_the_task():
    config = _smallest(_task("mnist_linear_relu/backward"))
    tensors = _tensors(config)
    assert call_arguments(config, tensors) == tensors
