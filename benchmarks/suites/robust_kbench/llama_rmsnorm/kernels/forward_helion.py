"""RMS norm over the last axis: y = x / sqrt(mean(x^2) + eps) * w.

Bound by memory: x is read once, y is written once. One program per row; Helion writes the Triton kernel. The
configuration is fixed, as a search would run while the kernel is judged. Limits: float32, contiguous; one compilation
for each shape.
"""

import helion
import helion.language as hl
import torch


@helion.kernel(config=helion.Config(block_sizes=[1], num_warps=8))
def normalise_rows(x: torch.Tensor, w: torch.Tensor, eps: float) -> torch.Tensor:
    rows, size = x.size()
    y = torch.empty_like(x)
    for tile in hl.tile(rows):
        row = x[tile, :]
        scale = torch.rsqrt(torch.sum(row * row, dim=-1) / size + eps)
        y[tile, :] = row * scale[:, None] * w[:]
    return y


def forward(x: torch.Tensor, w: torch.Tensor, eps: float) -> torch.Tensor:
    size = w.numel()
    return normalise_rows(x.contiguous().view(-1, size), w.contiguous(), eps).view(x.shape)
