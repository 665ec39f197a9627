"""3×3 convolution without padding, relu, max-pool over 2×2 windows."""

import torch
from torch import Tensor
from torch.nn import functional


def forward(x: Tensor, weights: Tensor, biases: Tensor) -> Tensor:
    """x (batch, in, height, width), weights (out, in, 3, 3), biases (out) -> (batch, out, pooled height, width)."""
    return functional.max_pool2d(functional.relu(functional.conv2d(x, weights, biases)), 2)


def backward(x: Tensor, weights: Tensor, biases: Tensor, grad_output: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Arguments of forward, then grad_output in the shape of its result -> gradients of x, weights and biases."""
    active = functional.relu(functional.conv2d(x, weights, biases))
    _, indices = functional.max_pool2d_with_indices(active, (2, 2))
    grad_active = torch.ops.aten.max_pool2d_with_indices_backward(
        grad_output, active, [2, 2], [2, 2], [0, 0], [1, 1], False, indices
    )
    grad_hidden = torch.ops.aten.threshold_backward(grad_active, active, 0)
    grad_x, grad_weights, grad_biases = torch.ops.aten.convolution_backward(
        grad_hidden, x, weights, [biases.shape[0]], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True]
    )
    return grad_x, grad_weights, grad_biases
