"""Gated feed-forward layer with silu, as in Llama."""

from torch import Tensor
from torch.nn import functional


def forward(x: Tensor, gate_proj: Tensor, up_proj: Tensor, down_proj: Tensor) -> Tensor:
    """x (batch, tokens, features), gate_proj and up_proj (up, features), down_proj (features, up) -> like x."""
    gate = functional.silu(functional.linear(x, gate_proj))
    return functional.linear(gate * functional.linear(x, up_proj), down_proj)
