"""Triton sources: does Python parse them, and does the entry function take what the task passes?

Not covered: what runs only on a GPU; such a source is never accepted here.
"""

import ast
from collections.abc import Iterator

from benchmarks.harness import SyntaxProblem, TaskSpec, python_tree

from .doubts import Doubt


def python_doubts(text: str, task: TaskSpec) -> Iterator[Doubt]:
    """Ends in a doubt whatever is found: a text says too little of a Triton kernel."""
    module = python_tree(text)
    if isinstance(module, SyntaxProblem):
        yield Doubt("compile", module.message, module.line, certain=not module.is_too_much)
        return
    entry = [item for item in module.body if isinstance(item, ast.FunctionDef) and item.name == task.direction]
    if len(entry) == 1 and not _takes(entry[0], len(task.argument_names)):
        text = f"{task.direction} does not take the {len(task.argument_names)} arguments of the task"
        yield Doubt("interface", text, entry[0].lineno, certain=not entry[0].decorator_list)
    yield Doubt("memory", "the text of a Triton kernel is not analysed")


def _takes(entry: ast.FunctionDef, count: int) -> bool:
    arguments = entry.args
    most = len(arguments.posonlyargs) + len(arguments.args)
    return most - len(arguments.defaults) <= count and (count <= most or arguments.vararg is not None)
