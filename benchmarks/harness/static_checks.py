"""What can be said of a source before it costs a compilation: wrong language, missing function, and remarks.

Not covered: whether the code compiles, and any defence; the remarks (`remarks.py`) are hints.
"""

import ast
import re
from dataclasses import dataclass

from .remarks import blank, remarks
from .report import Flag
from .rules import RuleSet
from .source import LANGUAGES, PYTHON, Source
from .spec import TaskSpec

_CUDA = re.compile(r"\b__global__\b|<<<|#\s*include\s*<cuda|\b__device__\b")
_C = re.compile(r"^[ \t]*#[ \t]*include\b|\bPYBIND11_MODULE\b|\b__global__\b", re.MULTILINE)
_PYTHON = re.compile(r"^[ \t]*(?:import \w+|from \w+ import|def \w+\(|@triton\.jit)", re.MULTILINE)
_MODULE = re.compile(r"\bPYBIND11_MODULE\s*\(")


@dataclass(frozen=True)
class StaticCheck:
    """`problem` ends the evaluation as REJECTED; flags are shown with it."""

    problem: str | None
    flags: tuple[Flag, ...] = ()


def check_source(source: Source, task: TaskSpec, rules: RuleSet) -> StaticCheck:
    """Looks at the text alone; takes milliseconds."""
    problem = _problem(source, task, rules)
    return StaticCheck(problem, () if problem else tuple(remarks(source.text, source.language)))


def _problem(source: Source, task: TaskSpec, rules: RuleSet) -> str | None:
    size_bytes = len(source.text.encode(errors="replace"))
    if source.language not in LANGUAGES:
        return f"the language {source.language!r} is not known here; known: {', '.join(LANGUAGES)}"
    if not source.text.strip():
        return "the source is empty"
    if size_bytes > rules.source.max_bytes:
        return f"the source has {size_bytes} bytes, the rules allow {rules.source.max_bytes}"
    if any(ord(char) < 32 and char not in "\t\n\r\f\v" for char in source.text) or "\ufffd" in source.text:
        return "the source is not text: it contains control characters or bytes that are no UTF-8"
    if source.language in ("triton", PYTHON):
        return (_wrong_triton if source.language == "triton" else _wrong_module)(source.text, task)
    return _wrong_c(source, blank(source.text)) or _no_module(source.text, task)


def _wrong_c(source: Source, code: str) -> str | None:
    if source.language == "cpp" and _CUDA.search(code):
        return "this looks like CUDA, which is judged on a GPU; the language here is C++"
    if _PYTHON.search(code) and "#include" not in code:
        return f"this looks like Python; the language here is {'C++' if source.language == 'cpp' else 'CUDA'}"
    return None


def _no_module(text: str, task: TaskSpec) -> str | None:
    if not _MODULE.search(blank(text)):
        return "there is no PYBIND11_MODULE: the source must be a torch extension, see the starter code"
    if task.direction not in text:
        return f"nothing here is called {task.direction!r}, which the module must export"
    return None


def _wrong_triton(text: str, task: TaskSpec) -> str | None:
    module = _parsed(text)
    if module is None:
        return "this looks like C++ or CUDA; the language here is Triton, in Python" if _looks_like_c(text) else None
    if not any(isinstance(item, ast.FunctionDef) and item.name == task.direction for item in module.body):
        return f"there is no function {task.direction!r} at the top level of the module, see the starter code"
    return None


def _wrong_module(text: str, task: TaskSpec) -> str | None:
    if not task.is_module:
        return f"this task has no module to replace; export {task.direction!r} in C++, CUDA or Triton"
    module = _parsed(text)
    if module is None:
        return "this looks like C++ or CUDA; the language here is Python" if _looks_like_c(text) else None
    if not any(isinstance(item, ast.ClassDef) and item.name == "ModelNew" for item in module.body):
        return "there is no class 'ModelNew' at the top level of the module, see the starter code"
    return None


def _parsed(text: str) -> ast.Module | None:
    """None for what does not parse: the compile stage tells the line, unless it is another language."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _looks_like_c(text: str) -> bool:
    return _C.search(text) is not None
