"""Python submissions with a `ModelNew`: the module, and the extensions that it wants compiled from strings.

The top level of the module runs in the sandbox of the compile stage with a stand-in for `load_inline`, which notes
what is asked for; each extension is then built as any C++ or CUDA submission is, with the flags of the rules. The
result is a folder that no sandbox could write. Not covered: Triton, which compiles when a kernel is first called.
"""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors import SupervisorError
from ..rules import Rules
from ..sandbox import groups
from ..sandbox.isolation import child_code, python_argv
from ..sandbox.outbox import AnswerFile, NotTaken
from ..source import Source
from .gxx import Gxx
from .nvcc import Nvcc
from .python_syntax import limits_of_a_build, syntax_problem
from .toolchain import MODULE, Compilation, KernelResources, Workshop, digest

BUNDLE = f"{MODULE}.model"
ENTRY, EXTENSIONS = "module.py", "extensions.json"
_EXTENSIONS_MAX = 8
_ASKS = re.compile(r"\bload_inline\b")
_DEFINE = re.compile(r"-D(\w+)(?:=(.*))?")
_NAME = re.compile(r"[A-Za-z_]\w{0,199}", re.ASCII)
_TEXTS = ("cpp", "cuda", "flags")
Request = dict[str, Any]  # name, functions, and the lists of texts


class PythonModule:
    """The toolchain of modules; `target` is the GPU that CUDA is compiled for, None on a CPU."""

    binary = BUNDLE

    def __init__(self, target: str | None) -> None:
        self._target = target

    def fingerprint(self, rules: Rules) -> tuple[str, ...]:
        cuda = _cuda_fingerprint(self._target, rules)
        mine = ("python", sys.version, limits_of_a_build(), self._target or "")
        return (*mine, *Gxx().fingerprint(rules), *cuda)

    def compile(self, source: Source, shop: Workshop) -> Compilation:
        bundle = shop.folder / BUNDLE
        bundle.mkdir()
        (bundle / ENTRY).write_text(source.text)
        problem = syntax_problem(source.text)
        if problem is not None:
            return Compilation(1, f"{ENTRY}:{problem.line}:{problem.column}: error: {problem.message}\n")
        if not _ASKS.search(source.text):
            return self._built([], shop)
        ran, requests = self._asked(source.text, shop)
        return ran if requests is None else self._built(requests, shop)

    def _asked(self, text: str, shop: Workshop) -> tuple[Compilation, list[Request] | None]:
        """The extensions that the module asks for, or None where the outcome says what is wrong with it."""
        shop.give({ENTRY: text})
        room = replace(shop.room(child_code()), python=True, system=True)
        with AnswerFile(4 * shop.rules.source.max_bytes) as answer:
            argv = python_argv("python.record_inline", f"{shop.given}/{ENTRY}", str(answer.fd))
            ran = shop.run(argv, room, fds=(answer.fd,), runs_text=True)
            if ran.exit_code != 0:  # it may have taken the machine's memory by itself, if no group tells
                return replace(ran, by_machine=ran.by_machine and groups.home() is not None), None
            try:
                return ran, requests_of(answer.read())
            except NotTaken as error:
                return replace(ran, exit_code=1, problem=f"what the module asks for cannot be read: {error}"), None

    def _built(self, requests: list[Request], shop: Workshop) -> Compilation:
        log, files = "", {}
        resources: list[KernelResources] = []
        for number, request in enumerate(requests):
            folder = shop.folder / f"extension{number}"
            folder.mkdir()
            outcome = self._extension(request, replace(shop, folder=folder))
            log += _remarks(request) + outcome.log
            if outcome.exit_code != 0:
                return replace(outcome, log=log)
            files[_key(request)] = f"extension{number}.so"
            resources.extend(outcome.resources)
            (folder / f"{MODULE}.so").rename(shop.folder / BUNDLE / f"extension{number}.so")
        (shop.folder / BUNDLE / EXTENSIONS).write_text(json.dumps(files))
        return Compilation(0, log, tuple(resources))

    def _extension(self, request: Mapping[str, Any], shop: Workshop) -> Compilation:
        if not request["cuda"]:
            return Gxx().compile(Source(extension_source(request), "cpp"), shop)
        if self._target is None:
            return Compilation(
                1, f"{ENTRY}:1:1: error: {request['name']} has CUDA sources, which the CPU does not run\n"
            )
        return Nvcc(self._target).compile(Source(extension_source(request), "cuda"), shop)


def extension_source(request: Mapping[str, Any]) -> str:
    """One file as `load_inline` would put it together; compilers count the lines of each string from one."""
    found = (_DEFINE.fullmatch(flag) for flag in request["flags"])
    defines = [f"#define {item[1]} {item[2] if item[2] is not None else 1}" for item in found if item]
    cuda = ["#include <cuda.h>", "#include <cuda_runtime.h>"] if request["cuda"] else []
    head = ["#include <torch/extension.h>", *cuda, *defines]
    sources = [(kind, text) for kind in ("cpp", "cuda") for text in request[kind]]
    body = [part for kind, text in sources for part in (f'#line 1 "{kind}_sources"', text)]
    names = [
        f"    m.def({json.dumps(name)}, &{name}, {json.dumps(text)});" for name, text in request["functions"].items()
    ]
    module = ['#line 1 "functions"', "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {", *names, "}"] if names else []
    return "\n".join([*head, *body, *module]) + "\n"


def requests_of(answer: bytes) -> list[Request]:
    """What the module asked for, each once. Raises NotTaken for anything but the form that it must have."""
    try:
        items = json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise NotTaken("it is not JSON") from error
    if not isinstance(items, list) or not all(map(_is_request, items)):
        raise NotTaken("it is not a list of requests")
    found = {_key(item): item for item in items}
    if len(found) > _EXTENSIONS_MAX:
        raise NotTaken(f"it asks for {len(found)} extensions, of which {_EXTENSIONS_MAX} are allowed")
    return list(found.values())


def _is_request(item: Any) -> bool:
    if not isinstance(item, dict) or set(item) != {"name", "functions", *_TEXTS}:
        return False
    functions, name = item["functions"], item["name"]
    if not isinstance(functions, dict) or not isinstance(name, str) or not name.isprintable() or len(name) > 100:
        return False
    if not all(isinstance(item[key], list) and all(map(_is_text, item[key])) for key in _TEXTS):
        return False
    return all(_NAME.fullmatch(key) and _is_text(text) for key, text in functions.items())


def _is_text(value: Any) -> bool:
    """Half of a surrogate pair, which JSON can contain, is not text."""
    return isinstance(value, str) and not any("\ud800" <= char <= "\udfff" for char in value)


def _key(request: Mapping[str, Any]) -> str:
    """As the candidate's stand-in computes it (`child/python/inline.py`)."""
    return digest(json.dumps(request, sort_keys=True))[:32]


def _remarks(request: Mapping[str, Any]) -> str:
    left_out = [flag for flag in request["flags"] if flag and not _DEFINE.fullmatch(flag)]
    text = f"{request['name']}: compiled with the flags of the rules; left out: {' '.join(left_out)}\n"
    return text if left_out else ""


def _cuda_fingerprint(target: str | None, rules: Rules) -> tuple[str, ...]:
    """Nothing on a CPU, nor where there is no CUDA compiler: modules without CUDA sources need none."""
    try:
        return Nvcc(target).fingerprint(rules) if target else ()
    except SupervisorError:
        return ()
