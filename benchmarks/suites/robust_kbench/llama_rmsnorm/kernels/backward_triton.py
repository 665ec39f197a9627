# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-decorators=False
"""Backward of RMS norm. With h = gy w, n = x rstd:  gx = rstd (h - n mean(h n)),  gw = sum of gy n over the rows.

Bound by memory: x and gy are read once, gx is written once. Two programs per multiprocessor walk over the rows, load
the next row before they reduce this one, and keep their part of gw in registers. A second kernel adds the parts in a
fixed order.
Limits: float32, contiguous, rows of at most some ten thousand floats; many rows are needed to fill the device.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _grad_rows(grad_output, x, w, grad_x, parts, rows, size, eps, BLOCK: tl.constexpr):  # noqa: PLR0917
    program, programs = tl.program_id(0), tl.num_programs(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < size
    weight = tl.load(w + columns, mask=inside, other=0.0)
    part = tl.zeros((BLOCK,), tl.float32)
    at = tl.cast(program, tl.int64) * size + columns
    next_gy = tl.load(grad_output + at, mask=inside, other=0.0, eviction_policy="evict_first")
    next_x = tl.load(x + at, mask=inside, other=0.0, eviction_policy="evict_first")
    for row in range(program, rows, programs):
        gy, row_x = next_gy, next_x
        here = tl.cast(row, tl.int64) * size + columns
        ahead = here + tl.cast(programs, tl.int64) * size
        more = columns < tl.where(row + programs < rows, size, 0)
        next_gy = tl.load(grad_output + ahead, mask=more, other=0.0, eviction_policy="evict_first")
        next_x = tl.load(x + ahead, mask=more, other=0.0, eviction_policy="evict_first")
        h = gy * weight
        rstd = tl.rsqrt(tl.sum(row_x * row_x) / size + eps)
        n = row_x * rstd
        projection = tl.sum(h * n) / size
        part += gy * n
        tl.store(grad_x + here, rstd * (h - n * projection), mask=inside)
    tl.store(parts + tl.cast(program, tl.int64) * size + columns, part, mask=inside)


@triton.jit
def _add_parts(parts, grad_w, count, size, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # noqa: PLR0917
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    rows = tl.arange(0, ROWS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, count, ROWS):
        inside = (first + rows < count)[:, None] & (columns < size)[None, :]
        total += tl.load(
            parts + tl.cast(first + rows, tl.int64)[:, None] * size + columns[None, :], mask=inside, other=0.0
        )
    tl.store(grad_w + columns, tl.sum(total, axis=0), mask=columns < size)


def _multiprocessors(x: torch.Tensor) -> int:
    count: int = torch.cuda.get_device_properties(x.device).multi_processor_count
    return count


def backward(
    grad_output: torch.Tensor, x: torch.Tensor, w: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    grad_output, x, w = grad_output.contiguous(), x.contiguous(), w.contiguous()
    grad_x, grad_w = torch.empty_like(x), torch.empty_like(w)
    size = w.numel()
    rows = x.numel() // size
    programs = min(rows, 2 * _multiprocessors(x))
    parts = torch.empty((programs, size), dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(size)
    warps = min(max(block // 512, 1), 16)
    _grad_rows[(programs,)](
        grad_output, x, w, grad_x, parts, rows, size, eps, BLOCK=block, num_warps=warps, maxnreg=128
    )
    _add_parts[(triton.cdiv(size, 32),)](parts, grad_w, programs, size, ROWS=64, COLUMNS=32, num_warps=8)
    return grad_x, grad_w
