"""A public class name has one meaning: the checkout has no second class, and `benchmarks` and `agents` no alias, of it.

Migrations and management commands are left out, where Django prescribes the name.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("benchmarks", "agents")
BESIDE_THEM = ("kbench_site", "lab", "scripts")


def modules(packages: Sequence[str]) -> Iterator[Path]:
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            if not {"migrations", "commands", "suites"} & set(path.parts):
                yield path


@cache
def trees(packages: tuple[str, ...]) -> dict[str, ast.Module]:
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in modules(packages)}


def without_aliases(tree: ast.Module) -> ast.Module:
    return ast.Module([node for node in tree.body if not isinstance(node, ast.Assign)], [])


def names(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """What a module defines at its top: a name, and whether it is a class."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name, True
        elif isinstance(node, ast.Assign):
            yield from ((target.id, False) for target in node.targets if isinstance(target, ast.Name))


def clashes(modules: dict[str, ast.Module]) -> dict[str, list[str]]:
    places, classes = defaultdict(list), set()
    for module, tree in modules.items():
        for name, is_class in names(tree):
            places[name].append(module)
            if is_class and not name.startswith("_"):
                classes.add(name)
    return {name: found for name, found in places.items() if name in classes and len(found) > 1}


def test_a_public_class_name_has_one_meaning() -> None:
    assert clashes(trees(PACKAGES)) == {}


def test_no_two_public_classes_of_the_checkout_have_one_name() -> None:
    every = trees(PACKAGES) | trees(BESIDE_THEM)
    assert clashes({module: without_aliases(tree) for module, tree in every.items()}) == {}


def test_a_second_class_or_alias_of_the_same_name_is_found() -> None:
    one = ast.parse("class Call: ...\nclass _Place: ...")
    assert clashes({"a": one, "b": ast.parse("class Call: ...")}) == {"Call": ["a", "b"]}
    assert clashes({"a": one, "b": ast.parse("Call = int")}) == {"Call": ["a", "b"]}
    assert clashes({"a": one, "b": ast.parse("class _Place: ...")}) == {}
