"""The languages that kernels may be written in: one record each, which the harness, the site and the CLI read.

Everything else about a language is in the module that needs it, under the language's name: toolchains in
`compilers/builds.py`, remarks in `compilers/remarks.py`, starter code in `tasks/starter.py`. Not covered: what a
source may contain (`compilers/static_checks.py`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from .errors import UsageError


@dataclass(frozen=True)
class Package:
    """What has to be installed, beside torch for CUDA, where a language is judged."""

    name: str  # in the registry
    module: str  # as it is imported


@dataclass(frozen=True)
class Language:
    """`syntax` is `c` or `python`. `is_module`: a class `ModelNew`, for tasks that are modules; others give functions.

    `suffixes` of its files, the first for those that we write. `example`: how an example kernel's file ends.
    `package`: what compiles its kernels while they run; torch for CUDA brings Triton.
    """

    name: str
    title: str
    short_title: str
    suffixes: tuple[str, ...]
    device_classes: tuple[str, ...]  # where it can be judged; the first where nobody says where
    syntax: str
    lexer: str  # its name in Pygments
    example: str | None = None
    is_module: bool = False
    package: Package | None = None

    @property
    def suffix(self) -> str:
        return self.suffixes[0]

    @property
    def launches_from_python(self) -> bool:
        """Python functions that launch device code, which a package compiles while they run."""
        return self.syntax == "python" and not self.is_module


_ON_GPU = ((".py",), ("cuda",), "python", "python")
_KNOWN = (
    Language("cpp", "C++", "C++", (".cpp", ".cc", ".cxx"), ("cpu",), "c", "cpp", "cpu.cpp"),
    Language("cuda", "CUDA C++", "CUDA", (".cu",), ("cuda",), "c", "cuda", "cuda.cu"),
    Language("triton", "Triton", "Triton", *_ON_GPU, example="triton.py"),
    # no examples, which a site judges by itself: its workers may lack the package
    Language("cute_dsl", "CuTe DSL", "CuTe DSL", *_ON_GPU, package=Package("nvidia-cutlass-dsl", "cutlass")),
    Language("tilelang", "TileLang", "TileLang", *_ON_GPU, package=Package("tilelang", "tilelang")),
    Language("helion", "Helion", "Helion", *_ON_GPU, package=Package("helion", "helion")),
    Language("numba_cuda", "Numba-CUDA", "Numba", *_ON_GPU, package=Package("numba-cuda", "numba.cuda")),
    Language("python", "PyTorch module", "Python", (".py",), ("cpu", "cuda"), "python", "python", is_module=True),
)
LANGUAGES: Mapping[str, Language] = MappingProxyType({language.name: language for language in _KNOWN})
# Languages share a suffix: it says the one that stands first, if the text does not say more.
LANGUAGE_OF_SUFFIX: Mapping[str, str] = MappingProxyType(
    {
        suffix: next(item.name for item in _KNOWN if suffix in item.suffixes)
        for language in _KNOWN
        for suffix in language.suffixes
    }
)
_IMPORT = re.compile(r"^(?:import|from)[ \t]+(\w{1,40})", re.MULTILINE)
_FUNCTION = re.compile(r"^def[ \t]+(\w{1,40})", re.MULTILINE)
_MODULE = re.compile(r"^class[ \t]+ModelNew\b", re.MULTILINE)
_ENTRIES = ("run", "custom_kernel")  # of tasks that take Python without a module


def language_of_file(name: str) -> str | None:
    """By its suffix; None where that says nothing."""
    return LANGUAGE_OF_SUFFIX.get(Path(name).suffix.lower())


def language_of_text(text: str) -> str | None:
    """What a Python file is by what it defines or imports; None where neither says it."""
    is_kernel = any(defines(text, name) for name in ("forward", "backward"))
    if not is_kernel and any(defines(text, entry) for entry in (None, *_ENTRIES)):
        return "python"
    imported = {found[1] for found in _IMPORT.finditer(text)}
    wanted = ((item.name, item.package.module.partition(".")[0]) for item in _KNOWN if item.package)
    return next((name for name, module in wanted if module in imported), None)


def defines(text: str, entry: str | None) -> bool:
    """Whether a Python file has the function `entry` at its top level, or for None the class `ModelNew`."""
    if entry is None:
        return _MODULE.search(text) is not None
    return any(found[1] == entry for found in _FUNCTION.finditer(text))


def is_python(language: str) -> bool:
    """Whether its texts are read as Python; all others, unknown ones too, as C."""
    return language in LANGUAGES and LANGUAGES[language].syntax == "python"


def read_alike(language: str) -> frozenset[str]:
    """The languages in which a text is the same program: Python functions that launch device code all run alike."""
    known = LANGUAGES.get(language)
    if known is None or not known.launches_from_python:
        return frozenset((language,))
    return frozenset(item.name for item in LANGUAGES.values() if item.launches_from_python)


def device_classes(language: str) -> tuple[str, ...]:
    """The classes of devices that `language` is judged on: `cpu`, `cuda`. Raises UsageError for an unknown one."""
    if language not in LANGUAGES:
        raise UsageError(f"the language {language!r} is not known here; known: {', '.join(LANGUAGES)}")
    return LANGUAGES[language].device_classes


def device_class(language: str) -> str:
    """The first of them, which is used if no device is named."""
    return device_classes(language)[0]
