"""The request for one proposal: a part that is the same in all calls, one per task, one per call.

The first two are cached prefixes and hold nothing that changes: no time, no name of a run, no budget. Hidden
configurations are in none of them. Not covered: the words themselves (`prompts/*.md`).
"""

from dataclasses import dataclass
from typing import Literal

from benchmarks.harness import LANGUAGES, Config, TaskSpec, TensorArgument, default_rules, device_class, starter_code

from ..model import CandidateView, ProposalRequest
from .arms import Arm
from .feedback import failure, remarks, times
from .fences import fenced, one_line
from .prompts import filled, hints, prompt
from .refusals import needs_example, refused_answers
from .stream import StreamRequest

SOURCES_BYTES_MAX = 96_000  # of all sources shown together; the base kernel is always whole or not there at all
MEMORY_BYTES_MAX = 36_000  # of the kernels of related tasks together
PromptForm = Literal["kernel", "template", "agent"]
MODES = {"edit": 0.6, "rewrite": 0.3, "cross": 0.1}
_WISHES = {
    "edit": "Prefer `EDITS:` of the base kernel over a new file.",
    "rewrite": "Rewrite the whole file and answer with `CODE:`; keep the good parts of the kernels shown.",
    "cross": "Combine the best parts of two of the kernels shown into one kernel and answer with `CODE:`.",
}


@dataclass(frozen=True)
class Asked:
    """A request and what its answer is relative to: the kernel that edits apply to, and those that were shown."""

    request: StreamRequest
    operator: str
    base: CandidateView | None
    shown: tuple[CandidateView, ...]


def proposal_request(request: ProposalRequest, arm: Arm, form: PromptForm = "kernel") -> Asked:
    """The same bytes for the same request, arm and form."""
    shown = _shown(request)
    failed = _failure(request)
    base = shown[-1] if shown else failed
    operator = _operator(request, shown, failed)
    parts = [prompt(_PROMPTS.get(operator, "optimise")), *_kernels(request, shown)]
    if failed is not None:
        parts.append(_failed(request, failed, base))
    parts += _remembered(request)
    parts += [
        refused_answers(request.view),
        _WISHES.get(operator, "") if form == "kernel" else prompt(form),
        _example(request),
        f"Hint: {hints()[arm.hint]}",
        _budget(request),
    ]
    return Asked(_asked(request, arm, [part for part in parts if part]), operator, base, shown)


def task_text(task: TaskSpec, language: str, device_kind: str) -> str:
    """Everything about a task that a submitter may know."""
    configs = [item for item in task.configs_for(device_class(language)) if not item.hidden]
    rules = default_rules()
    return filled(
        "task",
        {
            "name": task.name,
            "title": task.title,
            "summary": task.summary,
            "formula": task.formula,
            "direction": task.direction,
            "language": LANGUAGES[language].short_title,
            "device_kind": device_kind,
            "language_notes": _language_notes(language),
            "reference": f"```python\n{task.reference_source.strip()}\n```",
            "starter": f"```\n{starter_code(task, language).strip()}\n```",
            "configs": "\n".join(_config(item) for item in configs),
            "tolerances": "\n".join(
                f"- {item.name}: tolerance {item.tolerance:g}, rms_tolerance {item.rms_tolerance:g}"
                for item in configs[0].results
            ),
            "exact": _accuracy(task),
            "source_bytes": rules.source.max_bytes,
            "call_s": rules.limits.call_s,
            "memory_gib": f"{rules.limits.memory_bytes / 2**30:g}",
        },
    )


def _accuracy(task: TaskSpec) -> str:
    if "author-checker" in task.labels:
        return " In this task check_implementation of the reference decides instead of the tolerances."
    return " Nothing is rounded in this task: an error of exactly 0 is expected." if task.exact else ""


_PROMPTS = {"translate": "translate", "repair": "repair"}


def _asked(request: ProposalRequest, arm: Arm, parts: list[str]) -> StreamRequest:
    return StreamRequest(
        role="propose",
        model=arm.model,
        system=(prompt("system"), task_text(request.task, request.language, request.device_kind)),
        prompt="\n\n".join(parts),
        max_tokens=arm.max_tokens,
        effort=arm.effort,
    )


def _operator(request: ProposalRequest, shown: tuple[CandidateView, ...], failed: CandidateView | None) -> str:
    if not shown:
        return "translate" if failed is None else "repair"
    modes = [mode for mode in MODES if mode != "cross" or len(shown) > 1]
    return request.rng.child("mode").choice(modes, [MODES[mode] for mode in modes])


def _shown(request: ProposalRequest) -> tuple[CandidateView, ...]:
    """The fastest parents whose sources fit together, slow to fast."""
    left, kept = SOURCES_BYTES_MAX, []
    for parent in reversed(request.parents):
        size = _size(request, parent)
        if parent.correct and size <= left:
            left -= size
            kept.append(parent)
    return tuple(reversed(kept))


def _failure(request: ProposalRequest) -> CandidateView | None:
    failed = request.last_failure
    if failed is None or failed.source_sha256 is None or _size(request, failed) > SOURCES_BYTES_MAX:
        return None
    return failed


def _size(request: ProposalRequest, candidate: CandidateView) -> int:
    return len(request.view.source(candidate).encode(errors="replace"))


def _kernels(request: ProposalRequest, shown: tuple[CandidateView, ...]) -> list[str]:
    parts = [_kernel(request, item, base=item is shown[-1]) for item in shown]
    result = shown[-1].result if shown else None
    if result is not None:
        items = [f"{number}. {text}" for number, text in enumerate(_remarks(request, shown[-1]), 1)]
        parts.append("\n".join(["What the base kernel's measurements say:", *items]))
    return parts


def _remarks(request: ProposalRequest, base: CandidateView) -> list[str]:
    return remarks(base.result, request.task, request.language) if base.result else []


def _kernel(request: ProposalRequest, candidate: CandidateView, *, base: bool) -> str:
    title = "## Base kernel" if base else "## Kernel"
    counted = f" (what counts is {candidate.counts:.3f}{candidate.counted_where})" if candidate.counted_where else ""
    head = f"{title} {candidate.id}, score {candidate.score:.3f}{counted}, named {one_line(candidate.name, 80)}"
    assert candidate.result is not None  # noqa: S101 - only correct ones are shown
    return "\n".join([head, times(candidate.result), fenced(request.view.source(candidate), "source of the kernel")])


def _remembered(request: ProposalRequest) -> list[str]:
    """Kernels of related tasks, as many as fit whole, and the note on earlier runs of this task."""
    memory, left, parts = request.memory, MEMORY_BYTES_MAX, []
    for kernel in memory.kernels if memory else ():
        source = request.view.load(kernel.source_sha256)
        left -= len(source.encode(errors="replace"))
        if left < 0:
            break
        said = f"score {kernel.score:.3f} on {kernel.device_kind}: {', '.join(kernel.technique)}"
        parts.append(f"## Kernel of a related task, {kernel.task}, {said}\n{fenced(source, 'source of the kernel')}")
    if parts:
        parts.insert(
            0, "Below are verified kernels of related tasks. They compute something else; take ideas, not code."
        )
    if memory and memory.note:
        parts.append(f"## What earlier runs on this task found\n{fenced(memory.note, 'note')}")
    return parts


def _failed(request: ProposalRequest, failed: CandidateView, base: CandidateView | None) -> str:
    """The source only where it is the base of the answer: elsewhere its lesson is enough."""
    parts = ["## What failed last", failure(failed)]
    if failed is base:
        parts += ["The base kernel, which failed:", fenced(request.view.source(failed), "source of the kernel")]
    return "\n".join(parts)


def _example(request: ProposalRequest) -> str:
    """Only where the form failed: who keeps to it needs no example."""
    if not needs_example(request.view):
        return ""
    return filled("example", {"starter": starter_code(request.task, request.language).strip()})


def _budget(request: ProposalRequest) -> str:
    """Rounded down to one digit, so that it says enough and seldom changes."""
    judgings = request.budget_left.judgings
    return "" if judgings is None else f"About {_rough(judgings)} further kernels can be judged in this run."


def _rough(count: int) -> int:
    text = str(max(count, 0))
    return int(text[0] + "0" * (len(text) - 1))


def _language_notes(language: str) -> str:
    rules = default_rules()
    flags = rules.compile.flags if language == "cpp" else rules.compile.cuda_flags
    return filled(f"language-{language}", {"flags": " ".join(flags), "threads": rules.cpu.max_threads})


def _config(config: Config) -> str:
    arguments = ", ".join(_argument(item) for item in config.arguments)
    results = ", ".join(f"{item.name} {list(item.shape)}" for item in config.results)
    floor = f"{config.bytes_moved} bytes moved, {config.flops} operations"
    return f"- {config.key}: {arguments} -> {results}; {floor}"


def _argument(item: object) -> str:
    if isinstance(item, TensorArgument):
        return f"{item.name} {list(item.shape)}" + ("" if item.dtype == "float32" else f" {item.dtype}")
    return f"{getattr(item, 'name', '')}={getattr(item, 'value', '')}"
