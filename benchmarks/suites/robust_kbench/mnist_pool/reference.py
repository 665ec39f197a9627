"""Max-pool over 2×2 windows; a last odd row or column is dropped."""

import torch
from torch import Tensor
from torch.nn import functional


def forward(x: Tensor) -> Tensor:
    """x (batch, channels, height, width) -> (batch, channels, height // 2, width // 2)."""
    return functional.max_pool2d(x, 2)


def backward(inputs: tuple[Tensor], grad_output: Tensor) -> Tensor:
    """inputs is (x,) -> gradient of x. The first of several equal maxima, in row-major order, gets the gradient."""
    (x,) = inputs
    _, indices = functional.max_pool2d_with_indices(x, (2, 2))
    grad: Tensor = torch.ops.aten.max_pool2d_with_indices_backward(
        grad_output, x, [2, 2], [2, 2], [0, 0], [1, 1], False, indices
    )
    return grad
