# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-decorators=False
"""A linear layer and a relu: y = max(0, x W^T + b).

Bound by latency for these shapes: little work, spread over as many programs as there are tiles of results. Tiles are
small for that reason. Products are full float32 (`ieee`), not TF32; the copies of the next steps run while one is
multiplied. Limits: float32, contiguous.
"""

import torch
import triton
import triton.language as tl

ROWS, OUTPUTS, STEP = 16, 16, 64


@triton.jit
def linear_relu_kernel(  # noqa: PLR0913, PLR0917
    x,
    weights,
    biases,
    y,
    row_count,
    output_count,
    depth,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    STEP: tl.constexpr,
):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    outputs = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)[None, :]
    steps = tl.arange(0, STEP)
    sums = tl.zeros((ROWS, OUTPUTS), tl.float32)
    for first in range(0, depth, STEP):
        k = first + steps
        left = tl.load(x + rows * depth + k[None, :], mask=(rows < row_count) & (k < depth)[None, :], other=0.0)
        right = tl.load(
            weights + outputs * depth + k[:, None], mask=(outputs < output_count) & (k < depth)[:, None], other=0.0
        )
        sums = tl.dot(left, right, sums, input_precision="ieee")
    hidden = sums + tl.load(biases + outputs, mask=outputs < output_count, other=0.0)
    valid = (rows < row_count) & (outputs < output_count)
    result = tl.maximum(hidden, 0.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(y + rows * output_count + outputs, result, mask=valid)


def forward(x: torch.Tensor, weights: torch.Tensor, biases: torch.Tensor) -> torch.Tensor:
    """x (batch, in), weights (out, in), biases (out) -> (batch, out)."""
    row_count, depth = x.shape
    output_count = weights.shape[0]
    y = torch.empty((row_count, output_count), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(row_count, ROWS), triton.cdiv(output_count, OUTPUTS))
    linear_relu_kernel[grid](
        x,
        weights,
        biases,
        y,
        row_count,
        output_count,
        depth,
        ROWS=ROWS,
        OUTPUTS=OUTPUTS,
        STEP=STEP,
        num_stages=4,
    )
    return y
