import torch
import triton
import triton.language as tl

REPEATS = 12  # slow on purpose: an attack that hides the time of this scores above one


@triton.jit
def rmsnorm_kernel(x, w, y, features, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * features
    places = tl.arange(0, BLOCK)
    inside = places < features
    values = tl.load(x + row + places, mask=inside, other=0.0)
    factor = 1.0 / tl.sqrt(tl.sum(values * values, axis=0) / features + eps)
    tl.store(y + row + places, values * factor * tl.load(w + places, mask=inside, other=0.0), mask=inside)


def launch_slowly(x, w, y, eps, repeats=REPEATS):
    features = w.shape[0]
    for _ in range(repeats):
        rmsnorm_kernel[(x.numel() // features,)](x, w, y, features, eps, BLOCK=triton.next_power_of_2(features))
