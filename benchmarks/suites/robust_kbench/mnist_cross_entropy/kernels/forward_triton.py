# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-decorators=False
"""Mean cross entropy: the mean over rows of log(sum(exp(p - max))) + max - p[target].

Bound by launches for small batches, by reading the scores once for large ones. A program takes some rows, sweeps them
in pieces while it keeps the largest score and the sum of exponentials so far, and leaves its share of the mean. If one
program was enough, its share is the result; else a second kernel adds up the shares. Rows of up to 1024 classes are one
piece. Limits: float32 scores, contiguous; int64 targets that are valid class numbers.
"""

import torch
import triton
import triton.language as tl

PIECE = 1024
PROGRAM_SCORES = 2048  # about as many as a program keeps in registers at a time


@triton.jit
def share_kernel(predictions, targets, shares, row_count, class_count, ROWS: tl.constexpr, CLASSES: tl.constexpr):  # noqa: PLR0917
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = rows < row_count
    wanted = tl.load(targets + rows, mask=inside, other=0)[:, None]
    starts = rows[:, None].to(tl.int64) * class_count
    top = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    picked = tl.zeros((ROWS,), tl.float32)
    for first in range(0, class_count, CLASSES):
        classes = first + tl.arange(0, CLASSES)[None, :]
        # rows behind the end count as zeros, so that no difference of infinities arises
        other = tl.where(inside[:, None], float("-inf"), 0.0)
        valid = inside[:, None] & (classes < class_count)
        scores = tl.load(predictions + starts + classes, mask=valid, other=other)
        new_top = tl.maximum(top, tl.max(scores, axis=1))
        total = total * tl.exp(top - new_top) + tl.sum(tl.exp(scores - new_top[:, None]), axis=1)
        picked += tl.sum(tl.where(classes == wanted, scores, 0.0), axis=1)
        top = new_top
    losses = tl.log(total) + (top - picked)
    tl.store(shares + tl.program_id(0), tl.sum(tl.where(inside, losses, 0.0), axis=0) / row_count)


@triton.jit
def sum_kernel(shares, loss, count, SIZE: tl.constexpr):
    total = tl.zeros((SIZE,), tl.float32)
    for first in range(0, count, SIZE):
        places = first + tl.arange(0, SIZE)
        total += tl.load(shares + places, mask=places < count, other=0.0)
    tl.store(loss, tl.sum(total, axis=0))


def forward(predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """predictions (batch, classes), targets (batch) -> a scalar."""
    row_count, class_count = predictions.shape
    piece = min(PIECE, triton.next_power_of_2(class_count))
    rows = min(max(1, PROGRAM_SCORES // piece), triton.next_power_of_2(row_count))
    programs = triton.cdiv(row_count, rows)
    loss = torch.empty((), dtype=predictions.dtype, device=predictions.device)
    shares = loss if programs == 1 else torch.empty(programs, dtype=loss.dtype, device=loss.device)
    share_kernel[(programs,)](predictions, targets, shares, row_count, class_count, ROWS=rows, CLASSES=piece)
    if programs > 1:
        sum_kernel[(1,)](shares, loss, programs, SIZE=1024)
    return loss
