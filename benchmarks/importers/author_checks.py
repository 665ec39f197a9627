"""Whether an author's check of a GPU MODE problem only compares a result with the reference, element by element.

Then the checker of kbench does the same in its place, with tolerances of its own. A check that does anything else with
the result (sorting it, multiplying it back, counting) may have several right answers, so the judge asks it.
Reads the syntax alone. Does NOT run a check.
"""

import ast
from collections.abc import Iterator

CHECK = "check_implementation"
_COMPARERS = frozenset(("verbose_allclose", "verbose_allequal", "allclose", "assert_close", "equal"))
_WHOLE = "match_reference"  # takes the input, the result and the reference itself
_FACTS = frozenset(("shape", "dtype", "device", "ndim"))  # of a result, which say nothing of its values
_LOOKS = frozenset(("isinstance", "len", "type"))


def author_tolerance(module: ast.Module) -> str | None:
    """How far off a result may be, as the author says it. None where the check is more than a comparison."""
    for item in module.body:
        names = [ast.unparse(target) for target in item.targets] if isinstance(item, ast.Assign) else []
        made = item.value if isinstance(item, ast.Assign) and CHECK in names else None
        if isinstance(made, ast.Call) and _name(made) == f"make_{_WHOLE}":
            return _told(made)
        if isinstance(item, ast.FunctionDef) and item.name == CHECK:
            call = _comparing(item)
            if call is not None:
                return _told(call)
        if CHECK in [*names, getattr(item, "name", "")]:
            return None
    return None


def _told(call: ast.Call) -> str:
    return ", ".join(ast.unparse(item) for item in call.keywords if item.arg != "reference")[:80] or "that of its utils"


def _name(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2] if isinstance(call.func, ast.Name | ast.Attribute) else ""


def _comparing(check: ast.FunctionDef) -> ast.Call | None:
    """The call that compares, where the check does nothing else with the result."""
    names = [item.arg for item in check.args.args]
    if len(names) < 2 or check.args.vararg or check.args.kwarg:
        return None
    data, result = names[:2]
    results, expected = {result}, set(_references(check))
    if _assigned(check) & {data, result}:
        return None
    for loop in (item for item in ast.walk(check) if isinstance(item, ast.For)):
        pair = _pair(loop, results, expected)
        if pair:
            results.add(pair[0])
            expected.add(pair[1])
    found: ast.Call | None = None
    harmless: set[int] = set()
    for node in ast.walk(check):
        if isinstance(node, ast.Call) and _is_comparison(node, data, results, expected):
            found = found or node
            harmless |= {id(item) for item in node.args}
        elif isinstance(node, ast.Call) and _name(node) == "zip":
            harmless |= {id(item) for item in node.args}
        elif isinstance(node, ast.Call) and _name(node) in _LOOKS and node.args:
            harmless.add(id(node.args[0]))
        elif isinstance(node, ast.Attribute) and node.attr in _FACTS:
            harmless.add(id(node.value))
    uses = (node for node in ast.walk(check) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    return found if all(id(node) in harmless for node in uses if node.id in results) else None


def _references(check: ast.FunctionDef) -> Iterator[str]:
    """The names that hold what `ref_kernel` returns."""
    for node in ast.walk(check):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _name(node.value) == "ref_kernel":
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _assigned(check: ast.FunctionDef) -> set[str]:
    return {node.id for node in ast.walk(check) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _pair(loop: ast.For, results: set[str], expected: set[str]) -> tuple[str, str] | None:
    """The names in `for x, y in zip(results, expected)`, the result first."""
    target, source = loop.target, loop.iter
    is_zip = isinstance(source, ast.Call) and _name(source) == "zip" and len(source.args) == 2
    if not is_zip or not isinstance(target, ast.Tuple) or len(target.elts) != 2:
        return None
    assert isinstance(source, ast.Call)  # noqa: S101 - asked above
    given, made = [ast.unparse(item) for item in source.args], [ast.unparse(item) for item in target.elts]
    if given[0] in results and given[1] in expected:
        return made[0], made[1]
    return (made[1], made[0]) if given[1] in results and given[0] in expected else None


def _is_comparison(call: ast.Call, data: str, results: set[str], expected: set[str]) -> bool:
    given = [item.id for item in call.args if isinstance(item, ast.Name)]
    if _name(call) == _WHOLE:
        whole = {item.arg: ast.unparse(item.value) for item in call.keywords}
        reference = whole.get("reference") or (given[2] if len(given) > 2 else "")
        return len(given) > 1 and given[0] == data and given[1] in results and reference == "ref_kernel"
    if _name(call) not in _COMPARERS or len(call.args) < 2 or len(given) < 2:
        return False
    one, other = given[:2]
    return (one in results and other in expected) or (other in results and one in expected)
