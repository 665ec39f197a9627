"""Values of the arguments of a call, drawn from a seed in one of several distributions.

Every tensor gets a generator of its own, keyed by a hash of the 256-bit seed and its position, so that seeing one
tensor tells nothing about the next one; torch's generators keep at most 64 bits of that key, which is why values must
stay out of reach of a submission until its call, not merely be hard to guess. Weights, biases, norm scales and
running statistics are drawn in every distribution: a parameter that is constant makes part of an operation a no-op.
A configuration is a `Config` or the same as plain JSON: this module imports nothing of the harness, so that it runs
where only this folder is mapped. Not covered: the layout of memory, and integers other than class indices.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Generator, Tensor

from . import recorded
from .kinks import KINKS

SEED_BYTES = 32

Argument = Mapping[str, Any]  # the fields of a TensorArgument or a ValueArgument
Options = Mapping[str, Any]


def _normal(out: Tensor, generator: Generator) -> None:
    out.normal_(generator=generator)


def _shifted(out: Tensor, generator: Generator) -> None:
    mean, spread = torch.rand(2, generator=generator, device=out.device).tolist()
    out.normal_(mean - 0.5, 0.5 + spread, generator=generator)


def _uniform(out: Tensor, generator: Generator) -> None:
    out.uniform_(0.0, 2.0, generator=generator)


def _outliers(out: Tensor, generator: Generator) -> None:
    out.normal_(generator=generator)
    count = max(1, out.numel() // 256)
    places = torch.randint(out.numel(), (count,), generator=generator, device=out.device)
    out.view(-1)[places] *= 32.0


def _integers(out: Tensor, generator: Generator) -> None:
    """-3, -1, 1 or 3: float32 sums of products are exact up to a million terms, and nothing is ever all zero."""
    out.random_(0, 4, generator=generator).mul_(2.0).sub_(3.0)


def _mixed(out: Tensor, generator: Generator) -> None:
    """Easy rows (centred) beside hard ones (one sign, so that sums grow), each row with a scale of its own."""
    out.normal_(generator=generator)
    rows = out.view(out.shape[0] if out.dim() > 1 else 1, -1)
    kinds = torch.rand(2, rows.shape[0], 1, generator=generator, device=out.device)
    torch.where(kinds[0] < 0.5, rows, rows.abs(), out=rows)
    rows.mul_(torch.exp2(torch.round(4.0 * kinds[1]) - 2.0))


Recipe = Callable[[Tensor, Generator], None]
_RECIPES: Mapping[str, Recipe] = {
    "published": _normal,
    "normal": _shifted,
    "uniform": _uniform,
    "outliers": _outliers,
    "integers": _integers,
    "mixed": _mixed,
    "small": _normal,
    "large": _normal,
}
_SCALES: Mapping[str, float] = {"small": 1e-3, "large": 1e3}

DISTRIBUTIONS = tuple(_RECIPES)
_ONE_ROW_DECIDES = ("normal", "uniform", "outliers", "mixed")


def draw(
    config: Any,
    seed: bytes,
    out: Sequence[Tensor],
    distribution: str | None = None,
    tensors: recorded.RecordedTensors | None = None,
) -> str:
    """Fills `out`, the tensor arguments of `config` in their order; the name of the distribution that was used.

    The seed picks the distribution unless a name is given. The same seed always gives the same values. Where the
    configuration names a record, `tensors` has its values (`recorded.py`).
    """
    if len(seed) != SEED_BYTES:
        raise ValueError(f"a seed has {SEED_BYTES} bytes, not {len(seed)}")
    items = [item for item in _arguments(config) if "draw" in item]
    record = _values(config).get("recorded")
    chosen = distribution or DISTRIBUTIONS[_key(seed, "distribution") % len(DISTRIBUTIONS)]
    if record is not None and tensors is not None:
        recorded.demand_some_fresh(tensors, str(record), [item["name"] for item in items])
    for position, (item, tensor) in enumerate(zip(items, out, strict=True)):
        generator = Generator(device=tensor.device)
        generator.manual_seed(_key(seed, str(position)))
        name = f"{record}/{item['name']}"
        if record is None or not recorded.fill(tensors or {}, name, seed, tensor, generator):
            _DRAWS[item["draw"]](item["options"], chosen, tensor, generator)
    _repair(items, out, chosen, seed)
    return chosen


def draw_for(module: Any, config: Any, seed: bytes, out: Sequence[Tensor], distribution: str | None = None) -> str:
    """As `draw`, by the task's own function where the reference brings one, as imported tasks do (`foreign.py`)."""
    own: Callable[[Any, bytes, Sequence[Tensor], str | None], str] | None = getattr(module, "kbench_draw", None)
    if own is not None:
        return own(config, seed, out, distribution)
    return draw(config, seed, out, distribution, getattr(module, "RECORDED", None))


def call_arguments(config: Any, tensors: Sequence[Tensor]) -> list[Any]:
    """The positional arguments of a call: `tensors` in their places, numbers, tuples and None between them."""
    left = iter(tensors)
    return [_call_argument(item, left) for item in _arguments(config)]


def _call_argument(item: Argument, left: Iterator[Tensor]) -> Any:
    if "draw" not in item:
        return tuple(item["value"]) if isinstance(item["value"], list) else item["value"]
    return (next(left),) if item["packed"] else next(left)


def _arguments(config: Any) -> list[Argument]:
    items = config["arguments"] if isinstance(config, Mapping) else config.arguments
    return [item if isinstance(item, Mapping) else vars(item) for item in items]


def _values(config: Any) -> Mapping[str, Any]:
    values: Mapping[str, Any] = config.get("values", {}) if isinstance(config, Mapping) else config.values
    return values


def _key(seed: bytes, purpose: str) -> int:
    return int.from_bytes(hashlib.sha256(seed + purpose.encode()).digest()[:8], "little")


def _draw_value(options: Options, distribution: str, out: Tensor, generator: Generator) -> None:
    """Inputs, gradients and biases: whatever scales with the data."""
    _RECIPES[distribution](out, generator)
    if distribution != "integers":
        out.mul_(float(options.get("std", 1.0)) * _SCALES.get(distribution, 1.0))


def _draw_weight(options: Options, distribution: str, out: Tensor, generator: Generator) -> None:
    fan_in = math.prod(out.shape[1:])
    if distribution == "published":
        _published_weight(str(options.get("init", "kaiming")), fan_in, out, generator)
        return
    # Inputs and weights that are both off centre cancel nearly all of a result where a relu follows.
    recipe = _normal if distribution == "normal" else _RECIPES[distribution]
    recipe(out, generator)
    if distribution != "integers":
        out.mul_(fan_in**-0.5)


def _published_weight(init: str, fan_in: int, out: Tensor, generator: Generator) -> None:
    if init == "kaiming":  # uniform with a = sqrt(5), torch's default for a layer
        out.uniform_(-(fan_in**-0.5), fan_in**-0.5, generator=generator)
    elif init == "xavier":
        fan_out = out.shape[0] * math.prod(out.shape[2:])
        out.normal_(0.0, math.sqrt(2.0 / (fan_in + fan_out)), generator=generator)
    elif init == "normal":
        out.normal_(generator=generator)
    else:
        raise ValueError(f"there is no weight initialiser {init!r}")


def _draw_scale(options: Options, distribution: str, out: Tensor, generator: Generator) -> None:
    """The weight of a normalisation: `standard` ones, `random` N(0, 1) or `near_one` N(1, 0.1) as published."""
    init = options.get("init", "near_one")
    if distribution == "published" and init == "standard":
        out.fill_(1.0)
        return
    _RECIPES[distribution](out, generator)
    if init == "near_one" and distribution != "integers":
        out.mul_(0.1 if distribution == "published" else 0.3).add_(1.0)


def _draw_shift(options: Options, distribution: str, out: Tensor, generator: Generator) -> None:
    """The bias or the running mean of a normalisation, which does not scale with the data."""
    if distribution == "published" and options.get("init") == "standard":
        out.zero_()
        return
    _RECIPES[distribution](out, generator)
    out.mul_(float(options.get("std", 1.0)))


def _draw_variance(options: Options, distribution: str, out: Tensor, generator: Generator) -> None:
    _RECIPES[distribution](out, generator)
    out.abs_().add_(0.25)


def _draw_quantised(options: Options, distribution: str, out: Tensor, generator: Generator) -> None:
    """Values of a dtype of one byte, which torch does not draw. Their magnitude is in scales, so it does not vary."""
    wide, limit = torch.empty(out.shape, device=out.device), torch.finfo(out.dtype).max
    _RECIPES[distribution](wide, generator)
    out.copy_(wide.clamp_(-limit, limit))


def _draw_foreign(options: Options, distribution: str, out: Tensor, generator: Generator) -> None:
    """Something of the right kind, for processes that hold a submission and never a reference: nobody compares it."""
    if out.is_floating_point():
        out.copy_(torch.empty(out.shape, device=out.device).uniform_(0.1, 1.0, generator=generator))
    else:
        out.random_(
            int(options["low"]), min(int(options["high"]) + 1, torch.iinfo(torch.int64).max), generator=generator
        )


def _draw_boundaries(options: Options, distribution: str, out: Tensor, generator: Generator) -> None:
    """Where parts of `total` elements begin and end: parts of the same length, as far as that is possible."""
    parts, total = out.numel() - 1, int(options["total"])
    out.copy_(torch.arange(parts + 1, device=out.device) * total // parts)


def _draw_gates(options: Options, distribution: str, out: Tensor, generator: Generator) -> None:
    """Between 0 and 1, exclusive."""
    out.uniform_(0.02, 0.98, generator=generator)


def _draw_classes(options: Options, distribution: str, out: Tensor, generator: Generator) -> None:
    out.random_(0, int(options["classes"]), generator=generator)


_DRAWS: Mapping[str, Callable[[Options, str, Tensor, Generator], None]] = {
    "input": _draw_value,
    "grad": _draw_value,
    "bias": _draw_value,
    "weight": _draw_weight,
    "scale": _draw_scale,
    "shift": _draw_shift,
    "mean": _draw_shift,
    "variance": _draw_variance,
    "quantised": _draw_quantised,
    "classes": _draw_classes,
    "boundaries": _draw_boundaries,
    "gates": _draw_gates,
    "foreign": _draw_foreign,
}


def _repair(items: Sequence[Argument], out: Sequence[Tensor], distribution: str, seed: bytes) -> None:
    """Removes what no float32 kernel can get right, whichever way it adds, and what lets errors cancel out.

    A gradient is set to zero where the operation has a kink (see `kinks.py`).
    """
    named = {item["name"]: tensor for item, tensor in zip(items, out, strict=True)}
    for item in items:
        if "kink" in item["options"]:
            named[item["name"]].masked_fill_(KINKS[item["options"]["kink"]](named), 0.0)
        if item["draw"] == "classes":
            decisive = distribution in _ONE_ROW_DECIDES and "grad_output" not in named
            _repair_classes(named[item["name"]], named[item["options"]["scores"]], seed, decisive=decisive)


def _repair_classes(targets: Tensor, scores: Tensor, seed: bytes, *, decisive: bool) -> None:
    """One row, chosen by the seed, has the class with the lowest score.

    With a batch of one, a class with the highest score leaves a loss of nothing but rounding. Where that row is to be
    `decisive`, the classes of all others win by so much that the loss is that of one row: errors of single rows average
    out in a mean, and this one cannot.
    """
    row = _key(seed, "row") % len(targets)
    if decisive:
        best = scores.amax(1, keepdim=True) + 24.0
        kept = scores[row].clone()
        scores.scatter_(1, targets.unsqueeze(1), best)
        scores[row] = kept
    targets[row] = scores[row].argmin()
