"""RMS norm over the last axis: y = x / sqrt(mean(x^2) + eps) * w.

Bound by memory: x is read once, y is written once. One block per row keeps the row in registers between the sum of
squares and the scaling; w stays in the caches. Rows whose length is a multiple of 4 move as four floats at a time.
Limits: float32, contiguous, rows of at most some ten thousand floats; one compilation for each length of rows.
"""

import functools

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import make_ptr

THREADS = 256
WARPS = THREADS // 32


@cute.kernel
def normalise_rows(x: cute.Tensor, w: cute.Tensor, y: cute.Tensor, eps: cutlass.Float32, SIZE: cutlass.Constexpr):
    pack = cutlass.const_expr(4 if SIZE % 4 == 0 else 1)
    packs = cutlass.const_expr(SIZE // pack)
    steps = cutlass.const_expr(-(-packs // THREADS))
    thread, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    x_packs = cute.zipped_divide(x[row, None], (pack,))
    y_packs = cute.zipped_divide(y[row, None], (pack,))
    w_packs = cute.zipped_divide(w, (pack,))
    kept = cute.make_rmem_tensor(cute.make_layout((pack, steps)), cutlass.Float32)
    for step in cutlass.range_constexpr(steps):
        at = thread + step * THREADS
        if cutlass.const_expr((step + 1) * THREADS <= packs):
            cute.autovec_copy(x_packs[None, at], kept[None, step])
        else:
            kept[None, step].fill(0.0)
            if at < packs:
                cute.autovec_copy(x_packs[None, at], kept[None, step])
    total = cutlass.Float32(0.0)
    for number in cutlass.range_constexpr(pack * steps):
        total += kept[number] * kept[number]
    total = cute.arch.warp_reduction_sum(total)
    sums = cute.arch.alloc_smem(cutlass.Float32, WARPS)
    of_warps = cute.make_tensor(sums, cute.make_layout(WARPS))
    if thread % 32 == 0:
        of_warps[thread // 32] = total
    cute.arch.sync_threads()
    total = cutlass.Float32(0.0)
    for number in cutlass.range_constexpr(WARPS):
        total += of_warps[number]
    scale = cute.math.rsqrt(total / SIZE + eps)
    weights = cute.make_rmem_tensor(cute.make_layout(pack), cutlass.Float32)
    for step in cutlass.range_constexpr(steps):
        at = thread + step * THREADS
        if at < packs:
            cute.autovec_copy(w_packs[None, at], weights)
            for number in cutlass.range_constexpr(pack):
                kept[number, step] = kept[number, step] * scale * weights[number]
            cute.autovec_copy(kept[None, step], y_packs[None, at])


@cute.jit
def launch(
    x: cute.Pointer,
    w: cute.Pointer,
    y: cute.Pointer,
    rows: cutlass.Int32,
    eps: cutlass.Float32,
    stream: cuda.CUstream,
    SIZE: cutlass.Constexpr,
):
    layout = cute.make_layout((rows, SIZE), stride=(SIZE, 1))
    normalise_rows(
        cute.make_tensor(x, layout), cute.make_tensor(w, cute.make_layout(SIZE)), cute.make_tensor(y, layout), eps, SIZE
    ).launch(grid=(rows, 1, 1), block=(THREADS, 1, 1), stream=stream)


def _pointer(address: int, size: int) -> cute.Pointer:
    return make_ptr(cutlass.Float32, address, cute.AddressSpace.gmem, assumed_align=16 if size % 4 == 0 else 4)


@functools.cache
def compiled(size: int):
    nowhere = _pointer(0, size)
    return cute.compile(launch, nowhere, nowhere, nowhere, 1, 1.0, cuda.CUstream(0), size)


def forward(x: torch.Tensor, w: torch.Tensor, eps: float) -> torch.Tensor:
    x, w = x.contiguous(), w.contiguous()
    y = torch.empty_like(x)
    size = w.numel()
    addresses = (_pointer(item.data_ptr(), size) for item in (x, w, y))
    stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
    compiled(size)(*addresses, x.numel() // size, eps, stream)
    return y
