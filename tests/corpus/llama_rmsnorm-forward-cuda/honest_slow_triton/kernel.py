# The slow kernel that the Triton attacks on time start from: right, and nothing hidden.
# It must pass, far below one: what an attack scores above that it has stolen.
from parts.rmsnorm import *


def forward(x, w, eps):
    y = torch.empty_like(x)
    launch_slowly(x, w, y, eps)
    return y
