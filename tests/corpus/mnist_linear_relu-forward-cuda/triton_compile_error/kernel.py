# A kernel that asks Triton for a function which it does not have.
# Triton compiles at the first call, and what it says must reach the person.
from parts.linear_relu import *


@triton.jit
def wish(y, count, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    tl.store(y + places, tl.make_it_fast(tl.load(y + places)), mask=places < count)


def forward(x, weights, biases):
    y = honest(x, weights, biases)
    wish[(1,)](y, y.numel(), BLOCK=64)
    return y
