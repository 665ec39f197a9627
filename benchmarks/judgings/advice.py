"""Advice on what to try next, by verdict, by the results of the configurations, and by remark on the source.

The first sentence of a verdict comes from the harness (`VERDICT_TEXTS`); these follow it. They are tables, so a new
verdict or remark needs a row here, which a test checks. Does NOT judge, and uses only what the page shows.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..harness import VERDICT_TEXTS, Verdict
from ..models import ConfigResult, Evaluation

CLOSE_REL_ERROR = 0.01  # a deviation below this looks like rounding, not like another formula
NEAR_ROOF = 0.8
AFTER_QUICK_CHECK = "Submit it for full judging, which times it against both baselines and ranks it."

VERDICT_ADVICE: Mapping[Verdict, tuple[str, ...]] = {
    Verdict.PASS: (),
    Verdict.COMPILE_ERROR: (
        "The starter code of the task compiles unchanged: add your kernel to it step by step.",
        "An error in a header is usually caused by the line of your source that the log names just before the error.",
    ),
    Verdict.REJECTED: ("The rules page lists what a source must not do, and why.",),
    Verdict.INCORRECT_SHAPE: ("Take sizes from the tensors that you are given, never from one configuration.",),
    Verdict.INCORRECT_DTYPE: ("Literals such as 1.0 are double in C++, and so may be the results computed from them.",),
    Verdict.INCORRECT_VALUE: (),
    Verdict.NONDETERMINISTIC: (
        "Outputs are not cleared before a call: write every element, including the last partial block.",
        "Sums by atomics change with the order of threads; reduce within a block first, or in a fixed order.",
    ),
    Verdict.RUNTIME_ERROR: (
        "Run it on the sizes that failed on your machine: with -fsanitize=address, or under compute-sanitizer.",
    ),
    Verdict.OUT_OF_MEMORY: ("The rules page says how much memory a submission gets beside its inputs and results.",),
    Verdict.TIMEOUT: (
        "Time one call of the largest configuration on your machine: every single call must stay within the limit.",
    ),
    Verdict.TAMPERING: (
        "If the code does this for another reason, remove that part: it must not touch inputs, clocks and results.",
    ),
    Verdict.NOISY: ("Submit it again if it was not retried automatically.",),
    Verdict.INTERNAL_ERROR: ("If it happens again, send the address of this page to the operator.",),
}

FLAG_ADVICE: Mapping[str, str] = {
    "library-call": "It is ranked like any other entry; readers of the leaderboard can filter such entries out.",
    "inline-assembly": "Inline assembly is allowed, but readers cannot check it as easily as the rest.",
    "system-call": "The sandbox blocks most system calls, and a blocked call ends the judging; a kernel needs none.",
    "start-up-code": "Do the work in the exported function: code that runs at load time is neither timed nor trusted.",
    "low-precision": "Check the largest errors above: the tolerances assume the precision of the task.",
    "own-stream": "Launch work on the current stream. Work on other streams is awaited and included in the time.",
    "not-replayed": "Its time is bounded, not replayed. A call can be recorded if it only launches kernels.",
    "cuda-graph": "Inputs have new addresses in each call, so a recorded graph must be updated with them.",
    "host-callback": "A host callback takes time on the host in every call; a second kernel is usually faster.",
    "compiles-code": "The sandbox has no compiler while a kernel runs; the source itself is compiled beforehand.",
    "no-kernel": "The source only calls libraries; a kernel of its own could fuse these calls.",
    "no-compile-baseline": "The speedup on this configuration is over eager alone.",
    "own-scatter": "Look for work that some calls do and others do not, and for threads that wait for each other.",
    "work-ahead": "Let each call prepare what it needs: work done outside the timed calls is added to their times.",
    "work-gathered": "Let each call do its own work: what a few calls do for the others is added to every call.",
    "memory-used-up": "Use the same workspace in each call, and clear it there.",
    "late-ready": "The time of the kernel already includes the delay; no action is needed.",
    "device-stuck": "The device was taken out of service and tested. Look for a kernel that never finishes waiting.",
    "audit-failed": "The entry stays bounded; an audit can be requested again.",
    "not-audited": "Request an audit: the entry is ranked once one has passed.",
    "gate-speedup": "If the result is real, it will be ranked after an audit or a review by staff.",
    "gate-roofline": "Look for work that is skipped for some inputs, or a result that is reused from an earlier call.",
    "gate-exact": "Compare with the reference on random inputs: a copied result has no rounding error.",
}


def next_steps(evaluation: Evaluation, configs: Sequence[ConfigResult]) -> list[str]:
    """What to try next, most telling first; empty while there is no verdict."""
    if not evaluation.verdict:
        return []
    verdict = Verdict(evaluation.verdict)
    if evaluation.is_quick and verdict is Verdict.PASS:
        return [AFTER_QUICK_CHECK]
    seen = [text for look in _LOOKS.get(verdict, ()) if (text := look(evaluation, configs))]
    return [VERDICT_TEXTS[verdict].next_step, *seen, *VERDICT_ADVICE[verdict]]


def on_remark(code: str) -> str:
    """What to do about a remark; empty for one that is not known here, as in reports of other versions."""
    return FLAG_ADVICE.get(code, "")


Look = Callable[[Evaluation, Sequence[ConfigResult]], str]


def _which_fail(_: Evaluation, configs: Sequence[ConfigResult]) -> str:
    wrong, right = _split(configs)
    if not wrong:
        return ""
    if not right:
        return "No configuration is correct, so check the formula and the layout first, on the smallest configuration."
    if all(item.group == "hidden" for item in wrong):
        return (
            "All visible configurations are right and only hidden ones fail: try sizes that are not a multiple of your "
            "tiles and vectors, very small ones, and inputs with large values."
        )
    first = _name(min(wrong, key=lambda item: item.group == "hidden"))
    total = len(right) + len(wrong)
    return f"It is correct on {len(right)} of {total} configurations: compare {first} with those."


def _how_far(_: Evaluation, configs: Sequence[ConfigResult]) -> str:
    errors = [item.max_rel_error for item in _split(configs)[0] if item.max_rel_error is not None]
    if not errors or max(errors) >= CLOSE_REL_ERROR:
        return ""
    return (
        "The results are close, so it looks like rounding: add up in float32 or wider, in several partial sums, and "
        "keep TF32 and half precision out."
    )


def _not_a_number(evaluation: Evaluation, configs: Sequence[ConfigResult]) -> str:
    words = " ".join([evaluation.reason_text, *(item.failure for item in configs)]).lower()
    if "nan" not in words.split() and "not a number" not in words:
        return ""
    return (
        "A result is NaN: look for elements that are never written, a division by zero, and exp() of large "
        "values, from which the maximum must be subtracted first."
    )


def _which_are_slow(_: Evaluation, configs: Sequence[ConfigResult]) -> str:
    slow = [item for item in configs if item.speedup is not None and item.speedup < 1]
    if not slow:
        return ""
    worst = min(slow, key=lambda item: item.speedup or 0.0)
    return (
        f"On {len(slow)} of the timed configurations a baseline is faster than the kernel, most clearly on "
        f"{_name(worst)} ({worst.speedup:.2f}× the stronger of eager and torch.compile): "
        "choose another path for such sizes."
    )


def _near_the_roof(_: Evaluation, configs: Sequence[ConfigResult]) -> str:
    fractions = [item.roofline_fraction for item in configs if item.roofline_fraction is not None]
    if not fractions or min(fractions) < NEAR_ROOF:
        return ""
    return "On every configuration the kernel is near the roofline of the machine: little is left to gain."


def _where_it_ran_out(evaluation: Evaluation, _: Sequence[ConfigResult]) -> str:
    stages: list[dict[str, Any]] = (evaluation.report or {}).get("stages", [])
    if not stages or stages[-1]["name"] != "compile":
        return ""
    return "The compiler took too long: instantiate fewer templates and unroll less."


def _name(config: ConfigResult) -> str:
    """Its key, with places at which a line may break."""
    return config.key.replace(",", ", ")


def _split(configs: Sequence[ConfigResult]) -> tuple[list[ConfigResult], list[ConfigResult]]:
    """Wrong ones and right ones."""
    return [item for item in configs if item.correct is False], [item for item in configs if item.correct]


_LOOKS: Mapping[Verdict, tuple[Look, ...]] = {
    Verdict.PASS: (_which_are_slow, _near_the_roof),
    Verdict.INCORRECT_VALUE: (_which_fail, _not_a_number, _how_far),
    Verdict.INCORRECT_SHAPE: (_which_fail,),
    Verdict.INCORRECT_DTYPE: (_which_fail,),
    Verdict.NONDETERMINISTIC: (_which_fail,),
    Verdict.RUNTIME_ERROR: (_which_fail,),
    Verdict.TIMEOUT: (_where_it_ran_out,),
}
