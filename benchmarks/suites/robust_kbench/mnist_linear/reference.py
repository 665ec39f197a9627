"""Linear layer."""

from torch import Tensor
from torch.nn import functional


def forward(x: Tensor, weights: Tensor, biases: Tensor) -> Tensor:
    """x (batch, in), weights (out, in), biases (out) -> (batch, out)."""
    return functional.linear(x, weights, biases)


def backward(grad_output: Tensor, x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """grad_output (batch, out), x, weights -> gradients of x, weights and biases."""
    return grad_output @ weights, grad_output.t() @ x, grad_output.sum(0)
