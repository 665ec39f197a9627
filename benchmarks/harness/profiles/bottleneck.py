"""Names the one bottleneck of a call, by a table of rules over its figures.

The first rule whose conditions all hold is the answer, so the order of the table is part of it: what wastes work comes
before what limits it, and latency is what is left. A rule whose figures are absent does not hold. The thresholds are
rules of thumb, not measurements.
"""

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .metrics import STALLS, WORKING
from .records import Bottleneck, KernelProfile, Roofline, short_name

_Facts = Mapping[str, float]
_LEAST_SHARE = 0.1  # of the sectors of a kernel, below which spills do not matter


@dataclass(frozen=True)
class Rule:
    """`holds` are triples of a fact, `>=` or `<`, and a number. `evidence` quotes facts by name."""

    key: str
    title: str
    holds: tuple[tuple[str, str, float], ...]
    evidence: str
    advice: str


GPU_RULES = (
    Rule(
        "launch-overhead",
        "Launch overhead",
        (("kernels", ">=", 3), ("mean_kernel_us", "<", 5)),
        "one call launches {kernels:.0f} kernels of {mean_kernel_us:.1f} µs on average",
        "Fuse them, so that fewer launches and fewer trips to memory are needed.",
    ),
    Rule(
        "too-short",
        "Launch overhead",
        (("call_us", "<", 3),),
        "its kernels take {call_us:.1f} µs in all, as long as a launch",
        "Little is left to gain on this configuration; look at a larger one.",
    ),
    Rule(
        "spills",
        "Register spills",
        (("spill_pct", ">=", 100 * _LEAST_SHARE),),
        "{spill_pct:.0f} % of the sectors that it moves are of local memory, with {registers:.0f} registers per thread",
        "Keep fewer values per thread alive, or allow more registers with __launch_bounds__.",
    ),
    Rule(
        "uncoalesced",
        "Uncoalesced access to global memory",
        (("excess_pct", ">=", 30), ("memory_pct", ">=", 30)),
        "{excess_pct:.0f} % of its sectors would not be needed if neighbouring threads used neighbouring addresses",
        "Let a warp read consecutive addresses, or transpose the data in shared memory.",
    ),
    Rule(
        "uncoalesced",
        "Uncoalesced access to global memory",
        (("sectors_per_load", ">=", 17), ("memory_pct", ">=", 30)),
        "{sectors_per_load:.1f} sectors per load instruction, where 4 suffice for one float per thread and 16 for four",
        "Let a warp read consecutive addresses, or transpose the data in shared memory.",
    ),
    Rule(
        "bank-conflicts",
        "Bank conflicts of shared memory",
        (("conflict_pct", ">=", 30), ("l1_pct", ">=", 40)),
        "{conflict_pct:.0f} % of the passes of shared memory repeat others, and it is busy {l1_pct:.0f} % of the time",
        "Pad the rows of the array or permute its columns.",
    ),
    Rule(
        "memory-bandwidth",
        "Memory bandwidth",
        (("dram_pct", ">=", 60),),
        "memory is busy {dram_pct:.0f} % of the time",
        "Move fewer bytes: fuse passes, read each value once, keep it in registers or shared memory.",
    ),
    Rule(
        "tensor-cores-unused",
        "Tensor cores unused",
        (("intensity_ratio", ">=", 1), ("tensor_pct", "<", 1), ("sm_pct", ">=", 40)),
        "the work is {intensity_ratio:.1f} times above the ridge of the roofline, and the tensor cores are idle",
        "Use them with values split in two or three tf32 or bf16 parts, if the tolerance allows it.",
    ),
    Rule(
        "compute",
        "Arithmetic",
        (("sm_pct", ">=", 70),),
        "the multiprocessors are busy {sm_pct:.0f} % of the time",
        "Spend fewer instructions per result: larger tiles per thread, wider loads, cheaper functions.",
    ),
    Rule(
        "l2",
        "L2 bandwidth",
        (("l2_pct", ">=", 60),),
        "L2 is busy {l2_pct:.0f} % of the time, memory {dram_pct:.0f} %",
        "Reuse more in shared memory and registers, with larger tiles.",
    ),
    Rule(
        "shared-memory",
        "L1 and shared memory",
        (("l1_pct", ">=", 70),),
        "L1 and shared memory are busy {l1_pct:.0f} % of the time",
        "Keep more in registers, and use wider loads from shared memory.",
    ),
    Rule(
        "few-blocks",
        "Too few blocks",
        (("waves", "<", 0.5), ("blocks", ">=", 1)),
        "{blocks:.0f} blocks fill {waves_pct:.2g} % of the GPU",
        "Split the work into more blocks, along the reduction too if the result is small.",
    ),
    Rule(
        "latency",
        "Latency",
        (("occupancy_pct", ">=", 0),),
        "no unit is busy, {occupancy_pct:.0f} % of the possible warps are active",
        "Have more independent work under way: more warps, several loads per thread, asynchronous copies.",
    ),
)
CPU_RULES = (
    Rule(
        "too-short",
        "Overhead of the call",
        (("call_us", "<", 3),),
        "the call takes {call_us:.1f} µs",
        "Little is left to gain on this configuration; look at a larger one.",
    ),
    Rule(
        "memory-bandwidth",
        "Memory bandwidth",
        (("of_roofline_pct", ">=", 60), ("intensity_ratio", "<", 1)),
        "it reaches {of_roofline_pct:.0f} % of what the measured bandwidth allows",
        "Move fewer bytes: fuse passes, read each value once, block for the caches.",
    ),
    Rule(
        "compute",
        "Arithmetic",
        (("of_roofline_pct", ">=", 60), ("intensity_ratio", ">=", 1)),
        "it reaches {of_roofline_pct:.0f} % of the measured arithmetic peak",
        "Little is left but a cheaper algorithm.",
    ),
    Rule(
        "not-vectorised",
        "Scalar arithmetic",
        (("scalar_pct", ">=", 50),),
        "{scalar_pct:.0f} % of the float instructions in the assembly work on one value",
        "Write the inner loop over consecutive values without calls and branches, or with vector intrinsics.",
    ),
    Rule(
        "latency",
        "Latency and dependencies",
        (("of_roofline_pct", ">=", 0),),
        "it reaches {of_roofline_pct:.0f} % of what bandwidth and arithmetic allow",
        "Break chains of dependent additions with several sums, block for the caches, use all threads.",
    ),
)


def gpu_bottleneck(kernels: Sequence[KernelProfile], roofline: Roofline) -> Bottleneck | None:
    """Of the kernel that takes longest. None without figures."""
    if not kernels:
        return None
    main = max(kernels, key=lambda item: item.metrics.get("duration_us") or 0.0)
    call_us = sum(item.metrics.get("duration_us") or 0.0 for item in kernels)
    facts = {key: value for key, value in main.metrics.items() if value is not None}
    facts |= {"kernels": len(kernels), "call_us": call_us, "mean_kernel_us": call_us / len(kernels)}
    facts |= _compared(facts) | _of_roofline(roofline)
    if "waves" in facts:
        facts["waves_pct"] = 100 * facts["waves"]
    found = _first(GPU_RULES, facts)
    return found if found is None else _with_kernel(found, main, len(kernels), call_us)


def cpu_bottleneck(roofline: Roofline, instructions: Mapping[str, int]) -> Bottleneck | None:
    """Of a call on a processor; None where its time is not known."""
    facts = dict(_of_roofline(roofline))
    if roofline.time_us is not None:
        facts["call_us"] = roofline.time_us
    floats = instructions.get("scalar_float", 0) + instructions.get("vector_float", 0)
    if floats:
        facts["scalar_pct"] = 100 * instructions.get("scalar_float", 0) / floats
    return _first(CPU_RULES, facts)


def _compared(facts: _Facts) -> dict[str, float]:
    local, moved = facts.get("local_sectors"), facts.get("load_sectors", 0.0) + facts.get("store_sectors", 0.0)
    busy = [facts[key] for key in ("dram_pct", "l2_pct", "l1_pct") if key in facts]
    spills = {} if local is None or not local + moved else {"spill_pct": 100 * local / (local + moved)}
    return {**spills, **({"memory_pct": max(busy)} if busy else {})}


def _of_roofline(roofline: Roofline) -> dict[str, float]:
    """How far the work lies above the ridge, and how near the call comes to what is possible."""
    facts = {}
    if roofline.peak_flops_per_s and roofline.peak_bytes_per_s and roofline.least_bytes:
        ridge = roofline.peak_flops_per_s / roofline.peak_bytes_per_s
        facts["intensity_ratio"] = roofline.flops / roofline.least_bytes / ridge
    if roofline.least_us is not None and roofline.time_us:
        facts["of_roofline_pct"] = 100 * roofline.least_us / roofline.time_us
    return facts


def _first(rules: Sequence[Rule], facts: _Facts) -> Bottleneck | None:
    for rule in rules:
        if all(_holds(facts.get(fact), sign, limit) for fact, sign, limit in rule.holds):
            return Bottleneck(rule.key, rule.title, _filled(rule.evidence, facts), rule.advice)
    return None


def _holds(value: float | None, sign: str, limit: float) -> bool:
    return value is not None and (value >= limit if sign == ">=" else value < limit)


def _filled(evidence: str, facts: _Facts) -> str:
    """A clause that quotes an absent figure is left out."""
    clauses = evidence.split(", ")
    known = [text for text in clauses if _names(text) <= facts.keys()]
    return ", ".join(known).format(**facts)


def _names(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def _with_kernel(found: Bottleneck, kernel: KernelProfile, kernels: int, call_us: float) -> Bottleneck:
    """The same, with the kernel's name where there are several, and why its warps wait where that is the question."""
    more = []
    if found.key in ("latency", "few-blocks", "compute", "l2"):
        waits = [(reason, share) for reason, share in kernel.stalls.items() if reason not in WORKING]
        for reason, share in waits[:1]:
            more.append(f"a warp {STALLS[reason]} for {100 * share:.0f} % of its time")
        if found.key == "latency" and kernel.occupancy_limiter:
            more.append(f"the number of blocks per multiprocessor is limited by {kernel.occupancy_limiter}")
    if kernels > 1:
        share = (kernel.metrics.get("duration_us") or 0.0) / call_us if call_us else 0.0
        more.append(f"in {short_name(kernel.name)}, {100 * share:.0f} % of the call")
    return Bottleneck(found.key, found.title, ", ".join([found.evidence, *more]), found.advice)
