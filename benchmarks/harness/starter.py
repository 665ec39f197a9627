"""Starter code of a task: a file that compiles, has the exact signature and says what is left to do.

It is made from the task definition, so it cannot disagree with it. Not covered: a fast kernel; the examples are.
"""

from .errors import UsageError
from .spec import Argument, Config, TaskSpec, TensorArgument, ValueArgument

_TEMPLATE = """\
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


def starter_code(task: TaskSpec, language: str = "cpp") -> str:
    """The starter file of `task`. Raises UsageError for a language that has none."""
    if language != "cpp":
        raise UsageError(f"there is no starter code in {language!r}")
    config = next(iter(task.configs.values()))[0]
    return _TEMPLATE.format(
        title=task.title,
        formula=task.formula,
        name=task.name,
        direction=task.direction,
        signature=_signature(task, config),
        checks="\n".join(_check(item) for item in config.tensors if not item.packed),
        results="\n".join(_result(name, config, task) for name in task.result_names),
        answer=_answer(task),
    )


def _signature(task: TaskSpec, config: Config) -> str:
    optional = _sometimes_none(task)
    arguments = ", ".join(f"{_cpp_type(item, optional)} {item.name}" for item in config.arguments)
    kind = "torch::Tensor" if len(task.result_names) == 1 else "std::vector<torch::Tensor>"
    return f"{kind} {task.direction}({arguments})"


def _sometimes_none(task: TaskSpec) -> set[str]:
    """Tensor arguments that are None in some configuration."""
    configs = [config for group in task.configs.values() for config in group]
    tensors = {item.name for config in configs for item in config.tensors}
    nones = {item.name for config in configs for item in config.arguments if _is_none(item)}
    return tensors & nones | nones


def _is_none(item: Argument) -> bool:
    return isinstance(item, ValueArgument) and item.value is None


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


def _result(name: str, config: Config, task: TaskSpec) -> str:
    """The result's shape in the first configuration tells which argument it looks like, if any."""
    shape = next(item.shape for item in config.results if item.name == name)
    like = next((item for item in config.tensors if item.shape == shape and item.dtype == "float32"), None)
    first = next(item for item in config.tensors if item.dtype == "float32")
    source = f"std::get<0>({first.name})" if first.packed else first.name
    if like is not None:
        other = f"std::get<0>({like.name})" if like.packed else like.name
        return f"    auto {name} = torch::empty_like({other});"
    sizes = ", ".join(str(size) for size in shape)
    note = f"  // {sizes} in the first configuration: compute it from the arguments"
    return f"    auto {name} = torch::empty({{{sizes}}}, {source}.options());{note if sizes else ''}"


def _answer(task: TaskSpec) -> str:
    names = ", ".join(task.result_names)
    return f"return {names};" if len(task.result_names) == 1 else f"return {{{names}}};"
