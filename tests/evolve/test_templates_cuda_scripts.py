"""What the scripts that measure CUDA templates plan and keep, without a GPU."""

import argparse
import json
from pathlib import Path
from statistics import geometric_mean

import pytest

from agents.evolve.search import load_recording
from agents.evolve.templates import find_template
from benchmarks.harness import default_suites, find_task
from lab.gpu.plain_cuda import BuiltCore, Measured
from lab.gpu.search import TASKS, Hunt, floor_us, keep, winner
from lab.sweeps.record_gpu import SWEEPS, GpuSweep

ABOUT = {"gpu": "a GPU", "configs": ["a", "b"], "bytes": [4_230_000, 0], "flops": [0, 120_000_000]}


class StillGpu:
    """Stands in for the process with the GPU."""

    about = ABOUT


def a_hunt(folder: Path) -> Hunt:
    task, template = find_task(default_suites(), "mnist_pool/forward"), find_template("mnist_pool/forward", "cuda")
    assert template is not None
    return Hunt(task, template, argparse.Namespace(out=folder, seed=1), about=dict(ABOUT))


@pytest.mark.parametrize("name", SWEEPS)
def test_a_sweep_is_large_enough_to_compare_searches_and_small_enough_to_measure(name: str) -> None:
    smallest, largest = (2000, 2200) if name.endswith("-large") else (200, 560)  # minutes of a GPU: about eight, or two
    assert smallest <= GpuSweep(name, argparse.Namespace()).space.size <= largest


def test_what_is_searched_by_default_has_a_core() -> None:
    assert all(find_template(name, "cuda") is not None for name in TASKS)


def test_the_floor_is_data_or_arithmetic() -> None:
    assert floor_us(ABOUT) == [1.0, 2.0]


def test_fitness_is_the_speedup_over_the_stronger_baseline(tmp_path: Path) -> None:
    hunt = a_hunt(tmp_path)
    hunt.baselines = {"eager_us": [8.0, 8.0], "compile_us": [4.0, None]}
    assert hunt.fitness(Measured((2.0, 2.0), (9.0, 9.0))) == pytest.approx(geometric_mean([2.0, 4.0]))
    assert hunt.fitness(Measured(failure="it is wrong")) is None


def test_without_baselines_fitness_is_over_the_reference_kernel(tmp_path: Path) -> None:
    hunt = a_hunt(tmp_path)
    hunt.baselines = {"eager_us": None, "compile_us": None, "failure": "the process ended"}
    assert hunt.fitness(Measured((2.0, 2.0), (4.0, 1.0))) == pytest.approx(2.0)


def test_the_winner_is_the_best_of_those_timed_again(tmp_path: Path) -> None:
    hunt, built = a_hunt(tmp_path), BuiltCore(tmp_path, 1.0)
    for time_us in (1.0, 2.0, 3.0):
        hunt.add(hunt.template.default, built, Measured((time_us, time_us), (1 / time_us, 1 / time_us)), "step")
    lucky, steady, _ = hunt.records
    lucky["again"], steady["again"] = 0.4, 0.5
    assert winner(hunt) is steady
    assert json.loads(json.dumps(keep(hunt, steady)))["winner"]["fitness"] == 0.5


def test_a_whole_sweep_reads_as_a_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = GpuSweep("h200-unet_conv2d-forward", argparse.Namespace(out=tmp_path))
    monkeypatch.setattr("lab.sweeps.record_gpu.machine", dict)
    for place, genome in enumerate(sweep.space.genomes):
        failed = place % 10 == 0
        sweep._add(genome, Measured(failure="wrong") if failed else Measured((1.0, 4.0), (place, place)))
    sweep._write(StillGpu(), 0.0, whole=True)  # type: ignore[arg-type]
    recording = load_recording(tmp_path / "h200-unet_conv2d-forward.json")
    assert recording.space.size == sweep.space.size
    assert recording.fitness(sweep.space.genomes[0]) is None
    assert recording.best == pytest.approx(sweep.space.size - 1)


def test_a_sweep_that_ran_out_of_time_is_kept_as_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = GpuSweep("h200-unet_conv2d-forward", argparse.Namespace(out=tmp_path))
    monkeypatch.setattr("lab.sweeps.record_gpu.machine", dict)
    sweep._add(sweep.space.genomes[0], Measured((1.0,), (1.0,)))
    sweep._write(StillGpu(), 0.0, whole=False)  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["h200-unet_conv2d-forward.partial.json"]
