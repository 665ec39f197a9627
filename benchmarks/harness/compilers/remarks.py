"""Remarks on a source: facts that a reader should know before trusting a number, each with its line.

Remarks are hints and never a verdict: the patterns can be evaded, and what they mark is often legal. They are applied
to text whose comments and strings are blanked. The text is untrusted, so every pattern runs in linear time and begins
with letters, which the engine finds fastest. Not covered: what the code does when it runs.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..languages import LANGUAGES
from ..report import Flag
from .lexing import blanked


def _words(text: str) -> str:
    """Any of the words where one begins. The boundary is looked for last: searching for letters is what is fast."""
    return "(?:" + "|".join(rf"{word}(?<!\w{word})" for word in text.split()) + ")"


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


_LOW, _CALLS, _GRAPH = "uses a type of less than 32 bits", "calls a library operator", "records or replays a CUDA graph"
_METHOD = _remark("library-call", f"{_CALLS} as a method", _METHODS)
_C = (
    _remark("library-call", f"{_CALLS} of torch", rf"{_words('at torch')}::(?:\w+::)?{_OPERATORS}\s*\("),
    _METHOD,
    _remark("inline-assembly", "contains inline assembly", rf"{_words('asm __asm__ __asm')}\b"),
    _remark(
        "system-call",
        "makes a system call",
        rf"{_words('syscall ptrace fork vfork system popen dlopen dlsym mprotect')}\s*\(",
    ),
    _remark("system-call", "makes a system call", rf"{_words('execv')}\w*\s*\("),
    _remark("start-up-code", "runs code when it is loaded", r"__attribute__\s*\(\s*\(\s*constructor"),
    _remark("low-precision", _LOW, rf"{_words('BFloat16 Half kHalf kBFloat16 _Float16 __bf16')}\b"),
)
_CUDA = (
    _remark(
        "library-call",
        "calls a library of NVIDIA",
        rf"{_words('cublas cublasLt cudnn cusparse cusolver cufft')}[A-Z]\w*\s*\(|{_words('cutlass')}::",
    ),
    _remark("low-precision", _LOW, rf"{_words('__half half __nv_bfloat16 nv_bfloat16')}2?\b"),
    _remark("low-precision", _LOW, rf"{_words('__nv_fp')}[864]"),
    _remark(
        "low-precision",
        f"{_LOW} in PTX",
        r"\.(?:tf32|b?f16(?:x2)?|e4m3(?:x2)?|e5m2(?:x2)?)\b",
        in_strings=True,
    ),
    _remark("low-precision", "computes in TF32, of 19 bits", r"precision::tf32\b|TF32|__float_to_tf32\b"),
    _remark(
        "own-stream",
        "creates its own stream",
        _words("cudaStreamCreate cuStreamCreate getStreamFromPool CUDAStreamGuard CUDAMultiStreamGuard"),
    ),
    _remark(
        "cuda-graph",
        _GRAPH,
        _words("cudaGraphLaunch cudaGraphInstantiate cudaGraphCreate cudaStreamBeginCapture CUDAGraph"),
    ),
    _remark("host-callback", "lets the GPU call back to the host", _words("cudaLaunchHostFunc cudaStreamAddCallback")),
)
_IMPORTS = r"^[ \t]*(?:import|from)[ \t]+"
_TRITON = (
    _remark("library-call", f"{_CALLS} of torch", rf"{_words('torch F functional aten')}\.{_OPERATORS}\s*\("),
    _remark(
        "library-call",
        "calls torch operators through their registry",
        rf"{_words('torch')}\.(?:ops|compile|jit|_C|_dynamo)\b",
    ),
    _METHOD,
    _remark("inline-assembly", "contains inline PTX", _words("inline_asm_elementwise")),
    _remark(
        "system-call",
        "imports a module with access to the system",
        rf"{_IMPORTS}(?:ctypes|cffi|subprocess|socket|multiprocessing|threading|signal|mmap|os|gc|inspect)\b",
    ),
    _remark(
        "system-call",
        "executes a string as code",
        "|".join(rf"{word}(?<![\w.]{word})\s*\(" for word in ("exec", "eval", "compile", "__import__")),
    ),
    _remark(
        "compiles-code",
        "compiles code of another language while it runs",
        rf"{_words('load_inline cpp_extension nvrtc RawKernel RawModule')}\b|{_IMPORTS}(?:cupy|numba|pycuda|cuda)\b",
    ),
    _remark(
        "low-precision",
        _LOW,
        rf"{_words('tl torch')}\.(?:float16|bfloat16|half|float8\w*|int8|uint8)\b|\.(?:half|bfloat16)\s*\(",
    ),
    _remark(
        "low-precision",
        "tl.dot computes in TF32, of 19 bits, unless it is told otherwise",
        rf"{_words('tl')}\.dot\s*\(",
        unless=r"ieee|tf32x3|allow_tf32\s*=\s*False",
    ),
    _remark(
        "low-precision",
        "turns TF32 on",
        rf"{_words('allow_tf32')}\s*=\s*True|{_words('set_float32_matmul_precision')}\s*\(",
    ),
    _remark("own-stream", "creates its own stream", rf"{_words('cuda')}\.(?:Stream|stream|ExternalStream)\b"),
    _remark("cuda-graph", _GRAPH, rf"{_words('cuda')}\.(?:CUDAGraph|graph|graphs|make_graphed_callables)\b"),
)
_MODULE = (
    _remark("library-call", "uses a layer of torch.nn", rf"{_words('nn')}\.(?!Module\b|Parameter\b)[A-Z]\w*\s*\("),
    *(item for item in _TRITON if item.code != "compiles-code"),  # load_inline is compiled beforehand
)
# of languages whose own packages have to be imported, and are called cuda or numba
_DEVICE = (
    *(item for item in _TRITON if item.code != "compiles-code"),
    _remark(
        "compiles-code",
        "compiles code of another language while it runs",
        rf"{_words('load_inline cpp_extension nvrtc RawKernel RawModule import_source')}\b|{_IMPORTS}(?:cupy|pycuda)\b",
    ),
    _remark("inline-assembly", "contains inline assembly", _words("inline_asm inline_ptx call_extern")),
    _remark(
        "low-precision",
        _LOW,
        rf"{_words('cutlass T numba')}\.(?:T?[Ff]loat(?:16|32x3|8\w*)|TFloat32|BFloat16|bfloat16|Float4\w*)\b",
    ),
)
_KERNEL = {
    "cuda": re.compile(r"__global__\b"),
    **{
        item.name: re.compile(r"@[ \t]*(?:\w+\.)?(?:jit|kernel|prim_func)\b")
        for item in LANGUAGES.values()
        if item.launches_from_python
    },
}
_REMARKS = {
    **{item.name: _DEVICE for item in LANGUAGES.values() if item.launches_from_python},
    "cpp": _C,
    "cuda": (*_C, *_CUDA),
    "triton": _TRITON,
    "python": _MODULE,
}


def remarks(text: str, language: str) -> Iterator[Flag]:
    """One flag for each code that something in `text` deserves, at the first place; then what `text` lacks."""
    code, with_strings = blanked(text, language)
    seen = set()
    for remark in _REMARKS[language]:
        where = with_strings if remark.in_strings else code
        found = None if remark.code in seen else remark.pattern.search(where)
        if found and not (remark.unless and remark.unless.search(text)):
            seen.add(remark.code)
            start = found.end() - len(found.group().lstrip())
            yield Flag(remark.code, remark.text, where.count("\n", 0, start) + 1)
    if language in _KERNEL and not _KERNEL[language].search(code):
        yield Flag("no-kernel", "defines no GPU kernel of its own", None)


def blank(text: str, language: str = "cpp") -> str:
    """`text` with comments and strings replaced by spaces, so that lines and columns stay."""
    return blanked(text, language)[0]
