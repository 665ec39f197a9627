"""Calls back to back, compared as one batch: the GPU is waited for once, and launches little more than for one call.

Says only which calls are clearly right, by the same figures as `check.compare`, and never which are wrong: whoever asks
compares all others one by one. Those are also the calls near a tolerance, because sums over many calls at once are
added in another order, and those with a reference of zeros. Not covered: results that are integers, and every checker
but the one that looks at each element.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .. import check
from ..checkers import Checker, Results
from ..shell import TORCH_DTYPES
from .accelerator import Arena

_GROUP_BYTES = 1 << 26  # of references and inputs that are looked at at a time; about four times as much is in use
_CLEAR = 1 - 1e-6  # of a tolerance: a sum in another order differs by less than a part in a hundred million


def groups(count: int, results: Results, values: Sequence[Tensor]) -> Iterator[range]:
    """The calls 0 to `count` in groups that need little memory; `values` are the inputs of one call."""
    call_bytes = sum(8 * math.prod(item["shape"]) for item in results) + sum(item.nbytes for item in values)
    size = max(1, _GROUP_BYTES // max(1, call_bytes))
    for first in range(0, count, size):
        yield range(first, min(first + size, count))


def copies(arena: Arena, results: Results, places: Sequence[Sequence[int]]) -> list[Tensor]:
    """Of each result one tensor, with a row for each call; `places` has a place for every result of every call."""
    pairs = zip(results, zip(*places, strict=True), strict=True)
    return [_rows(item, [arena.bytes_of(dict(item), place) for place in column]) for item, column in pairs]


def is_possible(checker: Checker, results: Results) -> bool:
    """Whether calls can be compared together at all."""
    return type(checker) is Checker and all(
        TORCH_DTYPES[item["dtype"]].is_floating_point and 0 < math.prod(item["shape"]) <= check.PIECE
        for item in results
    )


def differ(places: Sequence[Tensor], values: Sequence[Tensor]) -> Tensor:
    """Whether any tensor differs from its value in any bit, as a number that is still on the device."""
    if not places:
        return torch.zeros((), dtype=torch.float64)
    return (torch.cat([bits(item) for item in places]) != torch.cat([bits(item) for item in values])).any().double()


def clearly_right(
    copied: Sequence[Tensor], truths: Sequence[Sequence[Tensor]], results: Results, changed: Tensor
) -> list[bool]:
    """Of each call; none is if `changed`. `copied` is that of `copies`, `truths` has the references of every call."""
    if not all(_fits(truth, copied) for truth in truths):
        return [False] * len(truths)
    references = [torch.stack(column) for column in zip(*truths, strict=True)]
    figures = torch.stack([_figures(*pair) for pair in zip(copied, references, strict=True)])
    everywhere = changed.to(figures).expand(*figures.shape[:2], 1)
    read: list[list[list[float]]] = torch.cat([figures, everywhere], 2).tolist()
    by_call = zip(*read, strict=True)
    return [all(_is_clear(*pair) for pair in zip(of_call, results, strict=True)) for of_call in by_call]


def bits(tensor: Tensor) -> Tensor:
    """The bytes of a contiguous tensor of any shape and dtype: NaN equals itself, and zero is not minus zero."""
    return tensor.reshape(-1).view(torch.uint8)


def _rows(item: Mapping[str, Any], places: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(places)).view(TORCH_DTYPES[item["dtype"]]).view(len(places), *item["shape"])


def _fits(truth: Sequence[Tensor], copied: Sequence[Tensor]) -> bool:
    """Whatever does not is left to `check.compare`, which knows what to say of it."""
    return len(truth) == len(copied) and all(
        (ref.shape, ref.dtype, ref.device) == (rows.shape[1:], torch.float64, rows.device)
        for ref, rows in zip(truth, copied, strict=True)
    )


def _figures(rows: Tensor, reference: Tensor) -> Tensor:
    """For each call the root mean square of the reference, the worst error, and that of all elements together."""
    out, ref64 = rows.reshape(len(rows), -1), reference.reshape(len(rows), -1)
    rms = (ref64.square().sum(1) / ref64.shape[1]).sqrt()
    difference = (out.double() - ref64).abs_()
    together = (difference.square().sum(1) / ref64.shape[1]).sqrt() / rms
    worst = difference.div_(ref64.abs().add_(rms.unsqueeze(1))).amax(1)
    return torch.stack([rms, worst, together], 1)


def _is_clear(figures: Sequence[float], item: Mapping[str, Any]) -> bool:
    """Of one result of one call. A figure that is NaN is within no limits."""
    rms, worst, together, changed = figures
    within = worst <= _CLEAR * item["tolerance"] and together <= _CLEAR * item["rms_tolerance"]
    return changed == 0 and 0 < rms < math.inf and within
