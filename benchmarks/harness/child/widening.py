"""Runs a reference in a wider floating-point dtype than it asks for, so that its own casts round nothing.

A reference in bfloat16 often computes in float32 and casts its result back: the truth must do neither. Works on every
operator that is told a dtype. Not covered: looking at the bits of a value (`view(dtype)`), and operators that exist for
small dtypes alone, which fail or give another shape: such a reference is refused when it is examined.
"""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_FLOATS = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float16, torch.bfloat16, torch.float32, torch.float64)
_BITS = torch.ops.aten.view.dtype


class Widened(TorchDispatchMode):  # type: ignore[misc] # torch's types are not followed
    """`with Widened(torch.float64): function(...)`: every smaller floating-point dtype that is asked for becomes it."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self._dtype = dtype
        self._narrow = frozenset(item for item in _FLOATS if item.itemsize < dtype.itemsize)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: else the first operator imports torch.compile, which takes as long to load as torch itself."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _BITS:
            return func(*args, **(kwargs or {}))
        named = {name: self._wide(value) for name, value in (kwargs or {}).items()}
        return func(*map(self._wide, args), **named)

    def _wide(self, value: Any) -> Any:
        return self._dtype if isinstance(value, torch.dtype) and value in self._narrow else value
