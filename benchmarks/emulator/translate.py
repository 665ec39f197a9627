"""CUDA C++ to C++: launches, inline assembly, dynamic shared memory and includes, line for line.

Everything else that CUDA adds to C++ is a macro, a type or a function of the headers beside this file. What cannot be
expressed raises NotTranslated with its line. Not covered: whether the text is right, which the compiler says.
"""

import json
import re
from collections.abc import Iterator

_PAIRS = {"(": ")", "[": "]", "{": "}"}
_BLANKED = re.compile(
    r'//[^\n]*+|/\*.*?(?:\*/|\Z)|R"([^()\\\s]{0,16})\(.*?(?:\)\1"|\Z)|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?'
    r"|'(?:\\.|[^'\\\n]){1,12}'",
    re.DOTALL,
)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"\n]*)[>\"][^\n]*", re.MULTILINE)
_HAVE = re.compile(
    r"cuda(_runtime|_runtime_api|_fp16|_bf16|_pipeline|_pipeline_primitives|_profiler_api)?\.h(pp)?$|cuda/(pipeline|barrier)$"
    r"|cooperative_groups(/\w+)?\.h$|mma\.h$|math_constants\.h$|vector_types\.h$|vector_functions\.h$|device_launch_parameters\.h$"
    r"|device_functions\.h$|sm_\w+\.h(pp)?$|driver_types\.h$|builtin_types\.h$"
    r"|(torch|ATen|c10|pybind11)/|Python\.h$"
)
_LIBRARY = re.compile(r"(cub|thrust|cutlass|cute|cudnn|cusparse|cusolver|curand|cufft|nccl|cuda)")
_DYNAMIC = re.compile(
    r"\bextern\s+(?:__align__\s*\(\s*\w+\s*\)\s*|alignas\s*\(\s*\w+\s*\)\s*)?__shared__\b"
    r"((?:[^;{}()]|__align__\s*\(\s*\w+\s*\)|alignas\s*\(\s*\w+\s*\)){0,200}?)(\b\w+)\s*\[\s*\]\s*;"
)
_ALIGNMENT = re.compile(r"(?:__align__|alignas)\s*\(\s*\w+\s*\)")
_ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b(?:\s*\b(?:volatile|__volatile__|__volatile)\b)?\s*\(")
_CONSTRAINT = re.compile(r'"([=+]?&?[rlfhdnqb])"\s*\(')
_UNTYPED = re.compile(
    r"(\bcudaLaunch(?:Cooperative)?Kernel\s*\(\s*)(?:\(\s*(?:const\s+)?void\s*\*\s*\)|reinterpret_cast\s*<\s*(?:const\s+)?void\s*\*\s*>)"
)
_SHARED_ALIGNED = re.compile(r"(\b__shared__\s+)alignas\s*\(")
_KERNEL_START = re.compile(r"[\w:]+\s*$")


class NotTranslated(Exception):
    """Something that the emulator does not model, with its line."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(text)
        self.text, self.line = text, line


def translated(source: str) -> str:
    """`source` as C++ with the same lines. Raises NotTranslated."""
    text = source.replace("\r\n", "\n")
    for step in (_includes, _assembly, _dynamic_shared, _launches):
        text = step(text)
    return _UNTYPED.sub(r"\1", _SHARED_ALIGNED.sub(r"\1__align__(", text))


def _blank(text: str) -> str:
    """`text` with spaces for comments and the inside of literals, so that places stay the same."""
    return _BLANKED.sub(_spaces, text)


def _spaces(found: re.Match[str]) -> str:
    kept = re.sub(r"[^\n]", " ", found.group())
    return f'"{kept[1:-1]}"' if found.group()[0] == '"' else kept


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _includes(text: str) -> str:
    def replaced(found: re.Match[str]) -> str:
        name = found[1].strip()
        if _HAVE.match(name):
            return ""
        if _LIBRARY.match(name):
            raise NotTranslated(f"the library {name} is not modelled", _line(text, found.start()))
        if found.group().count('"') >= 2:
            raise NotTranslated(f"the file {name} is not part of the submission", _line(text, found.start()))
        return found.group()

    return _INCLUDE.sub(replaced, text)


def _dynamic_shared(text: str) -> str:
    """Arrays of dynamic shared memory become pointers to where the runtime has it."""
    code = _blank(text)
    for found in reversed(list(_DYNAMIC.finditer(code))):
        kind, name = " ".join(_ALIGNMENT.sub(" ", found[1]).split()), found[2]
        made = f"{kind}* const {name} = reinterpret_cast<{kind}*>(kbench::dynamic_shared());"
        text = text[: found.start()] + made + "\n" * found.group().count("\n") + text[found.end() :]
    return text


def _assembly(text: str) -> str:
    """`asm("..." : outputs : inputs : clobbers)` becomes a call of the interpreter."""
    code = _blank(text)
    for found in reversed(list(_ASM.finditer(code))):
        opening, closing = found.end() - 1, _partner(code, found.end() - 1)
        if closing is None:
            raise NotTranslated("an asm statement has no end", _line(text, found.start()))
        parts = [text[a:b] for a, b in _between(code, opening + 1, closing, ":")]
        parts += [""] * (3 - len(parts))
        number = _line(text, found.start())
        made = f"kbench::ptx({number}, {parts[0].strip() or _EMPTY}, {{{parts[1]}}}, {{{parts[2]}}})"
        lost = text.count("\n", found.start(), closing) - made.count("\n")
        text = text[: found.start()] + made + "\n" * lost + text[closing + 1 :]
        code = code[: found.start()] + " " * len(made) + "\n" * lost + code[closing + 1 :]
    return _CONSTRAINT.sub(lambda item: f'kbench::operand("{item[1]}", ', text)


_EMPTY = '""'


def _launches(text: str) -> str:
    """`kernel<T><<<grid, block, bytes, stream>>>(arguments)`, where the kernel may be a template that is deduced."""
    code = _blank(text)
    while True:
        opening = code.find("<<<")
        while opening >= 0 and not _is_launch(code, opening):
            opening = code.find("<<<", opening + 3)
        if opening < 0:
            return text
        closing = _end_of_launch(code, opening + 3)
        if closing is None:
            raise NotTranslated("a launch has no >>>", _line(text, opening))
        start = _start_of_kernel(code, opening)
        kernel = text[start:opening].strip()
        name = json.dumps(" ".join(kernel.split())[:160])
        config = text[opening + 3 : closing]
        lines = "\n" * text.count("\n", start, opening)
        call = f"kbench::Launcher({name}, {_line(text, opening)}, {config})"
        made = f"{call}.of([=](auto... kb_a) {{ {' '.join(kernel.split())}(kb_a...); }}){lines}"
        text = text[:start] + made + text[closing + 3 :]
        code = _blank(text)


def _is_launch(code: str, place: int) -> bool:
    return bool(re.search(r"[\w>)]\s*$", code[max(0, place - 80) : place]))


def _end_of_launch(code: str, start: int) -> int | None:
    depth = 0
    for place in range(start, len(code)):
        char = code[place]
        depth += (char in "([{") - (char in ")]}")
        if depth == 0 and code.startswith(">>>", place) and not code.startswith(">>>>", place):
            return place
        if char == ";" and depth <= 0:
            return None
    return None


def _start_of_kernel(code: str, end: int) -> int:
    place = len(code[:end].rstrip())
    if code[place - 1] == ">":
        place = _open_angle(code, place - 1)
    elif code[place - 1] == ")":
        depth = 0
        while place > 0:
            place -= 1
            depth += (code[place] == ")") - (code[place] == "(")
            if depth == 0:
                return place
    found = _KERNEL_START.search(code, max(0, place - 400), place)
    return found.start() if found else place


def _open_angle(code: str, closing: int) -> int:
    """The place of the `<` that `closing` ends; parentheses inside may hold comparisons."""
    depth, inner = 0, 0
    for place in range(closing, -1, -1):
        char = code[place]
        inner += (char in ")]}") - (char in "([{")
        if inner == 0 and char in "<>" and code[place - 1 : place + 1] != "->":
            depth += 1 if char == ">" else -1
            if depth == 0:
                return place
    return closing


def _partner(code: str, opening: int) -> int | None:
    first, depth = code[opening], 0
    for place in range(opening, len(code)):
        if code[place] == first:
            depth += 1
        elif code[place] == _PAIRS[first]:
            depth -= 1
            if depth == 0:
                return place
    return None


def _between(code: str, start: int, end: int, mark: str) -> Iterator[tuple[int, int]]:
    """The stretches between marks that stand in no bracket."""
    depth, begin = 0, start
    for place in range(start, end):
        char = code[place]
        depth += (char in "([{") - (char in ")]}")
        if char == mark and depth == 0:
            yield begin, place
            begin = place + 1
    yield begin, end
