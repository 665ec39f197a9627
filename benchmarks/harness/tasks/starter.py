"""Starter code of a task: a file that compiles, has the exact signature and marks what is left to do.

It is generated from the task definition. Not covered: fast kernels; the examples are.
"""

import ast
import re
from collections.abc import Callable
from typing import Any

from ..dtypes import DTYPES
from ..errors import UsageError
from ..languages import LANGUAGES, device_class
from .spec import Argument, Config, Result, TaskSpec, TensorArgument, ValueArgument

_CPP = """\
// {title}
// {formula}
#include <torch/extension.h>

{signature} {{
{checks}
{results}

    // Your computation goes here.

    {answer}
}}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{
    m.def("{direction}", &{direction}, "{name}");
}}
"""
_CUDA = """\
// {title}
// {formula}
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

__global__ void {direction}_kernel({parameters}, int64_t n) {{
    const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
    if (i >= n) return;
    {first}[i] = 0;  // Your computation goes here.
}}

{signature} {{
{checks}
{results}

    const int64_t n = {first}.numel();
    constexpr int threads = 256;
    {direction}_kernel<<<(n + threads - 1) / threads, threads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        {passed}, n);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    {answer}
}}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{
    m.def("{direction}", &{direction}, "{name}");
}}
"""
_TRITON = """\
# {title}
# {formula}
import torch
import triton
import triton.language as tl


@triton.jit
def {direction}_kernel({parameters}, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.zeros((BLOCK,), tl.float32)  # Your computation goes here.
    tl.store({first}_ptr + i, value, mask=i < n)


def {direction}({arguments}):
{results}
    n = {first}.numel()
    {direction}_kernel[(triton.cdiv(n, 1024),)]({passed}, n, BLOCK=1024)
    {answer}
"""
_CUTE_DSL = """\
# {title}
# {formula}
import cuda.bindings.driver as cuda
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def {direction}_kernel({parameters}):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * 256 + thread
    if i < cute.size({first}):
        {first}[i] = {first}.element_type(0)  # Your computation goes here.


@cute.jit
def {direction}_launch({parameters}, stream: cuda.CUstream):
    blocks = (cute.size({first}) + 255) // 256
    {direction}_kernel({names}).launch(grid=(blocks, 1, 1), block=(256, 1, 1), stream=stream)


def {direction}({arguments}):
{results}
    tensors = [from_dlpack(item.reshape(-1)).mark_layout_dynamic() for item in ({passed})]
    {direction}_launch(*tensors, cuda.CUstream(torch.cuda.current_stream().cuda_stream))
    {answer}
"""
_TILELANG = """\
# {title}
# {formula}
import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def {direction}_kernel({sizes}):
    @T.prim_func
    def main({typed}):
        with T.Kernel(T.ceildiv({first}_size, 256), threads=256) as block:
            for i in T.Parallel(256):
                if block * 256 + i < {first}_size:
                    {first}[block * 256 + i] = 0  # Your computation goes here.

    return main


def {direction}({arguments}):
{results}
    tensors = [item.reshape(-1) for item in ({passed})]
    {direction}_kernel(*(item.numel() for item in tensors))(*tensors)
    {answer}
"""
_HELION = """\
# {title}
# {formula}
import helion
import helion.language as hl
import torch


@helion.kernel(config=helion.Config(block_sizes=[1024], num_warps=4))
def {direction}_kernel({untyped}):
    for tile in hl.tile({first}.size(0)):
        {first}[tile] = 0  # Your computation goes here.
    return {first}


def {direction}({arguments}):
{results}
    {direction}_kernel(*(item.reshape(-1) for item in ({passed})))
    {answer}
"""
_NUMBA_CUDA = """\
# {title}
# {formula}
import torch
from numba import cuda


@cuda.jit
def {direction}_kernel({names}):
    i = cuda.grid(1)
    if i < {first}.size:
        {first}[i] = 0  # Your computation goes here.


def {direction}({arguments}):
{results}
    tensors = [item.reshape(-1) for item in ({passed})]
    stream = cuda.external_stream(torch.cuda.current_stream().cuda_stream)
    {direction}_kernel[({first}.numel() + 255) // 256, 256, stream](*tensors)
    {answer}
"""
_LAUNCHED = {"cute_dsl": _CUTE_DSL, "tilelang": _TILELANG, "helion": _HELION, "numba_cuda": _NUMBA_CUDA}

_C_DTYPES = {  # by the names that every set of headers has
    "float64": "torch::kFloat64",
    "float32": "torch::kFloat32",
    "float16": "torch::kFloat16",
    "bfloat16": "torch::kBFloat16",
    "float8_e4m3fn": "torch::kFloat8_e4m3fn",
    "float8_e5m2": "torch::kFloat8_e5m2",
    "int64": "torch::kInt64",
    "int32": "torch::kInt32",
    "int16": "torch::kInt16",
    "int8": "torch::kInt8",
    "uint8": "torch::kUInt8",
    "bool": "torch::kBool",
}
TAIL_MARK = "\n# The author's file ends above."  # of an imported reference
DEFINITION_MARK = "\nKBENCH_DEFINITION ="  # after the author's reference of a definition
_OF_THE_TASK = ("get_inputs", "get_init_inputs")


def starter_code(task: TaskSpec, language: str = "cpp") -> str:
    """The starter file of `task`. Raises UsageError for a language that has none."""
    if language in LANGUAGES and LANGUAGES[language].is_module:
        return _module(task)
    group = task.configs.get(device_class(language)) or next(iter(task.configs.values()))
    writers: dict[str, Callable[[TaskSpec, Config], str]] = {"cpp": _cpp, "cuda": _cuda, "triton": _triton}
    if language in _LAUNCHED:
        return _launched(task, group[0], _LAUNCHED[language])
    return writers[language](task, group[0])


def definition_of(task: TaskSpec) -> dict[str, Any] | None:
    """The axes, inputs and outputs of a task that was imported as a definition; None for any other task."""
    text = task.reference_source.rpartition(TAIL_MARK)[0].rpartition(DEFINITION_MARK)[2]
    is_definition = DEFINITION_MARK in task.reference_source and task.entry is not None
    found: dict[str, Any] | None = ast.literal_eval(text.strip()) if is_definition else None
    return found


def _module(task: TaskSpec) -> str:
    """The author's own file with the class renamed, which is a correct submission already."""
    if not task.takes_python:
        raise UsageError("only tasks that are modules take a module")
    source = task.reference_source.partition(TAIL_MARK)[0]
    if task.entry:
        return _of_the_entry(task.entry, source)
    lines = source.splitlines()
    for item in reversed(ast.parse(source).body):
        if isinstance(item, ast.FunctionDef) and item.name in _OF_THE_TASK:
            del lines[item.lineno - 1 : item.end_lineno]
    text = re.sub(r"\bModel\b(?=[(:,])", "ModelNew", "\n".join(lines))
    return text.strip() + "\n"


def _of_the_entry(entry: str, source: str) -> str:
    """The author's reference of a definition, or what the author gives to start from."""
    for item in ast.parse(source).body:
        if isinstance(item, ast.Assign) and ast.unparse(item.targets[0]) == "KBENCH_FILES":
            files: dict[str, str] = ast.literal_eval(item.value)
            return files.get("submission.py", f"def {entry}(data):\n    raise NotImplementedError\n")
    return source.partition(DEFINITION_MARK)[0].strip() + "\n"


def _cpp(task: TaskSpec, config: Config) -> str:
    return _CPP.format(**_words(task), **_c_words(task, config))


def _cuda(task: TaskSpec, config: Config) -> str:
    optional = _sometimes_none(task)
    passed = [_passed_to_cuda(item, optional) for item in _kernel_arguments(config)]
    results = [f"{item.name}.data_ptr<{_element_type(item)}>()" for item in config.results]
    parameters = [_cuda_parameter(item) for item in _kernel_arguments(config)]
    return _CUDA.format(
        **_words(task),
        **_c_words(task, config),
        parameters=", ".join(
            [*parameters, *(f"{_element_type(item)}* __restrict__ {item.name}" for item in config.results)]
        ),
        passed=", ".join([*passed, *results]),
    )


def _triton(task: TaskSpec, config: Config) -> str:
    optional = _sometimes_none(task)
    tensors = [item for item in config.tensors if item.name not in optional]
    pointers = [f"{name}_ptr" for name in (*(item.name for item in tensors), *task.result_names)]
    return _TRITON.format(
        **_words(task),
        arguments=", ".join(task.argument_names),
        results="\n".join(_python_result(item, config) for item in config.results),
        parameters=", ".join(pointers),
        passed=", ".join([*(_python_tensor(item) for item in tensors), *task.result_names]),
        answer=f"return {', '.join(task.result_names)}",
    )


def _launched(task: TaskSpec, config: Config, template: str) -> str:
    """Of a language whose kernels take tensors, here as rows of elements."""
    optional = _sometimes_none(task)
    tensors = [item for item in config.tensors if item.name not in optional]
    taken: list[TensorArgument | Result] = [*tensors, *config.results]
    names = [item.name for item in taken]
    return template.format(
        **_words(task),
        arguments=", ".join(task.argument_names),
        results="\n".join(_python_result(item, config) for item in config.results),
        names=", ".join(names),
        untyped=", ".join(f"{name}: torch.Tensor" for name in names),
        parameters=", ".join(f"{name}: cute.Tensor" for name in names),
        sizes=", ".join(f"{name}_size: int" for name in names),
        typed=", ".join(f'{item.name}: T.Tensor(({item.name}_size,), "{item.dtype}")' for item in taken),
        passed=", ".join([*(_python_tensor(item) for item in tensors), *task.result_names]),
        answer=f"return {', '.join(task.result_names)}",
    )


def _words(task: TaskSpec) -> dict[str, str]:
    return {
        "title": task.title,
        "formula": task.formula or f"what the reference of {task.suite} computes",
        "name": task.name,
        "direction": task.direction,
        "first": task.result_names[0],
    }


def _c_words(task: TaskSpec, config: Config) -> dict[str, str]:
    return {
        "signature": _signature(task, config),
        "checks": "\n".join(_check(item) for item in config.tensors if not item.packed),
        "results": "\n".join(_result(item, config) for item in config.results),
        "answer": _answer(task),
    }


def _signature(task: TaskSpec, config: Config) -> str:
    optional = _sometimes_none(task)
    arguments = ", ".join(f"{_cpp_type(item, optional)} {item.name}" for item in config.arguments)
    kind = "torch::Tensor" if len(task.result_names) == 1 else "std::vector<torch::Tensor>"
    return f"{kind} {task.direction}({arguments})"


def _sometimes_none(task: TaskSpec) -> set[str]:
    """Tensor arguments that are None in some configuration."""
    configs = [config for group in task.configs.values() for config in group]
    tensors = {item.name for config in configs for item in config.tensors}
    nones = {
        item.name
        for config in configs
        for item in config.arguments
        if isinstance(item, ValueArgument) and item.value is None
    }
    return tensors & nones | nones


def _cpp_type(item: Argument, optional: set[str]) -> str:
    if item.name in optional:
        return "std::optional<torch::Tensor>"
    if isinstance(item, TensorArgument):
        return "std::tuple<torch::Tensor>" if item.packed else "torch::Tensor"
    if isinstance(item.value, tuple):
        return "std::vector<int64_t>"
    return "double" if isinstance(item.value, float) else "int64_t"


def _check(item: TensorArgument) -> str:
    return f'    TORCH_CHECK({item.name}.is_contiguous(), "{item.name} must be contiguous");'


def _result(item: Result, config: Config) -> str:
    name = item.name
    model, like, sizes = _made_from(item, config)
    source = f"std::get<0>({model.name})" if model.packed else model.name
    if like:
        return f"    auto {name} = torch::empty_like({source});"
    note = f"  // {sizes} in the first configuration: compute it from the arguments"
    options = f"{source}.options()" + ("" if model.dtype == item.dtype else f".dtype({_C_DTYPES[item.dtype]})")
    return f"    auto {name} = torch::empty({{{sizes}}}, {options});{note if sizes else ''}"


def _python_result(item: Result, config: Config) -> str:
    name = item.name
    model, like, sizes = _made_from(item, config)
    if like:
        return f"    {name} = torch.empty_like({_python_tensor(model)})"
    note = f"  # {sizes} in the first configuration: compute it from the arguments"
    dtype = "" if item.dtype == "float32" else f", dtype=torch.{item.dtype}"
    made = f"torch.empty(({_tuple(sizes)}), device={_python_tensor(model)}.device{dtype})"
    return f"    {name} = {made}{note if sizes else ''}"


def _made_from(result: Result, config: Config) -> tuple[TensorArgument, bool, str]:
    """The argument that a result looks like in the first configuration, or the first one; whether it does; sizes."""
    alike = [item for item in config.tensors if item.dtype == result.dtype]
    like = next((item for item in alike if item.shape == result.shape), None)
    return like or (alike or config.tensors)[0], like is not None, ", ".join(map(str, result.shape))


def _python_tensor(item: TensorArgument) -> str:
    return f"{item.name}[0]" if item.packed else item.name


def _tuple(sizes: str) -> str:
    return sizes + "," if sizes and "," not in sizes else sizes


def _kernel_arguments(config: Config) -> list[Argument]:
    """What a kernel can take as it is: tensors and numbers."""
    return [
        item for item in config.arguments if isinstance(item, TensorArgument) or isinstance(item.value, int | float)
    ]


def _cuda_parameter(item: Argument) -> str:
    if isinstance(item, ValueArgument):
        return f"{_cpp_type(item, set())} {item.name}"
    return f"const {_element_type(item)}* __restrict__ {item.name}"


def _passed_to_cuda(item: Argument, optional: set[str]) -> str:
    if isinstance(item, ValueArgument):
        return item.name
    pointer = f"data_ptr<{_element_type(item)}>()"
    if item.name in optional:
        return f"{item.name} ? {item.name}->{pointer} : nullptr"
    return f"std::get<0>({item.name}).{pointer}" if item.packed else f"{item.name}.{pointer}"


def _element_type(item: TensorArgument | Result) -> str:
    return DTYPES[item.dtype].c_type


def _answer(task: TaskSpec) -> str:
    names = ", ".join(task.result_names)
    return f"return {names};" if len(task.result_names) == 1 else f"return {{{names}}};"
