"""The recorder of sweeps: noise at the top is measured again, failures stay null."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from agents.evolve.search import load_recording
from agents.evolve.templates import Genome
from lab.sweeps.record import Pair, SweepBench, narrowed, record, refined, score, template_of, write

TASK = "mnist_pool/forward"


class Made(SweepBench):
    """Kernels are stood for by their genomes; wide vectors are fast and lucky the first time, prefetching fails."""

    def __init__(self, folder: Path) -> None:
        super().__init__(TASK, folder)
        self.lucky = 1.5

    def compile_all(self, genomes: Sequence[Genome]) -> None: ...

    def kernel(self, genome: Genome) -> Genome | None:  # type: ignore[override]
        return None if genome["PREFETCH"] else genome

    def measured(self, kernel: Genome) -> list[Pair]:  # type: ignore[override]
        speedup = int(kernel["LANES"]) / 4 * (self.lucky if kernel["LANES"] == 16 else 1.0)
        return [(100 / speedup, speedup)] * len(self.timed)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("kernels"))


def test_what_is_near_the_top_is_measured_again_and_written(bench: Made, tmp_path: Path) -> None:
    space = narrowed(template_of(TASK).space, {"PATH": ("shuffle",), "GRAIN": (4096,)})
    rows = record(bench, space)
    assert max(map(score, rows)) == pytest.approx(6.0)
    bench.lucky = 1.0
    again = refined(bench, space, rows)
    assert max(map(score, again)) == pytest.approx(4.0)
    assert [row[2] for row in again if row[0][4]] == [None] * (space.size * 2 // 3)

    write(tmp_path / "made.json", bench, space, again)
    recording = load_recording(tmp_path / "made.json")
    assert recording.space.size == space.size == len(again)
    assert recording.best == pytest.approx(4.0)
    assert recording.fitness({**space.genomes[0], "PREFETCH": 1}) is None
