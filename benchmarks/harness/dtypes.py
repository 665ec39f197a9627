"""The dtypes that arguments and results may have: their sizes, their precision, and what C++ calls them.

The precision of a task is that of its coarsest floating-point tensor. Its tolerance has to leave room for honest work
in that precision, and to refuse the next lower one. Imports nothing, since every child process has it. Not covered:
float4, two values of which share a byte.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Dtype:
    """One dtype, by the name that torch gives it.

    `bits` are those of the significand, the leading one included; 0 for integers. `lower` is the next lower precision.
    """

    name: str
    nbytes: int
    c_type: str
    bits: int = 0
    lower: tuple[str, int] | None = None

    @property
    def is_float(self) -> bool:
        return self.bits > 0

    @property
    def rounding(self) -> float:
        """The largest relative error of one value that is rounded to this dtype."""
        return 2.0**-self.bits


DTYPES = {
    item.name: item
    for item in (
        Dtype("float64", 8, "double", 53, ("float32", 24)),
        Dtype("float32", 4, "float", 24, ("bfloat16", 8)),
        Dtype("float16", 2, "at::Half", 11, ("bfloat16", 8)),
        Dtype("bfloat16", 2, "at::BFloat16", 8, ("float8_e4m3fn", 4)),
        Dtype("float8_e4m3fn", 1, "at::Float8_e4m3fn", 4, ("float4_e2m1fn", 2)),
        Dtype("float8_e5m2", 1, "at::Float8_e5m2", 3, ("float4_e2m1fn", 2)),
        Dtype("int64", 8, "int64_t"),
        Dtype("int32", 4, "int32_t"),
        Dtype("int16", 2, "int16_t"),
        Dtype("int8", 1, "int8_t"),
        Dtype("uint8", 1, "uint8_t"),
        Dtype("bool", 1, "bool"),
    )
}
_SMALL = 8  # a tensor with less than this part of the values of the largest one is no operand of a product
_OPERANDS = 2
_FASTER = {"cpu": {2: 16, 1: 32}, "cuda": {2: 2, 1: 4}}  # matrix units, by bytes of a value, over what is measured


def precision_of(names: Iterable[str]) -> Dtype:
    """The precision of a task whose tensors have these dtypes; float32 where none is floating-point."""
    floats = [DTYPES[name] for name in names if DTYPES[name].is_float]
    return min(floats, key=lambda item: item.bits, default=DTYPES["float32"])


def arithmetic_factor(tensors: Iterable[tuple[str, int]], device_class: str) -> int:
    """How many times faster than the measured peak a device may compute, at most; dtype and size of each operand.

    A product is as fast as its wider operand allows, so the second narrowest of the large tensors counts. Scales are
    not large, and a single tensor of small integers beside others is a mask, or is multiplied by one of these.
    """
    known = [(DTYPES[name], values) for name, values in tensors if name != "bool"]
    largest = max((values for _, values in known), default=0)
    integers = [item.nbytes for item, values in known if not item.is_float and _SMALL * values >= largest]
    floats = [(item.nbytes, values) for item, values in known if item.is_float]
    if floats:
        largest = max(values for _, values in floats)
        narrow = [nbytes for nbytes in integers if nbytes < DTYPES["float32"].nbytes]
        integers = narrow if len(narrow) >= _OPERANDS else []
    widths = sorted([*integers, *(nbytes for nbytes, values in floats if _SMALL * values >= largest)])
    return _FASTER[device_class].get(widths[:_OPERANDS][-1] if widths else 4, 1)
