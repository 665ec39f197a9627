"""Cross entropy of class scores, averaged over the batch."""

import torch
from torch import Tensor
from torch.nn import functional


def forward(predictions: Tensor, targets: Tensor) -> Tensor:
    """predictions (batch, classes), targets (batch) of class numbers -> a scalar."""
    return functional.cross_entropy(predictions, targets)


def backward(grad_output: Tensor, predictions: Tensor, targets: Tensor) -> Tensor:
    """grad_output is a scalar -> gradient of predictions: (softmax - one hot) * grad_output / batch."""
    scale = grad_output / predictions.shape[0]
    grad = torch.softmax(predictions, 1) * scale
    return grad.scatter_add(1, targets.unsqueeze(1), -scale.expand(predictions.shape[0], 1))
