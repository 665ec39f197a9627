"""Cross entropy of class scores, averaged over the batch."""

import torch
from torch import Tensor
from torch.nn import functional


def forward(predictions: Tensor, targets: Tensor) -> Tensor:
    """predictions (batch, classes), targets (batch) of class numbers -> a scalar."""
    return functional.cross_entropy(predictions, targets)


def backward(grad_output: Tensor, predictions: Tensor, targets: Tensor) -> Tensor:
    """grad_output is a scalar -> gradient of predictions: (softmax - one hot) * grad_output / batch."""
    batch_size = predictions.shape[0]
    log_softmax = torch.log_softmax(predictions, 1)
    share = (-grad_output / batch_size).expand(batch_size, 1)
    grad_log_softmax = torch.zeros_like(predictions).scatter_(1, targets.unsqueeze(1), share)
    grad: Tensor = torch.ops.aten._log_softmax_backward_data(grad_log_softmax, log_softmax, 1, predictions.dtype)
    return grad
