"""Matrix product of float8 operands, which are exact in bfloat16, with a scale for each of their rows."""

import torch
from torch import Tensor
from torch.nn import functional


def forward(x: Tensor, w: Tensor, sx: Tensor, sw: Tensor) -> Tensor:
    """x (rows, depth), w (outputs, depth), sx (rows), sw (outputs) -> (rows, outputs) in bfloat16."""
    product = functional.linear(x.to(torch.bfloat16), w.to(torch.bfloat16))
    return (product.to(torch.float32) * sx[:, None] * sw).to(torch.bfloat16)
