"""A naive harness: the result that a usual benchmark script would report for a file. It decides and ranks nothing.

Warm-up, one fixed set of inputs, `allclose`, the mean over a loop (by CUDA events on a GPU), kernel and baseline in one
process: an honest implementation of what most scripts do, so that the page of attacks and `kbench eval` can show what
it says of a file. The code is hostile, so the script runs in a sandbox with a limit on its time.
"""

from .measure import NaiveResult, is_usual, opinion

__all__ = ["NaiveResult", "is_usual", "opinion"]
