"""The short form of a profile for prompts: at most 400 tokens.

Tokens are counted as words, groups of up to three digits, and single signs, which is more than tokenizers make of it.
Lines are left out from the end until it fits.
"""

import re
from collections.abc import Iterator

from .metrics import DERIVED, METRICS, TENSOR
from .records import ConfigProfile, KernelProfile, Profile, short_name

TOKENS_MAX = 400
_TOKEN = re.compile(r"[A-Za-z]{1,8}|[0-9]{1,3}|[^\sA-Za-z0-9]")
_KERNELS, _CONFIGS, _LINES = 2, 4, 5
_TITLES = {item.key: item for item in (*METRICS, TENSOR, *DERIVED)}
_TOLD = (
    "dram_pct",
    "l2_pct",
    "sm_pct",
    "tensor_pct",
    "occupancy_pct",
    "registers",
    "shared_bytes",
    "waves",
    "l1_hit_pct",
    "l2_hit_pct",
    "conflict_pct",
    "excess_pct",
)
_ONLY_IF_ANY = ("conflict_pct", "excess_pct")


def compact(profile: Profile) -> str:
    """The most important first: each configuration with its bottleneck, kernels of the slowest one, lines, gaps."""
    lines = list(_lines(profile))
    while tokens("\n".join(lines)) > TOKENS_MAX and len(lines) > 1:
        lines.pop()
    return "\n".join(lines)


def tokens(text: str) -> int:
    """About how many tokens `text` is, rather too many than too few."""
    return len(_TOKEN.findall(text))


def _lines(profile: Profile) -> Iterator[str]:
    yield f"Profile on {profile.device_kind} by {profile.tool}"
    slowest = max(profile.configs, key=lambda item: item.time_us or 0.0, default=None)
    if slowest is not None and slowest.bottleneck is not None:
        yield f"Slowest configuration {slowest.key}: {slowest.bottleneck.sentence}"
    kernels = sorted(slowest.kernels if slowest else (), key=lambda item: -(item.metrics["duration_us"] or 0.0))
    yield from map(_kernel, kernels[:1])
    for config in profile.configs[:_CONFIGS]:
        yield _config(config)
    for line in profile.hot_lines[:_LINES]:
        yield f"{100 * line.share:.0f} % of samples in line {line.line or '?'}: {line.text[:80]}"
    if profile.instructions:
        yield "Instructions in the assembly: " + ", ".join(
            f"{name.replace('_', ' ')} {count}" for name, count in profile.instructions.items()
        )
    yield from map(_kernel, kernels[1:_KERNELS])


def _config(config: ConfigProfile) -> str:
    time = "" if config.time_us is None else f" {config.time_us:.1f} µs"
    least = config.roofline.least_us
    share = f", {100 * least / config.time_us:.0f} % of the roofline" if least and config.time_us else ""
    return f"{config.key}:{time}{share}{f', {config.bottleneck.title.lower()}' if config.bottleneck else ''}"


def _kernel(kernel: KernelProfile) -> str:
    said = [f"{kernel.metrics['duration_us'] or 0.0:.1f} µs"]
    for key in _TOLD:
        value = kernel.metrics.get(key)
        if value is not None and (value >= 1 or key not in _ONLY_IF_ANY):
            figure = f"{value:.0f} %" if key.endswith("_pct") else f"{value:.0f}" if value >= 100 else f"{value:.3g}"
            said.append(f"{_TITLES[key].title.lower()} {figure}")
    if kernel.stalls:
        said.append(
            "stalls " + " ".join(f"{reason} {100 * share:.0f} %" for reason, share in list(kernel.stalls.items())[:3])
        )
    if kernel.occupancy_limiter:
        said.append(f"occupancy limited by {kernel.occupancy_limiter}")
    return f"{short_name(kernel.name)}: {', '.join(said)}"
