"""Arithmetic in task files: `"batch_size * (height - 2) // 2"` over the values of a configuration.

Task files are data, so their formulas are evaluated by walking the syntax tree, never by `eval`.
Covered: numbers, names, tuples, + - * / // % **, comparisons, and/or/not, `a if c else b`, min and max.
"""

import ast
import itertools
import operator
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import TaskError

_TEXT_MAX = 200
_EXPONENT_MAX = 8
_VALUE_MAX = 1 << 62  # Python refuses to write out a number of more than 4,300 digits

Value = int | float | bool | str | None | tuple[Any, ...]

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
}
_CALLS: dict[str, Callable[..., Any]] = {"min": min, "max": max}


def evaluate(text: str, values: Mapping[str, Value]) -> Any:
    """The value of `text`. Raises TaskError for a syntax error, an unknown name or a form not covered."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise TaskError(f"cannot read the expression {text!r}: {error.msg}") from error
    return _Evaluator(text, values).visit(tree)


def arithmetic(text: Any, values: Mapping[str, Value]) -> Any:
    """As `evaluate`, of an expression that anybody may have written: numbers only, and of limited size."""
    if not isinstance(text, str) or len(text) > _TEXT_MAX:
        raise TaskError(f"an expression is a text of at most {_TEXT_MAX} characters")
    try:
        nodes = list(ast.walk(ast.parse(text, mode="eval")))
        if not all(map(_is_about_numbers, nodes)):
            raise TaskError(f"only numbers are allowed in the expression {text!r}")
        powers = [node for node in nodes if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)]
        if len(powers) > 1 or not all(_is_small(node.right) for node in powers):
            raise TaskError(f"one power, with an exponent up to {_EXPONENT_MAX}, is allowed in the expression {text!r}")
        value = evaluate(text, values)
        if not abs(value) <= _VALUE_MAX:  # what is no number is no larger either
            raise TaskError(f"the value of the expression {text!r} is larger than {_VALUE_MAX}")
    except SyntaxError as error:
        raise TaskError(f"cannot read the expression {text!r}: {error.msg}") from error
    except (ArithmeticError, TypeError, ValueError, RecursionError, MemoryError) as error:
        raise TaskError(f"the expression {text!r} has no value: {error}") from error
    return value


def _is_about_numbers(node: ast.AST) -> bool:
    """A tuple times a number has any length, so it could fill the memory and take hours to compare."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float)
    return not isinstance(node, ast.Tuple)


def _is_small(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value <= _EXPONENT_MAX


class _Evaluator(ast.NodeVisitor):
    def __init__(self, text: str, values: Mapping[str, Value]) -> None:
        self.text = text
        self.values = values

    def generic_visit(self, node: ast.AST) -> Any:
        raise TaskError(f"{type(node).__name__} is not allowed in the expression {self.text!r}")

    def visit_Constant(self, node: ast.Constant) -> Any:
        return node.value

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id not in self.values:
            raise TaskError(f"the expression {self.text!r} uses {node.id!r}, which the configuration does not set")
        return self.values[node.id]

    def visit_Tuple(self, node: ast.Tuple) -> Any:
        return tuple(self.visit(item) for item in node.elts)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        return self._lookup(_UNARY, node.op)(self.visit(node.operand))

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        return self._lookup(_BINARY, node.op)(self.visit(node.left), self.visit(node.right))

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        parts = (self.visit(part) for part in node.values)
        return all(parts) if isinstance(node.op, ast.And) else any(parts)

    def visit_Compare(self, node: ast.Compare) -> Any:
        items = [self.visit(node.left), *(self.visit(item) for item in node.comparators)]
        pairs = zip(node.ops, itertools.pairwise(items), strict=True)
        return all(self._lookup(_COMPARE, op)(*pair) for op, pair in pairs)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        return self.visit(node.body if self.visit(node.test) else node.orelse)

    def visit_Call(self, node: ast.Call) -> Any:
        if not isinstance(node.func, ast.Name) or node.func.id not in _CALLS or node.keywords:
            self.generic_visit(node)
        assert isinstance(node.func, ast.Name)  # noqa: S101 - narrowed by the line above
        return _CALLS[node.func.id](*(self.visit(item) for item in node.args))

    def _lookup(self, table: Mapping[Any, Callable[..., Any]], operation: object) -> Callable[..., Any]:
        if type(operation) not in table:
            raise TaskError(f"{type(operation).__name__} is not allowed in the expression {self.text!r}")
        return table[type(operation)]
