"""An author's file on a machine without a GPU: `cuda` in it means the processor.

Constants such as "cuda:0" become "cpu", `x.cuda()` becomes `x.cpu()`, and waiting for a GPU is nothing. Not covered:
code that asks for more of a GPU, such as its streams.
"""

import ast
import re
from typing import Any

import torch

_CUDA = re.compile(r"cuda(:\d{0,3})?", re.ASCII)


def run_as_written(source: str, file: str, names: dict[str, Any]) -> None:
    """Runs `source`, known as `file`, for its names; with the processor in place of a GPU that is not there."""
    tree = ast.parse(source, file)
    if not torch.cuda.is_available():
        tree = ast.fix_missing_locations(_ForProcessor().visit(tree))
        torch.cuda.synchronize = lambda *_, **__: None
    exec(compile(tree, file, "exec", dont_inherit=True), names)  # noqa: S102 - in a sandbox, where references run


class _ForProcessor(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        is_device = isinstance(node.value, str) and _CUDA.fullmatch(node.value)
        if not is_device:
            return node
        value = "cpu:" if str(node.value).endswith(":") else "cpu"  # the first part of f"cuda:{number}"
        return ast.copy_location(ast.Constant(value), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "cuda":  # x.cuda()
            node.func.attr, node.args, node.keywords = "cpu", [], []
        return node
