# One Triton kernel, nothing else.
# It must pass.
from parts.linear_relu import *


def forward(x, weights, biases):
    return honest(x, weights, biases)
