"""The metrics of a profile, chosen from what Nsight Compute can tell, and how its names become ours.

A metric that this version of the tool calls otherwise, or does not collect, is None. The table is data; reading the
tool's report is `ncu_tables.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from .records import KernelProfile

TIME = "gpu__time_duration.sum"
_STALL_BEGIN, _STALL_END = "smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"
_LATENCY_BEGIN, _LATENCY_END = "smsp__average_warp_latency_issue_stalled_", ".ratio"
_LIMITS = {
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "warps": "launch__occupancy_limit_warps",
    "blocks": "launch__occupancy_limit_blocks",
    "barriers": "launch__occupancy_limit_barriers",
}
_SHOWN_STALLS = 5
# what a warp does meanwhile, as the tool's documentation describes each reason
STALLS = {
    "long_scoreboard": "waits for global or local memory",
    "short_scoreboard": "waits for shared memory or special functions",
    "mio_throttle": "waits for the full queue of shared-memory instructions",
    "lg_throttle": "waits for the full queue of global-memory instructions",
    "tex_throttle": "waits for the full queue of texture instructions",
    "barrier": "waits at a barrier of its block",
    "membar": "waits at a memory fence",
    "math_pipe_throttle": "waits for a busy arithmetic unit",
    "wait": "waits for the fixed latency of an instruction",
    "not_selected": "is ready while another one is chosen",
    "selected": "issues an instruction",
    "no_instruction": "waits for instructions to be fetched",
    "no_instructions": "waits for instructions to be fetched",
    "imc_miss": "waits for constants",
    "drain": "waits for its last writes to memory",
    "branch_resolving": "waits for a branch",
    "dispatch_stall": "waits for the dispatcher",
    "sleeping": "sleeps",
    "gmma": "waits for the tensor cores",
    "warpgroup_arrive": "waits for its warpgroup",
    "misc": "waits for another reason",
}
WORKING = ("selected", "not_selected")  # no waits


@dataclass(frozen=True)
class Metric:
    """One figure: the first of `sources` that the report has. With `summed`, all of them together."""

    key: str
    title: str
    unit: str
    sources: tuple[str, ...]
    summed: bool = False


METRICS = (
    Metric("duration_us", "Duration", "µs", (TIME,)),
    Metric("sm_pct", "Multiprocessors", "% of peak", ("sm__throughput.avg.pct_of_peak_sustained_elapsed",)),
    Metric(
        "dram_pct",
        "Memory bandwidth",
        "% of peak",
        (
            "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
            "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        ),
    ),
    Metric("dram_read_bytes", "Read from memory", "bytes", ("dram__bytes_read.sum",)),
    Metric("dram_written_bytes", "Written to memory", "bytes", ("dram__bytes_write.sum",)),
    Metric("l2_pct", "L2 bandwidth", "% of peak", ("lts__throughput.avg.pct_of_peak_sustained_elapsed",)),
    Metric("l2_hit_pct", "L2 hit rate", "%", ("lts__t_sector_hit_rate.pct",)),
    Metric("l1_pct", "L1 and shared memory", "% of peak", ("l1tex__throughput.avg.pct_of_peak_sustained_active",)),
    Metric("l1_hit_pct", "L1 hit rate", "%", ("l1tex__t_sector_hit_rate.pct",)),
    Metric("occupancy_pct", "Achieved occupancy", "%", ("sm__warps_active.avg.pct_of_peak_sustained_active",)),
    Metric("possible_occupancy_pct", "Possible occupancy", "%", ("sm__maximum_warps_per_active_cycle_pct",)),
    Metric("blocks", "Blocks", "", ("launch__grid_size",)),
    Metric("threads_per_block", "Threads per block", "", ("launch__block_size",)),
    Metric("waves", "Waves", "per multiprocessor", ("launch__waves_per_multiprocessor",)),
    Metric("registers", "Registers per thread", "", ("launch__registers_per_thread",)),
    Metric(
        "shared_bytes",
        "Shared memory per block",
        "bytes",
        ("launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic"),
        summed=True,
    ),
    Metric(
        "bank_conflicts",
        "Bank conflicts of shared memory",
        "",
        (
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
        ),
        summed=True,
    ),
    Metric(
        "shared_wavefronts",
        "Passes of shared memory",
        "",
        (
            "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
            "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
        ),
        summed=True,
    ),
    Metric("global_sectors", "Sectors of global memory", "", ("memory_l2_theoretical_sectors_global",)),
    Metric("ideal_sectors", "Sectors if coalesced", "", ("memory_l2_theoretical_sectors_global_ideal",)),
    Metric("load_sectors", "Sectors of loads", "", ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",)),
    Metric("load_requests", "Requests of loads", "", ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",)),
    Metric("store_sectors", "Sectors of stores", "", ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",)),
    Metric("store_requests", "Requests of stores", "", ("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",)),
    Metric("eligible_warps", "Eligible warps", "per cycle", ("smsp__warps_eligible.avg.per_cycle_active",)),
    Metric(
        "issue_pct", "Cycles with an instruction issued", "%", ("smsp__issue_active.avg.pct_of_peak_sustained_active",)
    ),
    Metric("instructions", "Instructions", "", ("smsp__inst_executed.sum", "sm__inst_executed.sum")),
    Metric(
        "fma_pct",
        "Float unit",
        "% of peak",
        (
            "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
            "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
            "sm__inst_executed_pipe_fma_type_fp32.avg.pct_of_peak_sustained_active",
        ),
    ),
    Metric(
        "local_sectors",
        "Sectors of local memory (spills)",
        "",
        ("l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum", "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum"),
        summed=True,
    ),
)
TENSOR = Metric("tensor_pct", "Tensor cores", "% of peak", ())  # the busiest of several units, by their names
DERIVED = (
    Metric("sectors_per_load", "Sectors per load", "", ()),
    Metric("sectors_per_store", "Sectors per store", "", ()),
    Metric("excess_pct", "Sectors beyond coalesced ones", "%", ()),
    Metric("conflict_pct", "Passes of shared memory lost to conflicts", "%", ()),
)
_ONLY_FOR_OTHERS = (
    "load_sectors",
    "load_requests",
    "store_sectors",
    "store_requests",
    "global_sectors",
    "ideal_sectors",
)
# what people are shown, in this order
SHOWN = (*(item for item in METRICS if item.key not in _ONLY_FOR_OTHERS), TENSOR, *DERIVED)


def kernel_profile(name: str, values: Mapping[str, float]) -> KernelProfile:
    """One launch from the figures of the tool by its names, in bytes and microseconds."""
    metrics = {item.key: _figure(item, values) for item in METRICS}
    metrics[TENSOR.key] = _busiest_tensor_unit(values)
    return KernelProfile(
        name=name,
        metrics={**metrics, **_derived(metrics)},
        stalls=_stalls(values),
        occupancy_limiter=_limiter(values),
    )


def _figure(metric: Metric, values: Mapping[str, float]) -> float | None:
    found = [values[source] for source in metric.sources if source in values]
    if not found:
        return None
    return sum(found) if metric.summed else found[0]


def _busiest_tensor_unit(values: Mapping[str, float]) -> float | None:
    """Each kind of GPU has other tensor units, with names of their own."""
    end = ".pct_of_peak_sustained_active"
    return max((value for name, value in values.items() if "pipe_tensor" in name and name.endswith(end)), default=None)


def _derived(metrics: Mapping[str, float | None]) -> dict[str, float | None]:
    sectors, ideal = metrics["global_sectors"], metrics["ideal_sectors"]
    return {
        "sectors_per_load": _ratio(metrics["load_sectors"], metrics["load_requests"]),
        "sectors_per_store": _ratio(metrics["store_sectors"], metrics["store_requests"]),
        "excess_pct": 100 * max(0.0, 1 - ideal / sectors) if sectors and ideal is not None else None,
        "conflict_pct": _percent(metrics["bank_conflicts"], metrics["shared_wavefronts"]),
    }


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _percent(part: float | None, whole: float | None) -> float | None:
    ratio = _ratio(part, whole)
    return None if ratio is None else min(100.0, 100 * ratio)


def _stalls(values: Mapping[str, float]) -> dict[str, float]:
    """The largest reasons to wait as shares of all that a warp does between two of its instructions."""
    found = _with_ends(values, _STALL_BEGIN, _STALL_END) or _with_ends(values, _LATENCY_BEGIN, _LATENCY_END)
    whole = sum(found.values())
    if not whole:
        return {}
    largest = sorted(found.items(), key=lambda pair: -pair[1])[:_SHOWN_STALLS]
    return {reason: round(value / whole, 4) for reason, value in largest if value > 0}


def _with_ends(values: Mapping[str, float], begin: str, end: str) -> dict[str, float]:
    """What stands between two parts of a name, as far as it is a known reason to wait."""
    inner = {
        name.removeprefix(begin).removesuffix(end): value
        for name, value in values.items()
        if name.startswith(begin) and name.endswith(end)
    }
    return {reason: value for reason, value in inner.items() if reason in STALLS}


def _limiter(values: Mapping[str, float]) -> str | None:
    limits = {what: values[source] for what, source in _LIMITS.items() if source in values}
    return min(limits, key=lambda what: limits[what]) if limits else None
