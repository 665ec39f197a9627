"""Root-mean-square norm over the last axis, as in Llama."""

import torch
from torch import Tensor
from torch.nn import functional


def forward(x: Tensor, w: Tensor, eps: float) -> Tensor:
    """x (batch, tokens, features), w (features) -> the shape of x."""
    return functional.rms_norm(x, w.shape, w, eps)


def backward(grad_output: Tensor, x: Tensor, w: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """grad_output like x -> gradients of x and w."""
    rstd = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    normed = x * rstd
    grad_normed = grad_output * w
    projection = (grad_normed * normed).mean(-1, keepdim=True)
    return (grad_normed - normed * projection) * rstd, (grad_output * normed).sum((0, 1))
