"""A trusted Numba kernel, run before a submission is loaded: what Numba-CUDA asks of the machine once, it asks here.

The first compilation looks for NVVM, which needs a process of its own where the CUDA toolkit did not come with pip.
"""

import torch
from numba import cuda

_BLOCKS, _THREADS = 512, 32  # it warns of fewer blocks


@cuda.jit
def _copy(source, target):  # type: ignore[no-untyped-def]
    at = cuda.grid(1)
    if at < source.size:
        target[at] = source[at]


def wake() -> None:
    """Compiles and launches."""
    source = torch.ones(100, device="cuda")
    stream = cuda.external_stream(torch.cuda.current_stream().cuda_stream)
    _copy[_BLOCKS, _THREADS, stream](source, torch.empty_like(source))
    torch.cuda.synchronize()
