"""Every regular expression of the project, and hostile texts for one: what it can stumble over follows from its parts.

Sources are read as syntax trees, so no use of `re` is forgotten; the patterns of modules are those that were compiled
while they were imported. Of packages that the project uses only Django's routes and validators are tried.
"""

import ast
import importlib
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from django.apps import apps
from django.core.validators import RegexValidator
from django.urls import URLPattern, URLResolver, get_resolver

from kbench_site.body_limit import PATH_MAX_CHARS

from .pumps import pumped

ROOT = Path(__file__).parents[2]
PACKAGES = ("kbench_site", "benchmarks", "agents")
USES = {"compile", "search", "match", "fullmatch", "findall", "finditer", "split", "sub", "subn"}
PLACEHOLDER = "name"  # for what a pattern is made of while it is used
NOT_IMPORTED = ("/child/", "/kernels/", "__main__", "asgi", "/suites/")

# What modules hold in tables, or make of what they are given, by the file and how the use is written.
MADE = {
    ("agents/evolve/verifiers/formula_checks.py", "asked"): lambda names: [
        text for item in names["_NEEDS"] for text in item[1:]
    ],
    ("agents/evolve/verifiers/memory_checks.py", "pattern"): lambda names: [
        rf"(?<![\w.>]){PLACEHOLDER}{names['_IN_PLACE']}",
        rf"(?<![\w.]){PLACEHOLDER}\[[^\]]{{0,200}}\]\s*[-+*/]?=(?!=)",
    ],
    ("agents/evolve/verifiers/reading.py", "f'[{re.escape(first + _PAIRS[first])}]'"): lambda _: [r"[\(\)]"],
    ("benchmarks/migrations/0011_kinds_of_processors.py", "form"): lambda names: [
        item[0] for item in names["FAMILIES"]
    ],
}

# Django's own: its time grows with the square of a path, to 10 ms for the longest path that is taken.
KNOWN = {r"^r/(?P<content_type_id>.+)/(?P<object_id>.+)/\Z"}

SIZE = 8_192  # characters: enough to tell, by a factor of a hundred
LIMITS = {"routes": PATH_MAX_CHARS, "benchmarks/migrations/0011_kinds_of_processors.py": 200}  # a processor's model


def size_at(place: str) -> int:
    """How long a text can get there, as far as it matters."""
    return min(SIZE, LIMITS.get(place.partition(":")[0], SIZE))


@dataclass(frozen=True)
class Place:
    """One use of `re` in a source."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@lru_cache
def collected() -> dict[str, set[re.Pattern[Any]]]:
    """By the place of the use. A place without any pattern is one that this module could not find out."""
    found: dict[str, set[re.Pattern[Any]]] = defaultdict(set)
    compiled = _compiled_by_modules()
    for file in _files():
        namespace = _namespace(file)
        for call in _calls(file):
            place = str(Place(file, call.lineno))
            found[place] |= compiled.get(place, set())
            if not found[place]:
                found[place] |= _read(file, call, namespace)
    return {**found, **_of_django()}


def _files() -> list[str]:
    names = (path.relative_to(ROOT).as_posix() for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return sorted(names)


def _calls(file: str) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse((ROOT / file).read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in USES:
            of = node.func.value
            if isinstance(of, ast.Name) and of.id == "re":
                yield node


def _namespace(file: str) -> dict[str, Any]:
    if any(part in f"/{file}" for part in NOT_IMPORTED):
        return {"re": re}
    return vars(importlib.import_module(file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")))


class _Names(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        if name in vars(__builtins__) if not isinstance(__builtins__, dict) else name in __builtins__:
            raise KeyError(name)
        return PLACEHOLDER


def _read(file: str, call: ast.Call, namespace: dict[str, Any]) -> set[re.Pattern[Any]]:
    """The pattern of a use inside a function, local names replaced; none where it is a name alone."""
    pattern = call.args[0]
    if (file, ast.unparse(pattern)) in MADE:
        return {re.compile(text) for text in MADE[file, ast.unparse(pattern)](namespace)}
    if isinstance(pattern, ast.Name) and pattern.id not in namespace:
        return set()
    try:
        text = eval(compile(ast.Expression(_plain(pattern)), "pattern", "eval"), {}, _Names(namespace))  # noqa: S307
    except (NameError, AttributeError, TypeError, KeyError, IndexError, re.error):
        return set()
    flags = re.MULTILINE | re.DOTALL if len(call.args) > 2 or call.keywords else 0
    return {text if isinstance(text, re.Pattern) else re.compile(text, flags)}


class _Plain(ast.NodeTransformer):
    """Attributes of local things are placeholders too."""

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        node.value = node.value if isinstance(node.value, ast.Name | ast.Call) else ast.Constant(PLACEHOLDER)
        return node


def _plain(node: ast.expr) -> ast.expr:
    plain: ast.expr = ast.fix_missing_locations(_Plain().visit(node))
    return plain


def _compiled_by_modules() -> dict[str, set[re.Pattern[Any]]]:
    """What the modules compile while they are imported, by the line that asks: each is imported once more for it."""
    found: dict[str, set[re.Pattern[Any]]] = defaultdict(set)
    real, before = re.compile, dict(sys.modules)

    def noted(pattern: Any, flags: int = 0) -> re.Pattern[Any]:
        made = real(pattern, flags)
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(str(ROOT)):
            file = Path(frame.f_code.co_filename).relative_to(ROOT).as_posix()
            found[str(Place(file, frame.f_lineno))].add(made)
            frame = frame.f_back  # type: ignore[assignment]
        return made

    re.compile = noted  # type: ignore[assignment]
    try:
        for file in _files():
            if "re.compile" in (ROOT / file).read_text() and not any(part in f"/{file}" for part in NOT_IMPORTED):
                _executed(file)
    finally:
        re.compile = real
        sys.modules.update(before)
    return found


def _executed(file: str) -> None:
    """The module's code in a namespace of its own, so that nothing that is there already changes."""
    name = file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    module = importlib.import_module(name)
    if "models" in name:
        return
    code = compile((ROOT / file).read_text(), str(ROOT / file), "exec")
    kept = {key: getattr(module, key) for key in ("__name__", "__package__", "__file__", "__spec__", "__doc__")}
    exec(code, {**kept, "__builtins__": __builtins__})  # noqa: S102


@lru_cache
def methods() -> dict[str, set[str]]:
    """By the place of a use, how its pattern is asked: `search` stands for whatever may begin anywhere."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in _files():
        text = (ROOT / file).read_text()
        assigned = {
            node.value.lineno: target.id
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        chained = {
            node.func.value.lineno: {node.func.attr}
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Call)
        }
        for call in _calls(file):
            name = call.func.attr  # type: ignore[attr-defined]
            if name == "compile" and call.lineno in assigned:
                asked = set(re.findall(rf"\b{assigned[call.lineno]}\.(\w+)\(", text)) or {"search"}
            else:
                asked = {"search" if name == "compile" else name}
            if name == "compile":
                asked = chained.get(call.lineno, asked)
            found[str(Place(file, call.lineno))] |= {
                item if item in ("match", "fullmatch") else "search" for item in asked
            }
    return found


def _of_django() -> dict[str, set[re.Pattern[Any]]]:
    found: dict[str, set[re.Pattern[Any]]] = {"routes": set(_routes(get_resolver().url_patterns)), "validators": set()}
    for model in apps.get_models():
        for field in model._meta.get_fields():
            for validator in getattr(field, "validators", ()):
                if isinstance(validator, RegexValidator):
                    found["validators"].add(re.compile(validator.regex))
    return found


def _routes(patterns: list[Any]) -> Iterator[re.Pattern[str]]:
    for item in patterns:
        if item.pattern.regex.pattern not in KNOWN:
            yield re.compile(item.pattern.regex)
        if isinstance(item, URLResolver):
            yield from _routes(item.url_patterns)
        else:
            assert isinstance(item, URLPattern)


def hostile(pattern: re.Pattern[Any], size: int) -> Iterator[Any]:
    """Texts of `size` characters: every part of the pattern again and again, and what reaches each repeat of it."""
    for whole in pumped(_tree(pattern), size):
        yield whole.encode("latin-1") if isinstance(pattern.pattern, bytes) else whole
    parts = _parts(pattern)
    texts = dict.fromkeys(parts)
    texts |= dict.fromkeys(first + second for first in parts[:5] for second in parts[:5])
    for text in texts:
        for start in ("", *parts[:1]):
            whole = (start + text * (size // len(text) + 1))[:size]
            yield whole.encode() if isinstance(pattern.pattern, bytes) else whole


def _parts(pattern: re.Pattern[Any]) -> list[str]:
    """Its runs of literals, a character of each of its classes, and what separates lines and words."""
    runs, single = _taken_apart(_tree(pattern))
    return list(dict.fromkeys([*sorted(set(runs), key=len)[:10], *sorted(set(single))[:10], "a", " ", "\n", "0"]))


def _tree(pattern: re.Pattern[Any]) -> Any:
    text = pattern.pattern.decode("latin-1") if isinstance(pattern.pattern, bytes) else pattern.pattern
    return parser.parse(text, pattern.flags & ~re.UNICODE & ~re.LOCALE)


_CLASSES = {
    ops.CATEGORY_SPACE: " ",
    ops.CATEGORY_NOT_SPACE: "x",
    ops.CATEGORY_DIGIT: "7",
    ops.CATEGORY_NOT_DIGIT: "x",
    ops.CATEGORY_WORD: "w",
    ops.CATEGORY_NOT_WORD: "-",
}


def _taken_apart(node: Any) -> tuple[list[str], list[str]]:
    runs, single, run = [], [], ""
    for op, value in node:
        if op is ops.LITERAL:
            run += chr(value)
            single.append(chr(value))
            continue
        runs, run = [*runs, run] if run else runs, ""
        if op is ops.IN:
            single += _of_class(value)
        else:
            for inner in _inner(value):
                more_runs, more = _taken_apart(inner)
                runs, single = runs + more_runs, single + more
    return [*runs, run] if run else runs, single


def _inner(value: Any) -> Iterator[Any]:
    if isinstance(value, parser.SubPattern):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _inner(item)


def _of_class(items: Any) -> list[str]:
    found = []
    for op, value in items:
        if op is ops.LITERAL:
            found.append(chr(value))
        elif op is ops.RANGE:
            found.append(chr(value[0]))
        elif op is ops.CATEGORY:
            found.append(_CLASSES.get(value, "x"))
    return found
