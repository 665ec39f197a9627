"""Linear layer followed by a relu."""

import torch
from torch import Tensor
from torch.nn import functional


def forward(x: Tensor, weights: Tensor, biases: Tensor) -> Tensor:
    """x (batch, in), weights (out, in), biases (out) -> (batch, out)."""
    return functional.relu(functional.linear(x, weights, biases))


def backward(grad_output: Tensor, x: Tensor, weights: Tensor, biases: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """grad_output (batch, out), arguments of forward -> gradients of x, weights and biases."""
    hidden = functional.linear(x, weights, biases)
    grad_hidden = torch.ops.aten.threshold_backward(grad_output, hidden, 0)
    return grad_hidden @ weights, grad_hidden.t() @ x, grad_hidden.sum(0)
