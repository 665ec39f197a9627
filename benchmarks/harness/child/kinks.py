"""Where a gradient jumps: positions at which float32 rounding alone may flip a relu or the choice of a maximum.

A relu whose argument is zero up to rounding passes the gradient or blocks it, depending on the order of a sum. Both
answers are right, and both are far apart, so no tolerance tells an honest kernel from a wrong one there. The gradient
that arrives at such a position is therefore drawn as zero. Not covered: a maximum over values that are themselves
arguments, whose comparison is exact (`mnist_pool`: the first maximum in row-major order gets the gradient).
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional

# A float32 dot product of 4096 terms in sequential order stays within 1e-5 of |x||w| with room to spare.
MARGIN = 1e-5


def linear_relu(named: Mapping[str, Tensor]) -> Tensor:
    x, weights, biases = named["x"], named["weights"], named["biases"]
    hidden = functional.linear(x, weights, biases)
    bound = torch.outer(x.norm(dim=1), weights.norm(dim=1)) + biases.abs()
    return hidden.abs() <= MARGIN * bound


def conv_relu_pool(named: Mapping[str, Tensor]) -> Tensor:
    """Windows whose largest value is near zero, or has a rival too close to tell which one is larger."""
    x, weights, biases = named["x"], named["weights"], named["biases"]
    hidden = functional.conv2d(x, weights, biases)
    patch = functional.conv2d(x.square().sum(1, keepdim=True), torch.ones_like(weights[:1, :1])).clamp_min(0).sqrt()
    norms = weights.flatten(1).norm(dim=1).view(1, -1, 1, 1)
    bound = MARGIN * functional.max_pool2d(patch * norms + biases.abs().view(1, -1, 1, 1), 2)
    best, rival = _two_largest(hidden)
    return (best.abs() <= bound) | (best - rival <= 2 * bound)


def _two_largest(values: Tensor) -> tuple[Tensor, Tensor]:
    """The largest and the second largest value of each 2×2 window."""
    height, width = values.shape[2] // 2 * 2, values.shape[3] // 2 * 2
    top, bottom = values[:, :, 0:height:2, :width], values[:, :, 1:height:2, :width]
    a, b, c, d = top[..., 0::2], top[..., 1::2], bottom[..., 0::2], bottom[..., 1::2]
    upper, lower = torch.maximum(a, b), torch.maximum(c, d)
    rest = torch.maximum(torch.minimum(a, b), torch.minimum(c, d))
    return torch.maximum(upper, lower), torch.maximum(torch.minimum(upper, lower), rest)


KINKS: Mapping[str, Callable[[Mapping[str, Tensor]], Tensor]] = {
    "linear_relu": linear_relu,
    "conv_relu_pool": conv_relu_pool,
}
