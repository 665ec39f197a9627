"""Whether a result is right: the float64 reference and the comparison with it.

Runs in the referee, which never holds the submission. The comparison asks of every element that it passes, so a value
that compares with nothing (NaN) fails. Not covered: shapes and dtypes of what a submission returned, which are checked
before any value is looked at.
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

from . import recorded
from .devices import run_as_written
from .widening import Widened

PIECE = 1 << 26  # elements that are looked at at a time: in float64 half a gigabyte


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
    count = ref64.numel()
    rms = math.sqrt(sum(float(part.square().sum()) for part in pieces(ref64)) / count)
    if not math.isfinite(rms):
        raise ValueError("the reference is not finite")
    found = [_compared(*pair, rms, tolerance) for pair in zip(pieces(out), pieces(ref64), strict=True)]
    worst, place = max((item.worst, number * PIECE + item.place) for number, item in enumerate(found))
    bad = sum(item.bad for item in found)
    rms_error = _ratio(math.sqrt(sum(item.squares for item in found) / count), rms)
    reason = _reason(worst, place, out.shape, bad, tolerance) if bad else _rms_reason(rms_error, rms_tolerance)
    return ResultComparison(
        ok=bad == 0 and rms_error <= rms_tolerance,
        max_abs_error=max(item.largest for item in found),
        max_rel_error=worst,
        rms_error=rms_error,
        bad_elements=bad,
        reason=reason,
    )


def pieces(values: Tensor) -> Sequence[Tensor]:
    """`values` in parts of at most PIECE elements: large ones need little memory beside themselves."""
    parts: Sequence[Tensor] = values.reshape(-1).split(PIECE)
    return parts


def load_reference(folder: Path) -> ModuleType:
    """The module `reference.py` of a task folder, with what was recorded beside it as `RECORDED`."""
    module = load_module(folder / "reference.py", f"reference_{folder.name}")
    values = folder / recorded.FILE
    if values.is_file():
        module.RECORDED = recorded.read(values)  # type: ignore[attr-defined]
    return module


def load_module(path: Path, name: str) -> ModuleType:
    """A file as a module that is known by `name`: dataclasses and the like look their module up."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise ImportError(f"{path.name} in {path.parent.name} is not a Python file")
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


@dataclass(frozen=True)
class _Piece:
    """What was found in one piece: `place` is that of the worst element, `squares` the sum of squared errors."""

    largest: float
    worst: float
    place: int
    bad: int
    squares: float


def _compared(out: Tensor, ref64: Tensor, rms: float, tolerance: float) -> _Piece:
    wide = out.double()
    difference = (wide - ref64).abs_()
    relative = _relative(difference, ref64, rms)
    largest, worst, place, squares = _figures(difference, relative)
    if not math.isfinite(largest):  # the largest of values with a NaN among them is NaN
        difference.masked_fill_(~torch.isfinite(wide), math.inf)
        relative = _relative(difference, ref64, rms)
        largest, worst, place, squares = _figures(difference, relative)
    return _Piece(
        largest=largest,
        worst=worst,
        place=int(place),
        bad=0 if worst <= tolerance else out.numel() - int((relative <= tolerance).sum()),
        squares=squares,
    )


def _figures(difference: Tensor, relative: Tensor) -> list[float]:
    """The largest of both, where the latter is, and the sum of squares; fetched at once, as a GPU is waited for."""
    figures = (difference.max(), relative.max(), relative.argmax().double(), difference.square().sum())
    found: list[float] = torch.stack(figures).tolist()
    return found


def _relative(difference: Tensor, ref64: Tensor, rms: float) -> Tensor:
    """Relative to `|ref| + rms(ref)`; where both are zero, so must the result be."""
    if rms == 0:
        return torch.where(difference == 0, 0.0, math.inf)
    return difference / ref64.abs().add_(rms)


def _ratio(error: float, scale: float) -> float:
    if error == 0:
        return 0.0
    return error / scale if scale else math.inf


def _reason(worst: float, place: int, shape: torch.Size, bad: int, tolerance: float) -> str:
    at = tuple(int(index) for index in torch.unravel_index(torch.tensor(place), shape))
    size = f"{worst:.2g} of |reference| + rms" if math.isfinite(worst) else "not finite or should be zero"
    share = f"{bad} of {shape.numel()} elements are off by more than {tolerance:g}"
    return f"{share}; the worst one{f', at {at},' if at else ''} is {size}"


def _rms_reason(rms_error: float, rms_tolerance: float) -> str:
    if rms_error <= rms_tolerance:
        return ""
    said = f"the root mean square of the errors is {rms_error:.2g}, more than {rms_tolerance:g}"
    return f"every element is close to the reference, but {said}"
