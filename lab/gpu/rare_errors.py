"""How often a correct kernel is wrong by chance: `python -m lab.gpu.rare_errors OP/DIRECTION`.

Draws inputs again and again, as the judge does, and compares the shipped CUDA kernel and eager in float32 with the
judge's float64 reference. One JSON line for each draw: the largest error of each result by both, as a share of its
tolerance, and the kernel's worst element. The kernel is called `--calls` times for each draw, one call queued behind
the other, and `differs` counts calls whose results are not those of the first one, bit for bit. The last line is a
summary. Exit code 0. Not covered: protection from kernels.
"""

import argparse
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.harness import (
    Config,
    Paths,
    Source,
    TaskSpec,
    default_rules,
    default_suites,
    find_task,
    shipped_kernel,
)
from benchmarks.harness.child.check import as_tuple, compare, load_reference, reference
from benchmarks.harness.child.gpu.accelerator import exact_arithmetic
from benchmarks.harness.child.inputs import DISTRIBUTIONS, call_arguments, draw_for
from benchmarks.harness.compilers.builds import build
from lab.gpu.label_together_child import DEVICE, load_extension

Kernel = Callable[..., Any]


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    task = find_task(default_suites(), options.task)
    source = Source(shipped_kernel(task, "cuda") or "", "cuda")
    compiled = build(source, default_rules(), Paths(options.data), target="sm_90")
    if compiled.binary is None:
        raise SystemExit(compiled.problem)
    exact_arithmetic()
    kernel = getattr(load_extension(str(compiled.binary)), task.direction)
    shares: dict[str, list[float]] = {"kernel": [], "eager": []}
    differing = 0
    for line in _drawn(task, kernel, options):
        print(json.dumps(line), flush=True)
        differing += line["differs"]
        for who, found in shares.items():
            found.append(max(line[who].values()))
    told = {who: {"over": sum(share > 1 for share in found), "largest": max(found)} for who, found in shares.items()}
    print(json.dumps({"draws": len(shares["kernel"]), "calls_that_differ": differing, **told}))
    return 0


def _drawn(task: TaskSpec, kernel: Kernel, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    module = load_reference(task.folder)
    eager: Kernel = getattr(module, task.direction)
    for config in task.configs_for("cuda"):
        if options.config not in config.key:
            continue
        shapes = [(item.shape, getattr(torch, item.dtype)) for item in config.tensors]
        tensors = [torch.empty(shape, dtype=dtype, device=DEVICE) for shape, dtype in shapes]
        for number in range(options.draws):
            distribution = draw_for(module, config, _seed(number), tensors, options.distribution)
            arguments = call_arguments(config, tensors)
            results = [as_tuple(kernel(*arguments)) for _ in range(options.calls)]
            right = reference(module, task.direction, arguments)
            found = [_compared(config, called, right) for called in (results[0], as_tuple(eager(*arguments)))]
            yield {
                "config": config.key,
                "draw": number,
                "distribution": distribution,
                "kernel": {name: round(result.share, 3) for name, result in found[0].items()},
                "eager": {name: round(result.share, 3) for name, result in found[1].items()},
                "worst": max(found[0].values(), key=lambda result: result.share).told,
                "differs": sum(not all(map(torch.equal, again, results[0])) for again in results[1:]),
            }


@dataclass(frozen=True)
class ComparedResult:
    """A result's largest error as a share of its tolerance, and what is there."""

    share: float
    told: str


def _compared(config: Config, results: Sequence[Tensor], right: Sequence[Tensor]) -> dict[str, ComparedResult]:
    found = {}
    for got, expected, item in zip(results, right, config.results, strict=True):
        whole = compare(got, expected, item.tolerance, item.rms_tolerance)
        scale = expected.abs() + expected.square().mean().sqrt()
        place = int(((got.double() - expected).abs() / scale).argmax())
        told = f"{item.name}[{place}] {float(got.view(-1)[place])!r} for {float(expected.view(-1)[place])!r}"
        found[item.name] = ComparedResult(whole.max_rel_error / item.tolerance, told)
    return found


def _seed(number: int) -> bytes:
    return hashlib.sha256(number.to_bytes(8, "little")).digest()


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("task", metavar="OP/DIRECTION")
    parser.add_argument("--config", default="", help="only configurations whose key contains this")
    parser.add_argument("--distribution", choices=DISTRIBUTIONS, help="instead of the one that each seed picks")
    parser.add_argument("--draws", type=int, default=200, help="of each configuration")
    parser.add_argument("--calls", type=int, default=4, help="for each draw")
    parser.add_argument("--data", type=Path, default=Path("var") / "rare_errors", help="where builds are kept")
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
