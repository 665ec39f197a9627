"""Genes that many C++ templates share."""

from pathlib import Path

from ..base import Gene, Value

FOLDER = Path(__file__).parent


def lanes(*values: Value, only: tuple[str, tuple[Value, ...]] | None = None) -> Gene:
    return Gene("LANES", values or (4, 8, 16), "floats in a vector", only=only)


def grain(*values: Value) -> Gene:
    return Gene("GRAIN", values or (4096, 16384, 65536), "elements that are worth a thread")
