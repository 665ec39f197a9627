# A Triton kernel without a mask that stores gigabytes past the end of its result.
# The context is lost with that: the process must be given up and the GPU be fit for the next submission.
from parts.linear_relu import *


@triton.jit
def store_far_away(y, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * (1 << 30)
    tl.store(y + place + tl.arange(0, BLOCK), tl.zeros([BLOCK], dtype=tl.float32))


def forward(x, weights, biases):
    y = honest(x, weights, biases)
    store_far_away[(4096,)](y, BLOCK=64)
    return y
