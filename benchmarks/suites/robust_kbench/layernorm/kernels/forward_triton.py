# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-decorators=False
"""Layer norm over the last three axes: y = (x - mean) / sqrt(var + eps) * weight + bias.

Bound by memory. A row of millions of floats is cut into chunks: a first kernel leaves mean and squared deviations of
every chunk, a second one merges them (each program for itself, they are few) and normalises its chunk. It takes the
chunks backwards, so that what was read last is still in L2; a single row of 17 MB is there as a whole.
Limits: float32, contiguous; long rows or many are needed to fill the device.
"""

import torch
import triton
import triton.language as tl

_CHUNK = 8192


@triton.jit
def _find_statistics(x, statistics, size, chunks, CHUNK: tl.constexpr):
    chunk, row = tl.program_id(0), tl.program_id(1)
    offsets = chunk * CHUNK + tl.arange(0, CHUNK)
    inside = offsets < size
    v = tl.load(x + row.to(tl.int64) * size + offsets, mask=inside, other=0.0)
    mean = tl.sum(v) / tl.minimum(size - chunk * CHUNK, CHUNK)
    deviation = tl.where(inside, v - mean, 0.0)
    at = statistics + (row.to(tl.int64) * chunks + chunk) * 2
    tl.store(at, mean)
    tl.store(at + 1, tl.sum(deviation * deviation))


@triton.jit
def _normalise(x, weight, bias, y, statistics, size, chunks, eps, CHUNK: tl.constexpr, CHUNKS: tl.constexpr):  # noqa: PLR0913, PLR0917
    chunk = chunks - 1 - tl.program_id(0)
    row = tl.num_programs(1) - 1 - tl.program_id(1)
    offsets = chunk * CHUNK + tl.arange(0, CHUNK)
    inside = offsets < size
    at = row.to(tl.int64) * size + offsets
    v = tl.load(x + at, mask=inside, other=0.0, eviction_policy="evict_first")
    w = tl.load(weight + offsets, mask=inside, other=0.0)
    b = tl.load(bias + offsets, mask=inside, other=0.0)

    index = tl.arange(0, CHUNKS)
    known = index < chunks
    from_ = statistics + (row.to(tl.int64) * chunks + index) * 2
    means = tl.load(from_, mask=known, other=0.0)
    squares = tl.load(from_ + 1, mask=known, other=0.0)
    counts = tl.where(known, tl.minimum(size - index * CHUNK, CHUNK), 0).to(tl.float32)
    mean = tl.sum(counts * means) / size
    variance = (tl.sum(squares) + tl.sum(counts * (means - mean) * (means - mean))) / size
    tl.store(y + at, (v - mean) * tl.rsqrt(variance + eps) * w + b, mask=inside)


def forward(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    x, weight, bias = x.contiguous(), weight.contiguous(), bias.contiguous()
    y = torch.empty_like(x)
    size = weight.numel()
    chunks, rows = triton.cdiv(size, _CHUNK), x.numel() // size
    statistics = torch.empty((rows, chunks, 2), dtype=x.dtype, device=x.device)
    _find_statistics[(chunks, rows)](x, statistics, size, chunks, CHUNK=_CHUNK, num_warps=8)
    _normalise[(chunks, rows)](
        x,
        weight,
        bias,
        y,
        statistics,
        size,
        chunks,
        eps,
        CHUNK=_CHUNK,
        CHUNKS=triton.next_power_of_2(chunks),
        num_warps=8,
    )
    return y
