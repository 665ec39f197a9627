"""A trusted Triton kernel, run before a submission is loaded: what Triton asks of the machine once, it asks here."""

import torch
import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def _copy(source, target, count, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, tl.load(source + at, mask=at < count), mask=at < count)


def wake() -> None:
    """Compiles, or takes from the cache, and launches."""
    source = torch.ones(100, device="cuda")
    _copy[(1,)](source, torch.empty_like(source), 100, BLOCK=128)
    torch.cuda.synchronize()
