"""Python texts of strangers are parsed in one module, which limits memory and time: nobody else may start to do so."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
# What parses or evaluates beside it, and why it may.
OTHERS = {
    "benchmarks/catalogue/difficulty.py": "references that the importers have read",
    "benchmarks/harness/foreign/facts.py": "texts of limited length",
    "benchmarks/harness/tasks/expressions.py": "texts of limited length, and our own",
    "benchmarks/harness/tasks/starter.py": "references that the importers have read",
    "benchmarks/importers/solution_json.py": "expressions that have been evaluated",
    "benchmarks/naive/script.py": "runs in a sandbox",
}
PARSING = {"compile", "exec", "eval", "literal_eval", "ast.parse", "ast.literal_eval"}


def test_only_listed_modules_parse_python_texts() -> None:
    files = [path for folder in ("agents", "benchmarks", "kbench_site") for path in (ROOT / folder).rglob("*.py")]
    parsing = {str(path.relative_to(ROOT)) for path in files if PARSING & called_in(path.read_text())}
    outside = {name for name in parsing if not name.startswith("benchmarks/harness/child/")}  # runs in a sandbox
    assert outside == {*OTHERS, "benchmarks/harness/compilers/python_syntax.py"}


def called_in(text: str) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)}
