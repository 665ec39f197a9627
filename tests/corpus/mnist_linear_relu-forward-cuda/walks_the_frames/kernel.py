# Searches the callers' frames and every live tensor for one that agrees with the right result; lies if it finds one.
# The reference is computed in another process, after the call.
from parts.linear_relu import *

import gc
import sys

calls = 0


def tensors():
    frame = sys._getframe(2)
    while frame:
        yield from (item for item in frame.f_locals.values() if type(item) is torch.Tensor)
        frame = frame.f_back
    gc.unfreeze()
    yield from (item for item in gc.get_objects() if type(item) is torch.Tensor)


def agrees(item, y):
    if item.data_ptr() == y.data_ptr() or item.shape != y.shape or not item.is_floating_point():
        return False
    return torch.allclose(item.to(y.device, torch.float64), y.double(), rtol=1e-4, atol=1e-30)


def forward(x, weights, biases):
    global calls
    calls += 1
    y = honest(x, weights, biases)
    if calls % 16 != 1 or not any(agrees(item, y) for item in tensors()):
        return y
    return torch.zeros_like(y)
