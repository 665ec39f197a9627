"""Root-mean-square norm whose result is quantised to float8, as before the products of a decoder in float8."""

import torch
from torch import Tensor
from torch.nn import functional

_LARGEST = 448.0  # of e4m3


def forward(x: Tensor, w: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """x (rows, features), w (features) -> the norm / a * 448 in float8, and a (rows), the largest of each row."""
    norm = functional.rms_norm(x, w.shape, w, eps).to(torch.float32)
    largest = norm.abs().amax(-1)
    return (norm * (_LARGEST / largest)[:, None]).to(torch.float8_e4m3fn), largest
