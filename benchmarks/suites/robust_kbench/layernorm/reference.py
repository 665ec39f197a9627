"""Layer norm over the last three axes."""

import torch
from torch import Tensor
from torch.nn import functional


def forward(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """x (batch, features, dim1, dim2); weight and bias (features, dim1, dim2) -> the shape of x."""
    return functional.layer_norm(x, weight.shape, weight, bias, eps)


def backward(  # noqa: PLR0917 - the arguments are those of a submission
    grad_output: Tensor, x: Tensor, weight: Tensor, bias: Tensor, eps: float, normalized_shape: tuple[int, ...]
) -> tuple[Tensor, Tensor, Tensor]:
    """grad_output like x; normalized_shape is the shape of weight -> gradients of x, weight and bias."""
    _, mean, rstd = torch.native_layer_norm(x, normalized_shape, weight, bias, eps)
    grad_x, grad_weight, grad_bias = torch.ops.aten.native_layer_norm_backward(
        grad_output, x, normalized_shape, mean, rstd, weight, bias, [True, True, True]
    )
    return grad_x, grad_weight, grad_bias
