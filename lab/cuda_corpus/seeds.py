"""The kernels that the corpus starts from: shipped ones, rendered templates, and those of the project's own tests.

Not covered: whether they are right. The kernels in `tests/emulator/kernels/wrong` are among them, and a judge labels
every one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from agents.evolve.templates import TEMPLATES
from benchmarks.harness import TaskSpec, default_suites, find_task
from scripts.corpus import CORPUS, read_case

ROOT = Path(__file__).parents[2]
_OWN = ROOT / "tests/emulator/kernels"
_KEPT = Path(__file__).parent / "kept"  # shipped kernels that have changed since they and their mutants were labelled
_OWN_TASK = "mnist_linear_relu/forward"
_HONEST = (  # of tests/corpus: ordinary kernels of different styles, without tricks of the host
    "llama_rmsnorm-forward-cuda/honest_slow",
    "mnist_cross_entropy-forward-cuda/honest_early_launch",
    "mnist_cross_entropy-forward-cuda/honest_last_block",
    "mnist_cross_entropy-forward-cuda/honest_slow",
    "mnist_linear_relu-forward-cuda/honest_atomics",
    "mnist_linear_relu-forward-cuda/honest_cluster",
    "mnist_linear_relu-forward-cuda/honest_constant_memory",
    "mnist_linear_relu-forward-cuda/honest_grid_sync",
    "mnist_linear_relu-forward-cuda/honest_inline_ptx",
    "mnist_linear_relu-forward-cuda/honest_memset_and_copy",
    "mnist_linear_relu-forward-cuda/honest_own_memory",
    "mnist_linear_relu-forward-cuda/honest_shared_memory",
    "mnist_linear_relu-forward-cuda/honest_transposed",
    "mnist_linear_relu-forward-cuda/honest_two_kernels",
    "mnist_pool-forward-cuda/honest_constant_table",
    "mnist_pool-forward-cuda/honest_lookup_table",
    "mnist_pool-forward-cuda/honest_slow",
)
_HEAVY = ("llama_ffw/forward", "layernorm/backward", "resnet_block/forward", "unet_conv2d/forward")


@dataclass(frozen=True)
class CudaSeed:
    """One kernel. Mutants are made of those that are right by their author's word and whose judging is short."""

    name: str  # shipped.OP.DIRECTION, template.…, honest.…, right.…, wrong.…
    task: str
    text: str
    right: bool = True

    @property
    def heavy(self) -> bool:
        """Judging it takes half a minute."""
        return self.task in _HEAVY


@cache
def seeds() -> tuple[CudaSeed, ...]:
    """In a fixed order: those of the tests first, which are small."""
    return (*_of_emulator_tests(), *_honest(), *_shipped(), *_rendered())


@cache
def task_of(name: str) -> TaskSpec:
    return find_task(default_suites(), name)


def _of_emulator_tests() -> Iterator[CudaSeed]:
    for path in sorted(_OWN.glob("*/*.cu")):
        kind = path.parent.name
        yield CudaSeed(f"{kind}.{path.stem}", _OWN_TASK, path.read_text(), right=kind == "right")


def _honest() -> Iterator[CudaSeed]:
    for name in _HONEST:
        case = read_case(CORPUS / name)
        yield CudaSeed(f"honest.{name.replace('-cuda/honest_', '.')}", case.task, case.source().text)


def _shipped() -> Iterator[CudaSeed]:
    for path in sorted((default_suites() / "robust_kbench").glob("*/kernels/*_cuda.cu")):
        op, direction = path.parents[1].name, path.stem.removesuffix("_cuda")
        kept = _KEPT / f"{op}.{direction}.cu"
        text = (kept if kept.exists() else path).read_text()
        yield CudaSeed(f"shipped.{op}.{direction}", f"{op}/{direction}", text)


def _rendered() -> Iterator[CudaSeed]:
    for template in TEMPLATES:
        if template.language != "cuda":
            continue
        for task in template.tasks:
            for kind in ("naive", "default"):
                text = template.render(getattr(template, kind), task_of(task))
                yield CudaSeed(f"template.{task.replace('/', '.')}.{kind}", task, text)
