"""What can be said of a source before it costs a compilation: wrong language, missing module, and remarks.

A hint with a line number, never the defence: whoever wants to get past these patterns can. Comments and strings are
blanked first, lines kept. Not covered: whether the code compiles.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .report import Flag
from .rules import RuleSet
from .source import LANGUAGES, Source
from .spec import TaskSpec

_TOKENS = re.compile(
    r"""//[^\n]*|/\*.*?(?:\*/|\Z)|R"([^()\\\s]{0,16})\(.*?(?:\)\1"|\Z)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""",
    re.DOTALL,
)
_CUDA = re.compile(r"\b__global__\b|<<<|#\s*include\s*<cuda|\b__device__\b")
_PYTHON = re.compile(r"^\s*(?:import \w+|from \w+ import|def \w+\(|@triton\.jit)", re.MULTILINE)
_MODULE = re.compile(r"\bPYBIND11_MODULE\s*\(")
_REMARKS = (
    (
        "library-call",
        "calls a library operator of torch",
        re.compile(
            r"\b(?:at|torch)::(?:_?linear|mm|bmm|matmul|addmm|addmm_out|mm_out|conv2d|convolution\w*|max_pool2d\w*|layer_norm"
            r"|native_\w+|cross_entropy_loss|log_softmax|softmax|nll_loss\w*|relu|silu|batch_norm|rms_norm|sum|mean)\s*\("
        ),
    ),
    ("inline-assembly", "contains inline assembly", re.compile(r"\b(?:asm|__asm__)\b")),
    (
        "system-call",
        "makes a system call of its own",
        re.compile(r"\b(?:syscall|ptrace|execv\w*|fork|system|dlopen|dlsym)\s*\("),
    ),
    ("start-up-code", "runs code when it is loaded", re.compile(r"__attribute__\s*\(\s*\(\s*constructor")),
    (
        "low-precision",
        "uses a type of less than 32 bits",
        re.compile(r"\b(?:BFloat16|Half|kHalf|kBFloat16|_Float16|__bf16)\b"),
    ),
)


@dataclass(frozen=True)
class StaticCheck:
    """`problem` ends the evaluation as REJECTED; flags are shown with it."""

    problem: str | None
    flags: tuple[Flag, ...] = ()


def check_source(source: Source, task: TaskSpec, rules: RuleSet) -> StaticCheck:
    """Looks at the text alone; takes milliseconds."""
    problem = _problem(source, task, rules)
    return StaticCheck(problem, () if problem else tuple(_remarks(blank(source.text))))


def blank(text: str) -> str:
    """`text` with comments and string contents replaced by spaces, so that lines and columns stay."""
    return _TOKENS.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def _problem(source: Source, task: TaskSpec, rules: RuleSet) -> str | None:
    size_bytes = len(source.text.encode(errors="replace"))
    if source.language not in LANGUAGES:
        return f"the language {source.language!r} is not known here; known: {', '.join(LANGUAGES)}"
    if not source.text.strip():
        return "the source is empty"
    if size_bytes > rules.source.max_bytes:
        return f"the source has {size_bytes} bytes, the rules allow {rules.source.max_bytes}"
    if any(ord(char) < 32 and char not in "\t\n\r\f\v" for char in source.text) or "\ufffd" in source.text:
        return "the source is not text: it contains control characters or bytes that are no UTF-8"
    return _wrong_language(blank(source.text)) or _no_module(source.text, task)


def _wrong_language(code: str) -> str | None:
    if _CUDA.search(code):
        return "this looks like CUDA, which is judged on a GPU; the language here is C++"
    if _PYTHON.search(code) and "#include" not in code:
        return "this looks like Python; the language here is C++"
    return None


def _no_module(text: str, task: TaskSpec) -> str | None:
    if not _MODULE.search(blank(text)):
        return "there is no PYBIND11_MODULE: the source must be a torch extension, see the starter code"
    if task.direction not in text:
        return f"nothing here is called {task.direction!r}, which the module must export"
    return None


def _remarks(code: str) -> Iterator[Flag]:
    for code_name, text, pattern in _REMARKS:
        found = pattern.search(code)
        if found:
            yield Flag(code_name, text, code.count("\n", 0, found.start()) + 1)
