"""Whether a submission that takes the GPU's memory changes its baselines: `python -m lab.gpu.memory_probe`.

Judges one shipped kernel quickly, as it is and with a constructor that takes memory until so many megabytes are left,
and prints eager's times on each configuration. To compare two judges, run it from two checkouts: `--label` goes into
each line of `--reports`. Exit code 0 if eager's times agree within 5 % wherever they were replayed, 1 if they do not.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import Paths, Report, Source, default_rules, default_suites, find_task, judge

ROOT = Path(__file__).parents[2]
_AGREE = 0.05
_TAKES_MEMORY = """
static struct TakesMemory {
    TakesMemory() {
        cudaFree(nullptr);
        for (size_t piece = size_t(1) << 34; piece >= size_t(1) << 20; piece /= 2)
            for (;;) {
                size_t left = 0, all = 0;
                cudaMemGetInfo(&left, &all);
                void* memory = nullptr;
                if (left < (size_t(LEFT_MB) << 20) + piece || cudaMalloc(&memory, piece) != cudaSuccess) break;
            }
        cudaGetLastError();
    }
} takes_memory;
"""


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    task, rules = find_task(default_suites(), options.task), default_rules()
    shipped = (task.folder / "kernels" / f"{task.direction}_cuda.cu").read_text()
    usual_us, agree = list[float](), True
    for left_mb in (None, *options.left_mb):
        text = shipped if left_mb is None else shipped + _TAKES_MEMORY.replace("LEFT_MB", str(left_mb))
        report = judge(Source(text, "cuda"), task, rules, Paths(options.data), device=options.device, quick=True)
        eager_us = [item.eager_us for item in report.configs if item.eager_us is not None]
        usual_us = usual_us or eager_us
        is_replayed = report.score is not None and report.score.timing_trust == "replayed"
        agree &= not is_replayed or _agrees(eager_us, usual_us)
        print(_line(left_mb, report), flush=True)
        if options.reports:
            record = {"tree": options.label, "left_mb": left_mb or 0, "report": report.to_json()}
            with options.reports.open("a") as lines:
                lines.write(json.dumps(record) + "\n")
    return 0 if agree else 1


def _agrees(times_us: Sequence[float], usual_us: Sequence[float]) -> bool:
    return all(abs(one / other - 1) <= _AGREE for one, other in zip(times_us, usual_us, strict=True))


def _line(left_mb: int | None, report: Report) -> str:
    left = "all memory" if left_mb is None else f"{left_mb} MB left"
    times = " ".join(f"{item.eager_us:.1f}" for item in report.configs if item.eager_us is not None)
    trust = report.score.timing_trust if report.score else report.reason
    return f"{left}: {report.verdict} {trust}; eager {times} us"


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--task", default="unet_conv2d/forward", metavar="OP/DIRECTION")
    parser.add_argument("--left-mb", type=int, nargs="+", default=[64, 300, 1500])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--label", default="")
    parser.add_argument("--reports", type=Path)
    parser.add_argument("--data", type=Path, default=ROOT / "var" / "gpu_corpus", help="where builds are kept")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
