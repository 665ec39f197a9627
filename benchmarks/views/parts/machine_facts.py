"""The facts of a report about the machine, as lines for people: title and text, units included.

Facts without a title here are listed under their field names at the end of the page; facts that are null are left out.
Does NOT judge anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.templatetags.numbers import size

GPU_FACTS = (
    ("GPU", "{gpu}"),
    ("Driver", "{driver}"),
    ("CUDA", "{cuda}"),
    ("torch", "{torch}"),
    ("Clock before", "{clocks_before_mhz} MHz"),
    ("Clock after", "{clocks_after_mhz} MHz"),
    ("Memory clock", "{memory_clock_mhz} MHz"),
    ("Temperature before", "{temperature_before_c} °C"),
    ("Temperature after", "{temperature_c} °C"),
    ("Power after", "{power_w} W"),
    ("Samples dropped because the GPU was throttled", "{throttled_samples}"),
    ("Copy bandwidth", "{copy_gb_per_s} GB/s"),
    ("float32 matrix product", "{gemm_tflops} TFLOP/s"),
    ("Change of the GPU's speed from start to end: the larger of copy and matrix product", "{canary_drift:.1%}"),
    ("Time of an empty call by the judge's clock", "{null_bound_us} µs"),
    ("Reason for not replaying calls", "{not_replayed}"),
)
OTHER_FACTS = {
    "baseline_gap": ("Time of the stronger baseline without gaps between its launches, as a share of its time", "{}"),
    "build_cached": ("Build reused", "{}"),
    "build_seconds": ("Build time", "{} s"),
    "bursts_s": ("Time spent on calls back to back", "{} s"),
    "compiler": ("Compiler", "{}"),
    "confirm_s": ("Time spent on baseline calls after the submission had ended", "{} s"),
    "cores": ("Cores", "{}"),
    "cpu": ("Processor", "{}"),
    "crew_waited_s": ("Waiting time of the processes that were started in advance", "{} s"),
    "cuda": ("CUDA", "{}"),
    "driver": ("Driver", "{}"),
    "energy_s": ("Time spent on measuring the energy", "{} s"),
    "energy_unknown": ("Reason for not measuring the energy", "{}"),
    "flush_us": ("Time to clear the caches before a call", "{} µs"),
    "gpu": ("GPU", "{}"),
    "kernel": ("Linux kernel", "{}"),
    "l2_bytes": ("L2 cache", "{}"),
    "load_1min": ("Load average over 1 min", "{}"),
    "load_s": ("Loading times in seconds", "{}"),
    "machine": ("Machine", "{}"),
    "memory_bytes": ("GPU memory", "{}"),
    "null_call_us": ("Time of an empty call", "{} µs"),
    "null_spread_us": ("Spread of the time of an empty call", "{} µs"),
    "nvcc": ("CUDA compiler", "{}"),
    "python": ("Python", "{}"),
    "quick": ("Quick check", "{}"),
    "sm_count": ("Multiprocessors", "{}"),
    "steps_per_config": ("Steps per configuration", "{}"),
    "threads": ("Threads", "{}"),
    "torch": ("torch", "{}"),
}
SHOWN_ELSEWHERE = ("isolation", "replay")


@dataclass(frozen=True)
class Fact:
    title: str
    text: str


@dataclass(frozen=True)
class Record:
    """`device` is empty on a CPU, whose few facts stand with the others."""

    device: list[Fact]
    others: list[Fact]


def record(environment: Mapping[str, Any]) -> Record:
    templates = GPU_FACTS if "gpu" in environment else ()
    told = [name for name in environment if any("{" + name in form for _, form in templates)]
    others = [
        _other(name, value)
        for name, value in environment.items()
        if value is not None and name not in (*told, *SHOWN_ELSEWHERE)
    ]
    return Record([*_facts(templates, environment), *_replayed(environment.get("replay", {}))], others)


def _other(name: str, value: Any) -> Fact:
    title, form = OTHER_FACTS.get(name, (name.replace("_", " "), "{}"))
    if isinstance(value, Mapping):
        value = ", ".join(f"{part.replace('_', ' ')} {figure}" for part, figure in value.items())
    elif isinstance(value, float):
        value = f"{value + 0.0:.6g}"  # no minus zero
    elif name.endswith("_bytes") and isinstance(value, int):
        value = size(value)
    return Fact(title, form.format({True: "yes", False: "no"}[value] if isinstance(value, bool) else value))


def _replayed(replay: Mapping[str, Any]) -> list[Fact]:
    """The recorded launches of each configuration, and the times of calls back to back."""
    bursts = replay.get("bursts", {})
    return [Fact(f"Recorded call of {item['config']}", _call(item, bursts)) for item in replay.get("records", [])]


def _call(item: Mapping[str, Any], bursts: Mapping[str, Any]) -> str:
    nodes = ", ".join(str(node.get("kernel") or node.get("kind"))[:80] for node in item["nodes"])
    more = f" and {item['count'] - len(item['nodes'])} more" if item["count"] > len(item["nodes"]) else ""
    burst = bursts.get(item["config"])
    if burst is None:
        return f"{nodes}{more}"
    kernel = burst["kernel"]
    return f"{nodes}{more}; {kernel['single_us']:g} µs alone, {kernel['burst_us']:g} µs in a row of {burst['calls']}"


def _facts(templates: tuple[tuple[str, str], ...], values: Mapping[str, Any]) -> list[Fact]:
    known = {name: value for name, value in values.items() if value is not None}
    return [Fact(title, text) for title, form in templates if (text := _filled(form, known))]


def _filled(form: str, known: Mapping[str, Any]) -> str | None:
    """None where the figure was not recorded; a figure in an unexpected form stands as it is."""
    try:
        return form.format_map(known)
    except KeyError:
        return None
    except ValueError:
        name = form[form.index("{") + 1 :].partition(":")[0].partition("}")[0]
        return str(known[name])
