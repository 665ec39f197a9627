# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-decorators=False
"""Max-pool with a window of 2 x 2 and a stride of 2: y[r][c] = the largest of four neighbours.

Bound by memory. A program makes a run of results, numbered through all planes; for each it reads two pairs of
neighbours, so what a warp reads from a row is contiguous. Limits: float32, contiguous, fewer than 2^31 inputs; an odd
last row or column is dropped and a NaN wins, as in PyTorch.
"""

import torch
import triton
import triton.language as tl

RESULTS = 512  # per program: at 16 bytes in and 4 out, a few thousand programs fill the GPU for the headline shape


@triton.jit
def pool_kernel(x, y, count, height, width, ODD_HEIGHT: tl.constexpr, RESULTS: tl.constexpr):  # noqa: PLR0917
    results = tl.program_id(0) * RESULTS + tl.arange(0, RESULTS)
    row = results // (width // 2)
    column = results - row * (width // 2)
    top_row = 2 * row
    if ODD_HEIGHT:  # one input row more for every plane that lies before
        top_row += row // (height // 2)
    first = x + top_row * width + 2 * column
    pair = tl.arange(0, 2)[None, :]
    valid = (results < count)[:, None]
    top = tl.load(first[:, None] + pair, mask=valid, other=0.0)
    low = tl.load((first + width)[:, None] + pair, mask=valid, other=0.0)
    left, right = tl.split(tl.maximum(top, low, propagate_nan=tl.PropagateNan.ALL))
    tl.store(y + results, tl.maximum(left, right, propagate_nan=tl.PropagateNan.ALL), mask=results < count)


def forward(x: torch.Tensor) -> torch.Tensor:
    """x (batch, channels, height, width) -> (batch, channels, height // 2, width // 2)."""
    batch_size, channels, height, width = x.shape
    y = torch.empty((batch_size, channels, height // 2, width // 2), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(y.numel(), RESULTS),)
    pool_kernel[grid](x, y, y.numel(), height, width, ODD_HEIGHT=height % 2 == 1, RESULTS=RESULTS)
    return y
