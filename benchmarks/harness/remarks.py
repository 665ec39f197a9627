"""Remarks on a source: what a reader should know before believing a number, each with its line.

Hints, never a verdict: whoever wants to get past these patterns can, and what they mark is often legal. They look at
text whose comments and string contents are blanked. Not covered: what the code does when it runs.
"""

import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from .report import Flag

_C_TOKENS = re.compile(
    r"""//[^\n]*|/\*.*?(?:\*/|\Z)|R"([^()\\\s]{0,16})\(.*?(?:\)\1"|\Z)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""",
    re.DOTALL,
)
_STRING_TOKENS = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
_OPERATORS = (
    r"(?:_?linear|mm|bmm|matmul|addmm|baddbmm|addmm_out|mm_out|einsum|(?:_?convolution|conv[123]d)\w*|cudnn_\w+"
    r"|max_pool[123]d\w*|avg_pool\w+|layer_norm|batch_norm|group_norm|rms_norm|native_\w+|cross_entropy(?:_loss)?"
    r"|log_softmax|softmax|nll_loss\w*|relu_?|silu_?|gelu|sum|mean|scaled_dot_product_attention)"
)

_METHODS = r"(?:\.|->)(?:matmul|mm|bmm|addmm_?|baddbmm_?|softmax|log_softmax)\s*\("


@dataclass(frozen=True)
class _Remark:
    code: str
    text: str
    pattern: re.Pattern[str]
    unless: re.Pattern[str] | None = None  # in the whole text, strings included
    in_strings: bool = False


def _remark(code: str, text: str, pattern: str, unless: str | None = None, *, in_strings: bool = False) -> _Remark:
    return _Remark(code, text, re.compile(pattern, re.MULTILINE), re.compile(unless) if unless else None, in_strings)


_C = (
    _remark("library-call", "calls a library operator of torch", rf"\b(?:at|torch)::(?:\w+::)?{_OPERATORS}\s*\("),
    _remark("library-call", "calls a library operator as a method", _METHODS),
    _remark("inline-assembly", "contains inline assembly", r"\b(?:asm|__asm__|__asm)\b"),
    _remark(
        "system-call",
        "makes a system call of its own",
        r"\b(?:syscall|ptrace|execv\w*|fork|vfork|system|popen|dlopen|dlsym|mprotect)\s*\(",
    ),
    _remark("start-up-code", "runs code when it is loaded", r"__attribute__\s*\(\s*\(\s*constructor"),
    _remark(
        "low-precision",
        "uses a type of less than 32 bits",
        r"\b(?:BFloat16|Half|kHalf|kBFloat16|_Float16|__bf16)\b",
    ),
)
_CUDA = (
    _remark(
        "library-call",
        "calls a library of NVIDIA",
        r"\b(?:cublas(?:Lt)?[A-Z]|cudnn[A-Z]|cusparse[A-Z]|cusolver\w*[A-Z]|cufft[A-Z])\w*\s*\(|\bcutlass::",
    ),
    _remark(
        "low-precision",
        "uses a type of less than 32 bits",
        r"\b(?:__half2?|half2?|__nv_bfloat162?|nv_bfloat162?|__nv_fp8\w*|__nv_fp6\w*|__nv_fp4\w*)\b",
    ),
    _remark(
        "low-precision",
        "uses a type of less than 32 bits in PTX",
        r"\.(?:tf32|f16(?:x2)?|bf16(?:x2)?|e4m3(?:x2)?|e5m2(?:x2)?)\b",
        in_strings=True,
    ),
    _remark("low-precision", "computes in TF32, of 19 bits", r"\b(?:precision::tf32|\w*TF32\w*|__float_to_tf32)\b"),
    _remark(
        "own-stream",
        "makes a stream of its own",
        r"\b(?:cudaStreamCreate\w*|cuStreamCreate\w*|getStreamFromPool|CUDAStreamGuard|CUDAMultiStreamGuard)\b",
    ),
    _remark(
        "cuda-graph",
        "records or replays a CUDA graph",
        r"\b(?:cudaGraph(?:Launch|Instantiate|Create)\w*|cudaStreamBeginCapture\w*|CUDAGraph)\b",
    ),
    _remark("host-callback", "lets the GPU call back to the host", r"\b(?:cudaLaunchHostFunc|cudaStreamAddCallback)\b"),
)
_TRITON = (
    _remark("library-call", "calls a library operator of torch", rf"\b(?:torch|F|functional|aten)\.{_OPERATORS}\s*\("),
    _remark("library-call", "calls operators of torch by their registry", r"\btorch\.(?:ops|compile|jit|_C|_dynamo)\b"),
    _remark("library-call", "calls a library operator as a method", _METHODS),
    _remark("inline-assembly", "contains inline PTX", r"\binline_asm_elementwise\b"),
    _remark(
        "system-call",
        "imports what reaches for the system",
        r"^\s*(?:import|from)\s+(?:ctypes|cffi|subprocess|socket|multiprocessing|threading|signal|mmap|os|gc|inspect)\b",
    ),
    _remark("system-call", "runs text as code", r"(?<![\w.])(?:exec|eval|compile|__import__)\s*\("),
    _remark(
        "compiles-code",
        "compiles code of another language while it runs",
        r"\b(?:load_inline|cpp_extension|nvrtc|RawKernel|RawModule)\b|^\s*(?:import|from)\s+(?:cupy|numba|pycuda|cuda)\b",
    ),
    _remark(
        "low-precision",
        "uses a type of less than 32 bits",
        r"\b(?:tl|torch)\.(?:float16|bfloat16|half|float8\w*|int8|uint8)\b|\.(?:half|bfloat16)\s*\(",
    ),
    _remark(
        "low-precision",
        "tl.dot computes in TF32, of 19 bits, unless it is told otherwise",
        r"\btl\.dot\s*\(",
        unless=r"ieee|tf32x3|allow_tf32\s*=\s*False",
    ),
    _remark("low-precision", "turns TF32 on", r"\ballow_tf32\s*=\s*True|\bset_float32_matmul_precision\s*\("),
    _remark("own-stream", "makes a stream of its own", r"\bcuda\.(?:Stream|stream|ExternalStream)\b"),
    _remark(
        "cuda-graph", "records or replays a CUDA graph", r"\bcuda\.(?:CUDAGraph|graph|graphs|make_graphed_callables)\b"
    ),
)
_MODULE = (
    _remark("library-call", "uses a layer of torch.nn", r"\bnn\.(?!Module\b|Parameter\b)[A-Z]\w*\s*\("),
    *(item for item in _TRITON if item.code != "compiles-code"),  # load_inline is compiled beforehand
)
_KERNEL = {"cuda": re.compile(r"\b__global__\b"), "triton": re.compile(r"@\s*(?:triton\.)?jit\b")}
_REMARKS = {"cpp": _C, "cuda": (*_C, *_CUDA), "triton": _TRITON, "python": _MODULE}


def remarks(text: str, language: str) -> Iterator[Flag]:
    """One flag for each code that something in `text` deserves, at the first place; then what `text` lacks."""
    code = blank(text, language)
    with_strings = _blank_comments(text)
    seen = set()
    for remark in _REMARKS[language]:
        where = with_strings if remark.in_strings else code
        found = remark.pattern.search(where)
        excused = remark.unless is not None and remark.unless.search(text)
        if found and not excused and remark.code not in seen:
            seen.add(remark.code)
            start = found.end() - len(found.group().lstrip())
            yield Flag(remark.code, remark.text, where.count("\n", 0, start) + 1)
    if language in _KERNEL and not _KERNEL[language].search(code):
        yield Flag("no-kernel", "defines no GPU kernel of its own", None)


def blank(text: str, language: str = "cpp") -> str:
    """`text` with comments and string contents replaced by spaces, so that lines and columns stay."""
    if language not in ("triton", "python"):
        return _C_TOKENS.sub(lambda match: _spaces(match.group()), text)
    lines = io.StringIO(text).readlines()
    for start, end in _python_strings(text):
        _blank_between(lines, start, end)
    return "".join(lines)


def _blank_comments(text: str) -> str:
    return _C_TOKENS.sub(lambda match: _spaces(match.group()) if match.group()[0] == "/" else match.group(), text)


def _python_strings(text: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Places of comments and strings, as far as Python can read `text`."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in _STRING_TOKENS:
                yield token.start, token.end
    except (tokenize.TokenError, SyntaxError):
        return


def _blank_between(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> None:
    for number in range(start[0], end[0] + 1):
        line = lines[number - 1]
        first = start[1] if number == start[0] else 0
        last = end[1] if number == end[0] else len(line)
        lines[number - 1] = line[:first] + _spaces(line[first:last]) + line[last:]


def _spaces(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)
