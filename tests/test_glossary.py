"""A public class name has one meaning: nothing else in `benchmarks` and `agents` bears it.

Migrations and management commands are left out, where Django prescribes the name.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]


def modules() -> Iterator[Path]:
    for package in ("benchmarks", "agents"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if not {"migrations", "commands", "suites"} & set(path.parts):
                yield path


def names(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """What a module defines at its top: a name, and whether it is a class."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name, True
        elif isinstance(node, ast.Assign):
            yield from ((target.id, False) for target in node.targets if isinstance(target, ast.Name))


def clashes(trees: dict[str, ast.Module]) -> dict[str, list[str]]:
    places, classes = defaultdict(list), set()
    for module, tree in trees.items():
        for name, is_class in names(tree):
            places[name].append(module)
            if is_class and not name.startswith("_"):
                classes.add(name)
    return {name: found for name, found in places.items() if name in classes and len(found) > 1}


def test_a_public_class_name_has_one_meaning() -> None:
    assert clashes({str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in modules()}) == {}


def test_a_second_class_or_alias_of_the_same_name_is_found() -> None:
    one = ast.parse("class Call: ...\nclass _Place: ...")
    assert clashes({"a": one, "b": ast.parse("class Call: ...")}) == {"Call": ["a", "b"]}
    assert clashes({"a": one, "b": ast.parse("Call = int")}) == {"Call": ["a", "b"]}
    assert clashes({"a": one, "b": ast.parse("class _Place: ...")}) == {}
