"""Checks a source before it is compiled: wrong language, missing function, and remarks.

The checks run in the site's own process for any visitor, so they take linear time and scan the text without parsing
it. Not covered: whether the code compiles, and any defence; the remarks (`remarks.py`) are hints.
"""

import re
from dataclasses import dataclass

from ..languages import LANGUAGES, defines, is_python
from ..report import Flag
from ..rules import Rules
from ..source import Source
from ..tasks.spec import TaskSpec
from .remarks import blank, remarks

_CUDA = re.compile(r"__(?:global|device)__\b|<<<|#[ \t]*include[ \t]*<cuda")
_C = re.compile(r"#[ \t]*include\b|PYBIND11_MODULE\b|__global__\b")
_PYTHON = re.compile(
    r"(?:import(?<![^\n \t]import) \w|from(?<![^\n \t]from) \w+ import|def(?<![^\n \t]def) \w+\(|@triton\.jit)"
)
_MODULE = re.compile(r"PYBIND11_MODULE\s*\(")
_FUNCTIONS = re.compile(r"^def[ \t]+(\w+)[ \t]*\(", re.MULTILINE)
_CLASSES = re.compile(r"^class[ \t]+(\w+)", re.MULTILINE)
# as Python looks for it, in two lines
_ENCODING = re.compile(r"\ufeff?[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", re.ASCII)
_NO_CODE = re.compile(r"\ufeff?[ \t\f]*(?:#.*)?")
_UTF_8 = ("utf-8", "utf8", "utf-8-sig")
_NO_TEXT = re.compile("[\x00-\x08\x0e-\x1f\ufffd\ud800-\udfff]")
# Languages disagree whether these end a line, so readers see another one
_NO_LAYOUT = re.compile("[\x0b\x0c\x85\u2028\u2029]|\r(?!\n)")
_LAYOUT_NAMES = {
    "\r": "a carriage return without a line feed",
    "\v": "a vertical tab",
    "\f": "a form feed",
    "\x85": "the character U+0085",
    "\u2028": "the character U+2028",
    "\u2029": "the character U+2029",
}


@dataclass(frozen=True)
class StaticCheck:
    """`problem` ends the evaluation as REJECTED; flags are shown with it."""

    problem: str | None
    flags: tuple[Flag, ...] = ()


def check_source(source: Source, task: TaskSpec, rules: Rules) -> StaticCheck:
    """Checks the text only; takes milliseconds."""
    problem = _problem(source, task, rules)
    return StaticCheck(problem, () if problem else tuple(remarks(source.text, source.language)))


def _problem(source: Source, task: TaskSpec, rules: Rules) -> str | None:
    size_bytes = len(source.text.encode(errors="replace"))
    if source.language not in LANGUAGES:
        return f"the language {source.language!r} is not known here; known: {', '.join(LANGUAGES)}"
    if not source.text.strip():
        return "the source is empty"
    if size_bytes > rules.source.max_bytes:
        return f"the source has {size_bytes} bytes, the rules allow {rules.source.max_bytes}"
    if _NO_TEXT.search(source.text):
        return "the source is not text: it contains control characters or bytes that are not UTF-8"
    if found := _NO_LAYOUT.search(source.text):
        line = source.text.count("\n", 0, found.start()) + 1
        what = _LAYOUT_NAMES[found[0]]
        return f"line {line} contains {what}; end lines with a line feed and separate words with spaces or tabs"
    return _wrong(source, blank(source.text, source.language), task)


def _is_read_as_text(text: str) -> bool:
    """Whether tools that read the file, such as `inspect`, see the same text: no line is hidden in a comment."""
    first, _, rest = text.partition("\n")
    second = rest.partition("\n")[0]
    named = _ENCODING.match(first) or (_ENCODING.match(second) if _NO_CODE.fullmatch(first) else None)
    return named is None or named[1].lower().replace("_", "-") in _UTF_8  # codecs would keep each name for ever


def _wrong(source: Source, code: str, task: TaskSpec) -> str | None:
    language = LANGUAGES[source.language]
    if is_python(language.name) and not _is_read_as_text(source.text):
        return "a comment in the first two lines names an encoding; sources are read as UTF-8, so leave it out"
    if language.is_module:
        return _wrong_module(source.text, code, task)
    if is_python(language.name):
        return _wrong_functions(source.text, code, task, language.title)
    return _wrong_c(source, code) or _no_module(source.text, code, task)


def _wrong_c(source: Source, code: str) -> str | None:
    if source.language == "cpp" and _CUDA.search(code):
        return "this looks like CUDA, which is judged on a GPU; the language here is C++"
    if _PYTHON.search(code) and "#include" not in code:
        return f"this looks like Python; the language here is {LANGUAGES[source.language].short_title}"
    return None


def _no_module(text: str, code: str, task: TaskSpec) -> str | None:
    if not _MODULE.search(code):
        return "there is no PYBIND11_MODULE: the source must be a torch extension, see the starter code"
    if task.direction not in text:
        return f"the source does not contain the name {task.direction!r}, which the module must export"
    return None


def _wrong_functions(text: str, code: str, task: TaskSpec, title: str) -> str | None:
    if task.direction in _FUNCTIONS.findall(code):
        return None
    if _C.search(text) and not _PYTHON.search(code):
        return f"this looks like C++ or CUDA; the language here is {title}, in Python"
    if task.takes_python and defines(code, task.entry):
        return f"this defines {task.entry or 'ModelNew'}; the language of such a file is {LANGUAGES['python'].title}"
    return f"there is no function {task.direction!r} at the top level of the module, see the starter code"


def _wrong_module(text: str, code: str, task: TaskSpec) -> str | None:
    if not task.takes_python:
        return f"this task has no module to replace; export {task.direction!r} in C++, CUDA or a language for kernels"
    if task.entry in _FUNCTIONS.findall(code) if task.entry else "ModelNew" in _CLASSES.findall(code):
        return None
    if _C.search(text) and not _PYTHON.search(code):
        return "this looks like C++ or CUDA; the language here is Python"
    wanted = f"function {task.entry!r}" if task.entry else "class 'ModelNew'"
    return f"there is no {wanted} at the top level of the module, see the starter code"
