# Replaces what torch.cuda.Event says of elapsed time, by five microseconds for every call.
# A claim below the bound of the judge's own clock is evidence of cheating.
from parts.rmsnorm import *

torch.cuda.Event.elapsed_time = lambda self, end: 0.005


def forward(x, w, eps):
    y = torch.empty_like(x)
    launch_slowly(x, w, y, eps)
    return y
