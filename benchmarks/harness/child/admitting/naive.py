"""Runs a reference with every sum as one float32 loop from the first term to the last.

That is how a straightforward kernel adds, and its error grows with the number of terms while a library's hardly does,
so a tolerance must leave room for it. Works by intercepting the operators that a reference ends in; an operator that
sums and is not known here runs as torch has it. Not covered: a sum over a loop that is split among threads, which is
more exact than this one. Where tensors lie on a GPU, each term is a launch, so only so much is added there.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._decomp import get_decompositions
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten


class TooLong(Exception):
    """The sums have so many terms that adding them one by one would take too long."""


class NaiveSums(TorchDispatchMode):  # type: ignore[misc] # torch's types are not followed
    """`with NaiveSums(): reference.forward(...)` in float32. Raises TooLong before a GPU works over `limit_s`."""

    def __init__(self, limit_s: float = math.inf) -> None:
        super().__init__()
        self._left_s = limit_s

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _NAIVE:
            terms, elements = _work(func, args)
            self._left_s -= terms * max(_LAUNCH_S, elements * _ELEMENT_S)
            if self._left_s < 0:
                raise TooLong
            return _NAIVE[func](*args, **(kwargs or {}))
        if func in _DECOMPOSED:
            with self:
                return _DECOMPOSED[func](*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _sum(x: Tensor, dim: Sequence[int] | int | None = None, keepdim: bool = False, **_: Any) -> Tensor:
    axes = _axes(x, dim)
    kept = [axis for axis in range(x.dim()) if axis not in axes]
    rows = x.permute(*kept, *axes).reshape(*(x.shape[axis] for axis in kept), -1)
    total = (
        added(rows) if x.is_cuda else torch.from_numpy(np.asarray(np.add.accumulate(rows.numpy(), axis=-1)[..., -1]))
    )
    return total.reshape([1 if axis in axes else size for axis, size in enumerate(x.shape)]) if keepdim else total


def added(rows: Tensor) -> Tensor:
    """The sums over the last axis, term after term; the same as numpy's on a processor."""
    terms = rows.movedim(-1, 0).contiguous()
    total = terms[0].clone()
    for term in terms[1:]:
        total += term
    return total


def _axes(x: Tensor, dim: Sequence[int] | int | None) -> list[int]:
    wanted = [dim] if isinstance(dim, int) else list(dim or range(x.dim()))
    return sorted(axis % x.dim() for axis in wanted)


def _mean(x: Tensor, dim: Sequence[int] | int | None = None, keepdim: bool = False, **_: Any) -> Tensor:
    return _sum(x, dim, keepdim) / math.prod(x.shape[axis] for axis in _axes(x, dim))


def _var_mean(x: Tensor, dim: Sequence[int], *, correction: int = 1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    count = math.prod(x.shape[axis] for axis in _axes(x, dim))
    mean = _mean(x, dim, keepdim=True)
    var = _sum((x - mean).square(), dim, keepdim) / (count - correction)
    return var, mean if keepdim else mean.reshape(var.shape)


def _mm(a: Tensor, b: Tensor) -> Tensor:
    if not a.is_cuda and a.dtype in (torch.float32, torch.float64):
        return _mm_by_numpy(a, b) if a.shape[0] <= b.shape[1] else _mm_by_numpy(b.t(), a.t()).t().contiguous()
    total = a.new_zeros(a.shape[0], b.shape[1])
    columns = a.t().contiguous()
    for k in range(b.shape[0]):
        total += columns[k, :, None] * b[k]
    return total


def _mm_by_numpy(a: Tensor, b: Tensor) -> Tensor:
    """The same numbers; a step costs a fraction of what it costs through torch, whose every operator is intercepted."""
    columns, rows = (x.detach().contiguous().numpy() for x in (a.t(), b))
    total = np.zeros((columns.shape[1], rows.shape[1]), rows.dtype)
    product = np.empty_like(total)
    for column, row in zip(columns[:, :, None], rows, strict=True):
        np.multiply(column, row, out=product)
        np.add(total, product, out=total)
    return torch.from_numpy(total)


def _addmm(bias: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return _mm(a, b) + bias


def _bmm(a: Tensor, b: Tensor) -> Tensor:
    return torch.stack([_mm(x, y) for x, y in zip(a, b, strict=True)])


def _convolution(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, *_: Any) -> Tensor:
    patches = _patches(x, weight, stride, padding)
    flat = _mm(weight.flatten(1), patches.transpose(0, 1).flatten(1))
    height, width = (
        (size + 2 * pad - kernel) // step + 1
        for size, pad, kernel, step in zip(x.shape[2:], padding, weight.shape[2:], stride, strict=True)
    )
    out = flat.view(weight.shape[0], x.shape[0], height, width).transpose(0, 1)
    return out if bias is None else out + bias.view(1, -1, 1, 1)


def _patches(x: Tensor, weight: Tensor, stride: Any, padding: Any) -> Tensor:
    return functional.unfold(x, tuple(weight.shape[2:]), 1, tuple(padding), tuple(stride))


def _convolution_backward(
    grad: Tensor, x: Tensor, weight: Tensor, _sizes: Any, stride: Any, padding: Any, *_: Any
) -> tuple[Tensor, Tensor, Tensor]:
    grads = grad.transpose(0, 1).flatten(1)
    patches = _patches(x, weight, stride, padding).transpose(0, 1).flatten(1)
    spread = _mm(weight.flatten(1).t(), grads).view(-1, x.shape[0], grad[0, 0].numel()).transpose(0, 1)
    grad_x = functional.fold(spread, x.shape[2:], tuple(weight.shape[2:]), 1, tuple(padding), tuple(stride))
    return grad_x, _mm(grads, patches.t()).view_as(weight), _sum(grads, 1)


def _work(func: Any, args: Sequence[Any]) -> tuple[int, int]:
    """How many terms are added one after the other, and to how many sums at a time."""
    if func in (aten.mm.default, aten.addmm.default):
        a, b = args[-2:]
        return b.shape[0], a.shape[0] * b.shape[1]
    x = args[0]
    if func is aten.bmm.default:
        return x.shape[0] * x.shape[2], x.shape[1] * args[1].shape[2]
    if func is aten.convolution.default:
        weight = args[1]
        return math.prod(weight.shape[1:]), x.numel() // x.shape[1] * weight.shape[0]
    if func is aten.convolution_backward.default:
        return args[1].numel() // args[1].shape[1], args[2].numel()
    terms = math.prod(x.shape[axis] for axis in _axes(x, args[1] if len(args) > 1 else None))
    return terms, x.numel() // terms


_LAUNCH_S, _ELEMENT_S = 2e-5, 5e-12  # of one step on a GPU, and of each sum in it
_NAIVE: dict[Any, Callable[..., Any]] = {
    aten.sum.default: _sum,
    aten.sum.dim_IntList: _sum,
    aten.mean.default: _mean,
    aten.mean.dim: _mean,
    aten.var_mean.correction: _var_mean,
    aten.mm.default: _mm,
    aten.addmm.default: _addmm,
    aten.bmm.default: _bmm,
    aten.convolution.default: _convolution,
    aten.convolution_backward.default: _convolution_backward,
}
_DECOMPOSED: dict[Any, Callable[..., Any]] = get_decompositions(
    [
        aten.native_layer_norm,
        aten.native_layer_norm_backward,
        aten._fused_rms_norm,
        aten._softmax,
        aten._log_softmax,
        aten._log_softmax_backward_data,
        aten.nll_loss_forward,
    ]
)
