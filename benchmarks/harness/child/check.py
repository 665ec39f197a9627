"""Whether a result is right: the float64 reference and the comparison with it.

Runs in the referee, which never holds the submission. The comparison asks of every element that it passes, so a value
that compares with nothing (NaN) fails. Not covered: shapes and dtypes of what a submission returned, which are checked
before any value is looked at, and results too large to compare in one piece.
"""

import importlib.util
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from .devices import run_as_written
from .widening import Widened


@dataclass(frozen=True)
class ResultComparison:
    """The outcome for one result; errors are infinite where the result is not finite.

    `max_rel_error` is relative to `|ref| + rms(ref)`, as the tolerance is.
    """

    ok: bool
    max_abs_error: float
    max_rel_error: float
    rms_error: float  # relative to rms(ref)
    bad_elements: int
    reason: str


def compare(out: Tensor, ref64: Tensor, tolerance: float, rms_tolerance: float) -> ResultComparison:
    """Every element within `tolerance`, and all together within `rms_tolerance`. `reason` is empty if `ok`."""
    if out.shape != ref64.shape or ref64.dtype != torch.float64:
        raise ValueError(f"cannot compare {tuple(out.shape)} with a {ref64.dtype} reference {tuple(ref64.shape)}")
    rms = float(_rms(ref64))
    if not math.isfinite(rms):
        raise ValueError("the reference is not finite")
    wide = out.double()
    difference = (wide - ref64).abs_()
    if not math.isfinite(float(difference.max())):  # the largest of values with a NaN among them is NaN
        difference.masked_fill_(~torch.isfinite(wide), math.inf)
    relative = _relative(difference, ref64, rms)
    worst = float(relative.max())
    bad = 0 if worst <= tolerance else out.numel() - int((relative <= tolerance).sum())
    rms_error = _ratio(float(_rms(difference)), rms)
    return ResultComparison(
        ok=bad == 0 and rms_error <= rms_tolerance,
        max_abs_error=float(difference.max()),
        max_rel_error=worst,
        rms_error=rms_error,
        bad_elements=bad,
        reason=_reason(relative, bad, tolerance) or _rms_reason(rms_error, rms_tolerance),
    )


def load_reference(folder: Path) -> ModuleType:
    """The module `reference.py` of a task folder."""
    return load_module(folder / "reference.py", f"reference_{folder.name}")


def load_module(path: Path, name: str) -> ModuleType:
    """A file as a module that is known by `name`: dataclasses and the like look their module up."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise ImportError(f"{path.name} in {path.parent.name} is no Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    run_as_written(path.read_text(), str(path), vars(module))
    return module


def reference(module: ModuleType, direction: str, args: Sequence[Any]) -> tuple[Tensor, ...]:
    """The results of a call in float64, as a tuple even if there is one.

    The arguments keep their values; what the reference makes on its way, or casts to a smaller dtype, is float64, too.
    """
    function: Callable[..., Tensor | tuple[Tensor, ...]] = getattr(module, direction)
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad(), Widened(torch.float64):
            return tuple(item.double() for item in as_tuple(function(*(as_double(item) for item in args))))
    finally:
        torch.set_default_dtype(default)


def as_tuple(results: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    return (results,) if isinstance(results, Tensor) else tuple(results)


def as_double(item: Any) -> Any:
    if isinstance(item, tuple):
        return tuple(as_double(part) for part in item)
    return item.double() if isinstance(item, Tensor) and item.is_floating_point() else item


def _rms(values: Tensor) -> Tensor:
    return values.square().mean().sqrt()


def _relative(difference: Tensor, ref64: Tensor, rms: float) -> Tensor:
    """Relative to `|ref| + rms(ref)`; where both are zero, so must the result be."""
    if rms == 0:
        return torch.where(difference == 0, 0.0, math.inf)
    return difference / ref64.abs().add_(rms)


def _ratio(error: float, scale: float) -> float:
    if error == 0:
        return 0.0
    return error / scale if scale else math.inf


def _reason(relative: Tensor, bad: int, tolerance: float) -> str:
    if bad == 0:
        return ""
    worst = tuple(int(place) for place in torch.unravel_index(relative.argmax(), relative.shape))
    largest = float(relative.max())
    size = f"{largest:.2g} of |reference| + rms" if math.isfinite(largest) else "not finite or should be zero"
    share = f"{bad} of {relative.numel()} elements are off by more than {tolerance:g}"
    return f"{share}; the worst one{f', at {worst},' if worst else ''} is {size}"


def _rms_reason(rms_error: float, rms_tolerance: float) -> str:
    if rms_error <= rms_tolerance:
        return ""
    return f"every element is near the reference, but all together are off by {rms_error:.2g}, over {rms_tolerance:g}"
