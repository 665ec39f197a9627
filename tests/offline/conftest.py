"""What tests of judging without a site share: the fixtures' folders, a task made by hand, and reports."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from click.testing import Result as Ended

from benchmarks.harness import Config, Paths, Result, TaskSpec, TensorArgument, Verdict
from kbench_site.cli import main

EVALUATED = Path(__file__).parents[1] / "fixtures" / "evaluated"


def kbench(paths: Paths, *arguments: str) -> Ended:
    return CliRunner(env={"KBENCH_DATA_DIR": str(paths.data)}).invoke(main, arguments, catch_exceptions=False)


def config(variant: str, group: str = "hidden", size: int = 8) -> Config:
    tensor = TensorArgument("x", (size,), "float32", "foreign")
    result = Result("out", (size,), "float32", 2e-5, 5e-6)
    return Config(f"variant={variant}", group, {"variant": variant, "init": "[]"}, (tensor,), (result,), 8 * size, 0)


@pytest.fixture
def task() -> TaskSpec:
    """An imported task with one published configuration, one of other values and one of another size."""
    configs = (config("published", "single"), config("shifted"), config("published", size=9))
    return TaskSpec(
        suite="kernelbench",
        op="level1_1_scale",
        direction="forward",
        version=1,
        title="Scale",
        formula="",
        summary="",
        family="level 1",
        labels=(),
        argument_names=("x",),
        result_names=("out",),
        exact=False,
        configs={"cpu": configs},
        reference_source="",
        folder=Path(),
    )


def report(
    verdict: Verdict, correct: tuple[bool | None, ...] = (), error: float | None = None, score: tuple[float, float] = ()
) -> dict:
    """The JSON form as far as it is read: the visible configuration first, and `score` as speedup and over eager."""
    configs = [
        {"correct": item, "max_rel_error": error if number == 0 else None} for number, item in enumerate(correct)
    ]
    figures = (
        {"speedup": score[0], "ci95": [score[0], score[0]], "vs_eager": score[1], "vs_compile": None} if score else None
    )
    return {"verdict": verdict, "reason": "told", "language": "python", "configs": configs, "score": figures}
