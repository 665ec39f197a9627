"""A profile for tests, from the report of Nsight Compute in `tests/fixtures/ncu`."""

from pathlib import Path
from typing import Any

from benchmarks.harness.profiles import bottleneck, metrics, ncu_tables, records, text

FIXTURES = Path(__file__).parent / "fixtures" / "ncu"
RAW, SOURCE_PAGE = (FIXTURES / "raw.csv").read_text(), (FIXTURES / "source.csv").read_text()
SOURCE = (FIXTURES / "source.cu").read_text()
ROOF = records.Roofline(10**8, 50 * 10**6, 5e7, 147.0, 5e13, 4e12)  # below the ridge


def kernels(mark: str = "") -> list[records.KernelProfile]:
    return [metrics.kernel_profile(mark + item.name, item.values) for item in ncu_tables.launches(RAW)]


def profile(mark: str = "", **other: Any) -> records.Profile:
    """Two configurations; `mark` stands in every text that a submission could have written."""
    gemm, rows, _, small, _ = kernels(mark)
    named = bottleneck.gpu_bottleneck([gemm, rows], ROOF)
    first = records.ConfigProfile("batch_size=1024", "single", (gemm, rows), 2, 147.1, ROOF, named)
    line = records.Roofline(10**7, 10**6, 1.2e6, 11.5, 5e13, 4e12)
    second = records.ConfigProfile(
        "batch_size=16", "multi", (small,), 1, 11.5, line, bottleneck.gpu_bottleneck([small], line)
    )
    hot = [records.HotLine(mark + item.kernel, item.line, mark + item.text, item.samples, item.share) for item in LINES]
    fields = {
        "task": "mnist_linear_relu/forward",
        "suite": "robust-kbench",
        "language": "cuda",
        "device": "NVIDIA H200",
        "device_kind": "nvidia-h200",
        "source_sha256": "0" * 64,
        "tool": "Nsight Compute",
        "configs": (first, second),
        "resources": (
            {"kernel": mark + "k", "registers": 96, "spill_store_bytes": 0, "spill_load_bytes": 0}
            | {"stack_bytes": 0, "shared_bytes": 33792},
        ),
        "hot_lines": tuple(hot),
        "listings": (
            records.Listing("ptx", mark + ".version 9.0\n.target sm_90a"),
            records.Listing("sass", "EXIT", cut=True),
        ),
        "missing": (mark + "no ceilings",),
    }
    found = records.Profile(**(fields | other))
    return records.Profile(**(fields | other | {"text": text.compact(found)}))


LINES = ncu_tables.hot_lines(SOURCE_PAGE, SOURCE)
