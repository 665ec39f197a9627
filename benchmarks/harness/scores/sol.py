"""The SOL score of SOL-ExecBench: how far a kernel has come from a baseline to the bound of the machine.

S = 1 / (1 + (T - T_sol) / (T_b - T_sol)): 0.5 at the baseline, 1 at the bound. T_b is the faster of eager and
torch.compile and T_sol is kbench's roofline, so it is comparable within kbench alone. Shown beside the speedup; no rank
and no gate uses it.
"""


def sol_score(
    kernel_us: float | None, eager_us: float | None, compile_us: float | None, roofline_fraction: float | None
) -> float | None:
    """For one configuration; None where a figure is missing, or the baseline is at the bound or beyond it."""
    if kernel_us is None or eager_us is None or roofline_fraction is None:
        return None
    bound_us = roofline_fraction * kernel_us
    baseline_us = eager_us if compile_us is None else min(eager_us, compile_us)
    if not bound_us < baseline_us:
        return None
    return 1.0 / (1.0 + max(kernel_us - bound_us, 0.0) / (baseline_us - bound_us))
