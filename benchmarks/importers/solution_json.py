"""Solutions of FlashInfer Trace and SOL-ExecBench: a JSON of several files and an entry point becomes one source.

C++ and CUDA files are joined, included files once and the file of the entry point last, and get a binding of their own;
Python files beside the entry become modules of one text. A solution that takes its outputs as arguments gets a function
that makes them. What cannot be joined is refused by name. Does NOT run, compile or check any of the code.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from ..harness import (
    DTYPES,
    LANGUAGES,
    Source,
    SyntaxProblem,
    TaskSpec,
    UsageError,
    definition_of,
    python_tree,
    tvm_ffi_version,
)
from .records import slug

_FILES_MAX, _BYTES_MAX = 64, 1 << 20
_SIZE_CHARS_MAX = 2_000  # of one size: axes that name others twice each would be written out without end
_PATH = re.compile(r"[A-Za-z0-9_][\w.+-]{0,99}(?:/[A-Za-z0-9_][\w.+-]{0,99}){0,7}", re.ASCII)
_SYMBOL = re.compile(r"[A-Za-z_]\w{0,99}", re.ASCII)
_INCLUDE = re.compile(r'[ \t]*#[ \t]*include[ \t]*"([^"\n]{1,200})"')
_ONCE = re.compile(r"[ \t]*#[ \t]*pragma[ \t]+once\b")
_BINDINGS = re.compile(r"\bPYBIND11_MODULE[ \t]*\([ \t]*\w{1,100}[ \t]*,[ \t]*(\w{1,100})[ \t]*\)")
_SIBLING = re.compile(r"^([ \t]*)from[ \t]+\.(\w*)[ \t]+import\b", re.MULTILINE)
_TVM_FFI = "tvm-ffi"
_UNITS = (".cu", ".cpp", ".cc", ".cxx", ".c")
_LANGUAGES = {
    "pytorch": "python",
    "python": "python",
    "triton": "triton",
    "cute_dsl": "cute_dsl",
    "tilelang": "tilelang",
    "helion": "helion",
    "numba_cuda": "numba_cuda",
    "cpp": "cpp",
    "cuda": "cuda",
    "cuda_cpp": "cuda",
    "cublas": "cuda",
}
_C_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "/", ast.Div: "/", ast.Mod: "%"}
_TOO_LONG = "the expression for the size of an output is too long, because its axes refer to each other too often"
Json = dict[str, Any]


@dataclass(frozen=True)
class _Order:
    """One solution whose fields have been checked."""

    language: str
    files: Mapping[str, str]
    file: str  # of the entry point
    symbol: str
    takes_outputs: bool
    uses_tvm_ffi: bool
    left_out: str  # flags that the judge does not use


def definition_named(text: str) -> str | None:
    """The definition that a solution is for, as the name of a problem; None for any other text."""
    data = _json(text)
    is_solution = isinstance(data, dict) and isinstance(data.get("sources"), list) and "spec" in data
    return slug(str(data.get("definition", ""))) or None if is_solution else None


def joined_solution(text: str, task: TaskSpec) -> Source:
    """The solution as one source for `task`. Raises UsageError, which says what is wrong with it."""
    data = _json(text)
    if not isinstance(data, dict):
        raise UsageError("it is not a JSON object that can be read here")
    if not _is_text(data):
        raise UsageError("it holds unpaired surrogates (\\ud800 to \\udfff), which are not text")
    definition = definition_of(task)
    if definition is None:
        raise UsageError(f"a solution in JSON is for a definition; {task.name} is of another kind")
    if slug(str(data.get("definition", ""))) != task.op:
        raise UsageError(f"it is for the definition {str(data.get('definition'))[:100]!r}, not for {task.op}")
    order = _ordered(data)
    if order.language in ("cpp", "cuda"):
        return Source(_joined_c(order, definition, task.direction), order.language)
    is_module = LANGUAGES[order.language].is_module
    wanted = task.entry or "run" if is_module else task.direction
    return Source(_joined_python(order, definition, wanted), order.language)


def _json(text: str) -> Any:
    try:
        return json.loads(text) if len(text) <= 8 * _BYTES_MAX else None
    except (ValueError, RecursionError):
        return None


def _is_text(data: Json) -> bool:
    """JSON can name half of a pair of surrogates, which no file and no terminal can hold."""
    try:
        json.dumps(data, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return True


def _ordered(data: Json) -> _Order:
    spec = data.get("spec")
    if not isinstance(spec, dict):
        raise UsageError("it lacks spec")
    named = spec.get("languages", spec.get("language"))
    language = _language(named if isinstance(named, list) else [named])
    files = _files(data.get("sources"))
    file, _, symbol = str(spec.get("entry_point", "")).rpartition("::")
    if file not in files or not _SYMBOL.fullmatch(symbol):
        raise UsageError(f"its entry_point {str(spec.get('entry_point'))[:100]!r} is not FILE::FUNCTION of its sources")
    is_c = language in ("cpp", "cuda")
    takes_outputs = spec.get("destination_passing_style", True) is not False
    binding = spec.get("binding") or ("torch" if "languages" in spec else _TVM_FFI)
    if is_c:
        _check_binding(str(binding), takes_outputs=takes_outputs)
    if is_c is file.endswith(".py"):
        raise UsageError(f"its entry point is in {file}, its language is {language}")
    options = spec.get("compile_options")
    lists = [item for item in options.values() if isinstance(item, list)] if isinstance(options, dict) else []
    flags = [str(flag) for item in lists for flag in item]
    uses_tvm_ffi = is_c and binding == _TVM_FFI
    return _Order(language, files, file, symbol, takes_outputs, uses_tvm_ffi, _one_line(" ".join(flags)))


def _check_binding(binding: str, *, takes_outputs: bool) -> None:
    if binding not in ("torch", _TVM_FFI):
        raise UsageError(f"its binding is {binding[:40]!r}; torch and {_TVM_FFI} are built here")
    if binding == _TVM_FFI and tvm_ffi_version() is None:
        raise UsageError(f"its binding is {_TVM_FFI}, which is not installed here: pip install 'kbench[tvm-ffi]'")
    if binding == _TVM_FFI and not takes_outputs:
        raise UsageError(f"with the binding {_TVM_FFI} it has to take its outputs as arguments")


def _language(named: Sequence[Any]) -> str:
    unknown = [item for item in named if not isinstance(item, str) or item not in _LANGUAGES]
    if unknown or not named:
        raise UsageError(f"its language {str(unknown[0] if unknown else None)[:40]} is not judged here")
    found = {_LANGUAGES[item] for item in named}
    if "python" in found and len(found) == 2 and not found & {"cpp", "cuda"}:
        return (found - {"python"}).pop()
    if len(found) > 1 and found != {"cpp", "cuda"}:
        raise UsageError(f"its languages {', '.join(map(str, named))} cannot be combined")
    return "cuda" if "cuda" in found else found.pop()


def _files(listed: Any) -> dict[str, str]:
    if not isinstance(listed, list) or not 0 < len(listed) <= _FILES_MAX:
        raise UsageError(f"it has no list of 1 to {_FILES_MAX} sources")
    files: dict[str, str] = {}
    for item in listed:
        path, content = (item.get(key) for key in ("path", "content")) if isinstance(item, dict) else (None, None)
        if not isinstance(path, str) or not isinstance(content, str) or not _PATH.fullmatch(path):
            raise UsageError(f"its source {str(path)[:100]!r} is not a relative path with a text")
        if path in files:
            raise UsageError(f"it has two sources called {path}")
        files[path] = content
    if sum(map(len, files.values())) > _BYTES_MAX:
        raise UsageError(f"its sources have more than {_BYTES_MAX >> 10} KiB")
    return files


def _one_line(text: str) -> str:
    return " ".join(re.sub(r"[^\x20-\x7e]|\\", " ", text).split())[:200]


# --- C++ and CUDA


def _joined_c(order: _Order, definition: Json, direction: str) -> str:
    head = [f"// Compiled with the flags of the rules; left out: {order.left_out}"] if order.left_out else []
    units = [path for path in order.files if path.endswith(_UNITS) and path != order.file]
    seen: set[str] = set()
    body = [line for path in (*units, order.file) for line in _inlined(path, order.files, seen)]
    needed = ["#include <torch/extension.h>", *(_tvm_ffi_head() if order.uses_tvm_ffi else [])]
    made = "\n".join([*needed, *head, *body])
    text = _BINDINGS.sub(
        r"template <class KbenchModule> [[maybe_unused]] static void kbench_unused(KbenchModule &\1)", made
    )
    function, lines = f"&{order.symbol}", []
    if order.takes_outputs:
        function, lines = "&kbench_with_outputs", _c_wrapper(order, definition)
    module = ["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {", f'    m.def("{direction}", {function});', "}"]
    return "\n".join([text, '#line 1 "binding"', *lines, *module]) + "\n"


def _inlined(path: str, files: Mapping[str, str], seen: set[str]) -> Iterator[str]:
    """The lines of a file with those of the solution's own files that it includes, each file once."""
    if path in seen:
        return
    seen.add(path)
    yield f'#line 1 "{path}"'
    for number, line in enumerate(files[path].splitlines(), 1):
        found = _INCLUDE.match(line)
        other = _included(found[1], path, files) if found else None
        if other is not None:
            yield from _inlined(other, files, seen)
            yield f'#line {number + 1} "{path}"'
        elif not _ONCE.match(line):
            yield line
        else:
            yield ""


def _included(name: str, path: str, files: Mapping[str, str]) -> str | None:
    """The file of the solution that is meant, beside `path` or from its root."""
    beside = str(PurePosixPath(path).parent / name)
    return next((item for item in (beside, name) if item in files), None)


# Both of its kinds of tensor, made of a torch tensor that lives longer than the call.
_VIEW = """\
struct KbenchView {
    DLTensor tensor{};
    KbenchView(const torch::Tensor &from, DLDataType dtype) {
        tensor.data = from.data_ptr();
        tensor.device = {from.is_cuda() ? kDLCUDA : kDLCPU, from.is_cuda() ? int32_t(from.get_device()) : 0};
        tensor.ndim = int32_t(from.dim());
        tensor.dtype = dtype;
        tensor.shape = const_cast<int64_t *>(from.sizes().data());
        tensor.strides = const_cast<int64_t *>(from.strides().data());
    }
    operator tvm::ffi::TensorView() const { return tvm::ffi::TensorView(&tensor); }
    operator tvm::ffi::Tensor() const {
        const auto deleter = [](DLManagedTensor *it) { delete it; };
        return tvm::ffi::Tensor::FromDLPack(new DLManagedTensor{tensor, nullptr, deleter});
    }
};"""
_STREAM = """\
#ifdef __CUDACC__
    TVMFFIEnvSetStream(kDLCUDA, %s.get_device(), c10::cuda::getCurrentCUDAStream().stream(), nullptr);
#endif"""


def _tvm_ffi_head() -> list[str]:
    includes = ("container/tensor.h", "function.h", "extra/c_env_api.h")
    cuda = ["#ifdef __CUDACC__", "#include <c10/cuda/CUDAStream.h>", "#endif"]
    return [f"// TVM FFI {tvm_ffi_version()}", *(f"#include <tvm/ffi/{name}>" for name in includes), *cuda]


def _c_wrapper(order: _Order, definition: Json) -> list[str]:
    """A function of the inputs that makes the outputs and hands both over."""
    symbol, inputs, outputs = order.symbol, definition["inputs"], definition["outputs"]
    parameters = ", ".join(f"{_c_type(item)} kbench_{name}" for name, item in inputs.items())
    first = next(name for name, item in inputs.items() if item["shape"] is not None)
    made = []
    for name, item in outputs.items():
        sizes = ", ".join(_size(axis, definition, is_c=True) for axis in item["shape"])
        options = f"kbench_{first}.options().dtype({_c_dtype(item['dtype'])})"
        made.append(f"    torch::Tensor kbench_{name} = torch::empty({{{sizes}}}, {options});")
    if order.uses_tvm_ffi:
        passed = ", ".join(_viewed(name, item) for name, item in (*inputs.items(), *outputs.items()))
        made.append(_STREAM % f"kbench_{first}")
    else:
        passed = ", ".join(f"kbench_{name}" for name in (*inputs, *outputs))
    results = ", ".join(f"kbench_{name}" for name in outputs)
    kind, answer = ("torch::Tensor", results) if len(outputs) == 1 else ("std::vector<torch::Tensor>", f"{{{results}}}")
    head = f"static {kind} kbench_with_outputs({parameters}) {{"
    view = [_VIEW] if order.uses_tvm_ffi else []
    return [*view, head, *made, f"    {symbol}({passed});", f"    return {answer};", "}"]


def _viewed(name: str, item: Mapping[str, Any]) -> str:
    """An argument as TVM FFI takes it."""
    if item["shape"] is None:
        return f"kbench_{name}"
    kind = DTYPES[item["dtype"]]
    codes = {"bfloat16": "kDLBfloat", "bool": "kDLBool", "uint8": "kDLUInt"}
    floats = f"kDLF{item['dtype'][1:]}" if item["dtype"].startswith("float8") else "kDLFloat"
    code = codes.get(item["dtype"], floats if kind.is_float else "kDLInt")
    return f"KbenchView(kbench_{name}, DLDataType{{{code}, {8 * kind.nbytes}, 1}})"


def _c_type(item: Mapping[str, Any]) -> str:
    if item["shape"] is not None:
        return "torch::Tensor"
    return "bool" if item["dtype"] == "bool" else "double" if DTYPES[item["dtype"]].is_float else "int64_t"


def _c_dtype(name: str) -> str:
    words = {"bfloat16": "BFloat16", "bool": "Bool", "uint8": "UInt8"}
    return f"torch::k{words.get(name, name.capitalize())}"


def _size(axis: str, definition: Json, *, is_c: bool) -> str:
    """The size of an axis as an expression over the inputs. Raises UsageError."""
    try:
        return _written_out(axis, definition, is_c=is_c)
    except RecursionError as error:
        raise UsageError(_TOO_LONG) from error


def _written_out(axis: str, definition: Json, *, is_c: bool) -> str:
    if axis in definition["axes"]:
        return str(definition["axes"][axis])
    if axis in definition.get("expressions", ()):
        return f"({_arithmetic(ast.parse(definition['expressions'][axis], mode='eval').body, definition, is_c=is_c)})"
    for name, item in definition["inputs"].items():
        if axis in (item["shape"] or ()):
            place = item["shape"].index(axis)
            return f"kbench_{name}.size({place})" if is_c else f"kbench_{name}.shape[{place}]"
    raise UsageError(f"the axis {axis} of an output belongs to no input, so its size is not known to a solution")


def _arithmetic(node: ast.expr, definition: Json, *, is_c: bool) -> str:
    if isinstance(node, ast.BinOp) and type(node.op) in _C_OPERATORS:
        left, right = (_arithmetic(item, definition, is_c=is_c) for item in (node.left, node.right))
        operator = _C_OPERATORS[type(node.op)]
        if len(left) + len(right) > _SIZE_CHARS_MAX:
            raise UsageError(_TOO_LONG)
        return f"({left} {'//' if operator == '/' and not is_c else operator} {right})"
    if isinstance(node, ast.Name):
        return _written_out(node.id, definition, is_c=is_c)
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return str(node.value)
    raise UsageError(f"the size {ast.unparse(node)[:80]} of an output cannot be written in C++")


# --- Python

_MODULES = """\
import linecache as _kbench_linecache
import sys as _kbench_sys
import types as _kbench_types


def _kbench_module(name, text):
    file, module = f"<{name}.py>", _kbench_types.ModuleType(name)
    _kbench_linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    _kbench_sys.modules[name] = module
    exec(compile(text, file, "exec"), vars(module))


"""


def _joined_python(order: _Order, definition: Json, wanted: str) -> str:
    if not all(path.endswith(".py") and "/" not in path for path in order.files):
        raise UsageError("its Python sources have to be .py files in one folder")
    files = {path.removesuffix(".py"): _absolute(text) for path, text in order.files.items()}
    entry = order.file.removesuffix(".py")
    names = _in_order(entry, files)
    parts = [f"_kbench_module({name!r}, {files[name]!r})\n" for name in names if name != entry]
    text = (_MODULES + "".join(parts) + "\n\n" if parts else "") + files[entry]
    if order.symbol == wanted and not order.takes_outputs:
        return text
    return "\n".join([text, "", "", *_python_wrapper(order, definition, wanted)]) + "\n"


def _absolute(text: str) -> str:
    """`from .name import x` as `from name import x`, and `from . import name` as `import name`."""

    def absolute(found: re.Match[str]) -> str:
        return f"{found[1]}from {found[2]} import" if found[2] else f"{found[1]}import"

    return _SIBLING.sub(absolute, text)


def _in_order(entry: str, files: Mapping[str, str]) -> list[str]:
    """The modules that the entry needs, each after those that it imports. Raises UsageError for a circle."""
    done: list[str] = []

    def visit(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise UsageError(f"its files {' and '.join(above)} import each other in a circle")
        if name not in done:
            for other in _imported(name, files[name]):
                if other in files and other != name:
                    visit(other, (*above, name))
            done.append(name)

    visit(entry, ())
    return done


def _imported(name: str, text: str) -> Iterator[str]:
    tree = python_tree(text)
    if isinstance(tree, SyntaxProblem):
        raise UsageError(f"{name}.py:{tree.line}: {tree.message}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (item.name.partition(".")[0] for item in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def _python_wrapper(order: _Order, definition: Json, wanted: str) -> list[str]:
    """The function that the judge calls: it calls the entry point, with outputs where that takes them."""
    inputs, outputs = definition["inputs"], definition["outputs"]
    passed = ", ".join(f"kbench_{name}" for name in inputs)
    lines = [f"_kbench_entry = {order.symbol}", "", "", f"def {wanted}({passed}):"]
    if not order.takes_outputs:
        return [*lines, f"    return _kbench_entry({passed})"]
    first = next(name for name, item in inputs.items() if item["shape"] is not None)
    for name, item in outputs.items():
        sizes = "".join(f"{_size(axis, definition, is_c=False)}, " for axis in item["shape"]).rstrip()
        made = f"kbench_{first}.new_empty(({sizes}), dtype=_kbench_torch.{item['dtype']})"
        lines.append(f"    kbench_{name} = {made}")
    results = ", ".join(f"kbench_{name}" for name in outputs)
    return [
        "import torch as _kbench_torch",
        "",
        *lines,
        f"    _kbench_entry({passed}, {results})",
        f"    return {results}",
    ]
