r"""Mutation operators of parallel code: small changes of a CUDA kernel's text, each at one place of many.

An operator says what kind of fault it plants, or that it should change nothing (`equivalent`). Neither is believed.
Not covered: choosing places (`specimens.py`), and faults of serial code, as in `agents/evolve/verifiers/mutations.py`.
"""

import re

from agents.evolve.verifiers.lexing import without_comments
from agents.evolve.verifiers.mutations import FindSites, Operator, Site, at_each
from benchmarks.harness import TaskSpec

PARALLEL_FAULTS = ("barrier", "race", "warp", "bounds", "memory", "shape", "numerics", "host", "equivalent")
_BARRIER = r"(?:__syncthreads\(\)|\b(?:block|cta|group)\.sync\(\));"
_SUM = r"\b(sum|total|result|acc\w*|value|v) \+= ([^;\n]{1,200});"
_FIRST_THREAD = r"if \((?:threadIdx\.x(?: % 32)?|lane) == 0\)"


def _including(header: str, find: FindSites) -> FindSites:
    """The same sites, with `#include <header>` before the first include where it is missing."""

    def sites(text: str, task: TaskSpec) -> list[Site]:
        first = re.search(r"^#include", without_comments(text), re.MULTILINE)
        if first is None or f"<{header}>" in text:
            return find(text, task)
        added = (first.start(), first.start(), f"#include <{header}>\n")
        return [(added, *site) for site in find(text, task)]

    return sites


CUDA_OPERATORS = (
    # barriers
    Operator("dropped_barrier", "barrier", at_each(_BARRIER, ";")),
    Operator("barrier_in_a_branch", "barrier", at_each(f"({_BARRIER})", r"if (threadIdx.x < 32) \1")),
    Operator("barrier_for_half_a_warp", "barrier", at_each(f"({_BARRIER})", r"if (threadIdx.x % 32 < 16) \1")),
    Operator("warp_barrier_instead", "barrier", at_each(_BARRIER, "__syncwarp();")),
    Operator("early_barrier", "barrier", at_each(rf"^( +)([^\n;{{}}]+;)\n +({_BARRIER})", "\\1\\3\n\\1\\2")),
    Operator("late_barrier", "barrier", at_each(rf"^( +)({_BARRIER})\n +([^\n;{{}}]+;)$", "\\1\\3\n\\1\\2")),
    Operator(
        "return_before_barrier", "barrier", at_each(f"({_BARRIER})", r"if (threadIdx.x >= blockDim.x - 32) return; \1")
    ),
    Operator("dropped_warp_barrier", "barrier", at_each(r"__syncwarp\([^()]*\);", ";")),
    Operator("dropped_fence", "barrier", at_each(r"__threadfence(?:_block)?\(\);", ";")),
    Operator("dropped_grid_barrier", "barrier", at_each(r"\b(?:grid|cluster)\w*\.sync\(\);", ";")),
    Operator(
        "copies_not_awaited",
        "barrier",
        at_each(r"^ +(?:asm volatile\(\"cp\.async\.wait_[^\n]*|__pipeline_wait_prior\([^\n]*)$", "    ;", strings=True),
    ),
    # races
    Operator("shared_index_race", "race", at_each(r"\[threadIdx\.([xy])\]", r"[threadIdx.\1 / 2]")),
    Operator("one_slot_for_all_warps", "race", at_each(r"\[threadIdx\.x / 32\]", "[0]")),
    Operator("missing_atomic", "race", at_each(r"atomicAdd\(&([\w.]+\[[^\[\]\n]*\]), ([^;\n]*)\);", r"\1 += \2;")),
    Operator(
        "missing_atomic_on_pointer", "race", at_each(r"atomicAdd\(((?!&)[^,;()\n]+), ([^;\n]*)\);", r"*(\1) += \2;")
    ),
    Operator("every_thread_writes", "race", at_each(rf"{_FIRST_THREAD} (?=\S)", "")),
    Operator("other_thread_writes", "race", at_each(r"(if \((?:threadIdx\.x(?: % 32)?|lane)) == 0\)", r"\1 == 1)")),
    Operator("static_shared_counter", "race", at_each(r"\bfloat (sum|total) = 0(?:\.0f)?;", "__shared__ float \\1;")),
    # warps
    Operator("half_mask", "warp", at_each(r"\b0xffffffff(?:u|U)?\b", "0x0000ffffu")),
    Operator("shuffle_down_for_xor", "warp", at_each(r"__shfl_xor_sync\(", "__shfl_down_sync(")),
    Operator("shuffle_up_for_down", "warp", at_each(r"__shfl_down_sync\(", "__shfl_up_sync(")),
    Operator("reduction_of_half_a_warp", "warp", at_each(r"= 16; (\w+) > 0;", r"= 8; \1 > 0;")),
    Operator("reduction_without_last_step", "warp", at_each(r"(\w+) > 0; (\1 (?:/= 2|>>= 1))", r"\1 > 1; \2")),
    Operator("lane_of_a_half_warp", "warp", at_each(r"threadIdx\.x % 32\b", "threadIdx.x % 16")),
    # bounds
    Operator("guard_off_by_one", "bounds", at_each(r"if \((\w+) >= ([\w. *]+)\) return;", r"if (\1 > \2) return;")),
    Operator("dropped_guard", "bounds", at_each(r"if \(\w+ >= [\w. *]+\) return;", ";")),
    Operator("mask_off_by_one", "bounds", at_each(r"\b(\w+) < (\w+(?:\.\w+)?)( &&| \?)", r"\1 <= \2\3")),
    Operator("tile_off_by_one", "bounds", at_each(r"(\w+) < (k[A-Z]\w*|\d+)(?=; (?:\+\+\1|\1 \+=))", r"\1 <= \2")),
    Operator("loop_off_by_one", "bounds", at_each(r"(\w+) < ([a-z][\w.]*)(?=; (?:\+\+\1|\1 \+=))", r"\1 <= \2")),
    Operator("small_shared_array", "bounds", at_each(r"(__shared__ [\w ]+ \w+\[)([\w *]+)\]", r"\1(\2 + 1) / 2]")),
    # memory
    Operator("misaligned_pack", "memory", at_each(r"(reinterpret_cast<(?:const )?float[24]\*>\(\w+)", r"\1 + 1")),
    Operator("packs_of_odd_rows", "memory", at_each(r"% 4 == 0", "% 2 == 0")),
    Operator("not_cleared", "memory", at_each(r"torch::zeros(?=\(|_like)", "torch::empty")),
    Operator("uninitialised_sum", "memory", at_each(r"\bfloat (\w+) = 0(?:\.0f)?;", r"float \1;")),
    Operator("missing_store", "memory", at_each(r"(?<=[ )])(?:y|out|to|p\.y|shares)\[[^\[\];\n]*\] = [^;\n]+;", ";")),
    # shapes
    Operator("missing_tail_block", "shape", at_each(r"\(([\w.]+(?: \* [\w.]+)?) \+ (\w+) - 1\) / \2\b", r"(\1) / \2")),
    Operator("one_block_less", "shape", at_each(r"\(([\w. *]+) \+ 127\) / 128", r"(\1) / 128")),
    Operator("swapped_stride", "shape", at_each(r"\[(\w+) \* (\w+) \+ (\w+)\]", r"[\3 * \2 + \1]")),
    Operator("swapped_axes_of_the_grid", "shape", at_each(r"\bblockIdx\.y\b", "blockIdx.x")),
    Operator("stride_too_short", "shape", at_each(r"\+= (blockDim\.x|kThreads)\)", r"+= \1 / 2)")),
    Operator("stride_too_long", "shape", at_each(r"\+= (blockDim\.x|kThreads|32)\)", r"+= \1 + 1)")),
    Operator(
        "narrow_index",
        "shape",
        at_each(r"\bconst (?:int|unsigned|int64_t) (\w+) = (?=[^;,\n]*blockIdx\.[^;,\n]*;)", r"const short \1 = "),
    ),
    Operator("index_in_32_bits", "shape", at_each(r"\b(?:int64_t|size_t)\((?=\w)", "int(")),
    # numerics
    Operator(
        "half_sum",
        "numerics",
        _including("cuda_fp16.h", at_each(_SUM, r"\1 = __half2float(__float2half(\1 + (\2)));")),
    ),
    Operator(
        "bfloat16_sum",
        "numerics",
        _including("cuda_bf16.h", at_each(_SUM, r"\1 = __bfloat162float(__float2bfloat16(\1 + (\2)));")),
    ),
    Operator("counted_twice", "numerics", at_each(_SUM, r"\1 += 2 * (\2);")),
    Operator("maximum_from_zero", "numerics", at_each(r"-INFINITY\b", "0.0f")),
    Operator("dropped_eps", "numerics", at_each(r" \+ (?:p\.)?eps\b", "")),
    # host code
    Operator("dropped_launch", "host", at_each(r"^ +\w+(?:<[\w, ]+>)?<<<[^;\n]+>>>\([^;\n]*\);", "    ;")),
    Operator("half_the_threads", "host", at_each(r"(<<<[^;\n]+, )(128|256|kThreads)(?=>>>|, )", r"\1\2 / 2")),
    Operator(
        "stream_not_joined",
        "host",
        at_each(r"c10::cuda::getCurrentCUDAStream\(\)", "c10::cuda::getStreamFromPool()"),
    ),
    # what should change nothing
    Operator("two_barriers", "equivalent", at_each(f"({_BARRIER})", r"\1 \1")),
    Operator("unused_thread_variable", "equivalent", at_each(f"({_BARRIER})", r"\1 (void)threadIdx.y;")),
    Operator("rolled_loop", "equivalent", at_each(r"^#pragma unroll[^\n]*\n", "")),
    Operator("no_restrict", "equivalent", at_each(r" __restrict__", "", everywhere=True)),
    Operator("no_launch_bounds", "equivalent", at_each(r" __launch_bounds__\([^()\n]*\)", "")),
    Operator(
        "shuffle_with_width", "equivalent", at_each(r"(__shfl_xor_sync\([^,()\n]+, [^,()\n]+, [^,()\n]+)\)", r"\1, 32)")
    ),
    Operator("swapped_factors", "equivalent", at_each(r"\b(\w+\[[\w *+]+\]) \* (\w+\[[\w *+]+\])", r"\2 * \1")),
    Operator("maximum_by_comparison", "equivalent", at_each(r"\bfmaxf\((\w+), (\w+)\)", r"(\1 < \2 ? \2 : \1)")),
    Operator("cached_load", "equivalent", at_each(r"__ldcs\(", "__ldg(")),
    Operator("other_increment", "equivalent", at_each(r"\+\+(\w)\)", r"\1 += 1)", everywhere=True)),
)
