"""CUDA C++ to C++: launches, inline assembly, dynamic shared memory and includes, line for line.

Everything else that CUDA adds to C++ is a macro, a type or a function of the headers beside this file. What cannot be
expressed raises NotTranslated with its line. Not covered: whether the text is right, which the compiler says.
"""

import json
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

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
_CLUSTER = re.compile(
    r"\b__cluster_dims__\s*\(([^()]{1,80})\)\s*(?:__launch_bounds__\s*\([^()]{1,80}\)\s*)?(?:void\s+)?"
    r"(?:__launch_bounds__\s*\([^()]{1,80}\)\s*)?(\w+)\s*\("
)
_BOUNDS = re.compile(
    r"\b__launch_bounds__\s*\(\s*(\d{1,5}|[A-Za-z_]\w{0,80})\s*(?:,[^()]{1,80})?\)\s*(?:void\s+)?(\w+)\s*\("
)
_KERNEL = re.compile(r"\bvoid\s+(?:__launch_bounds__\s*\([^()]{1,80}\)\s*)?(\w+)\s*\(")
_CONSTANT = re.compile(
    r"^(?:(?:(?:static|inline)\s+)?constexpr\s+(?:int|unsigned|size_t|auto)\s+(\w+)\s*=|#define\s+(\w+)\s)",
    re.MULTILINE,
)
_BY_POINTER = re.compile(r"\bcudaLaunch(?:Cooperative)?Kernel(?:Ex|ExC)?\b")
_UNTYPED = re.compile(
    r"(\bcudaLaunch(?:Cooperative)?Kernel\s*\(\s*)(?:\(\s*(?:const\s+)?void\s*\*\s*\)|reinterpret_cast\s*<\s*(?:const\s+)?void\s*\*\s*>)"
)
_UNKNOWN = re.compile(
    r"\b(?:(cudaTextureObject_t|cudaSurfaceObject_t|tex[123]D\w{0,40}|texture(?=\s*<))|(cudaGraph(?:_t|Exec_t|Create|Launch)))\b"
)
_SHARED_ALIGNED = re.compile(r"(\b__shared__\s+)alignas\s*\(")


class NotTranslated(Exception):
    """Something that the emulator does not model, with its line."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(text)
        self.text, self.line = text, line


class OutOfTime(Exception):
    """The translation was given up."""


def translated(source: str, given_up: Callable[[], bool] = lambda: False) -> str:
    """`source` as C++ with the same lines, in one pass per step. Raises NotTranslated.

    `given_up` is asked at every step and every replacement; OutOfTime follows.
    """
    text = source.replace("\r\n", "\n")
    if unknown := _UNKNOWN.search(_blank(text)):
        what = "a texture" if unknown[1] else "a graph"
        raise NotTranslated(f"{what} is not modelled: {unknown[0]}", text.count("\n", 0, unknown.start()) + 1)
    for step in (_includes, _assembly, _dynamic_shared, _launches):
        text = "".join(_until(given_up, step(text)))
    return _UNTYPED.sub(r"\1", _SHARED_ALIGNED.sub(r"\1__align__(", text))


def _until(given_up: Callable[[], bool], pieces: Iterable[str]) -> Iterator[str]:
    for piece in pieces:
        if given_up():
            raise OutOfTime
        yield piece


class _Lines:
    """The numbers of lines, looked up instead of counted."""

    def __init__(self, text: str) -> None:
        self._ends = [found.start() for found in re.finditer(r"\n", text)]

    def at(self, place: int) -> int:
        return bisect_left(self._ends, place) + 1


def _blank(text: str) -> str:
    """`text` with spaces for comments and the inside of literals, so that places stay the same."""
    return _BLANKED.sub(_spaces, text)


def _spaces(found: re.Match[str]) -> str:
    kept = re.sub(r"[^\n]", " ", found.group())
    return f'"{kept[1:-1]}"' if found.group()[0] == '"' else kept


def _includes(text: str) -> Iterator[str]:
    """Without the headers that the emulator has of its own."""
    lines, done = _Lines(text), 0
    for found in _INCLUDE.finditer(text):
        name = found[1].strip()
        if _HAVE.match(name):
            yield text[done : found.start()]
            done = found.end()
        elif _LIBRARY.match(name):
            raise NotTranslated(f"the library {name} is not modelled", lines.at(found.start()))
        elif found.group().count('"') >= 2:
            raise NotTranslated(f"the file {name} is not part of the submission", lines.at(found.start()))
    yield text[done:]


def _dynamic_shared(text: str) -> Iterator[str]:
    """Arrays of dynamic shared memory become pointers to where the runtime has it."""
    done = 0
    for found in _DYNAMIC.finditer(_blank(text)):
        kind, name = " ".join(_ALIGNMENT.sub(" ", found[1]).split()), found[2]
        made = f"{kind}* const {name} = reinterpret_cast<{kind}*>(kbench::dynamic_shared());"
        yield text[done : found.start()] + made + "\n" * found.group().count("\n")
        done = found.end()
    yield text[done:]


def _assembly(text: str) -> Iterator[str]:
    """`asm("..." : outputs : inputs : clobbers)` becomes a call of the interpreter."""
    code, lines, done = _blank(text), _Lines(text), 0
    for found in _ASM.finditer(code):
        number, closing = lines.at(found.start()), _partner(code, found.end() - 1)
        if closing is None:
            raise NotTranslated("an asm statement has no end", number)
        if found.start() < done:
            raise NotTranslated("an asm statement is inside another one", number)
        parts = [text[a:b] for a, b in _between(code, found.end(), closing, ":")]
        parts += [""] * (3 - len(parts))
        made = f"kbench::ptx({number}, {parts[0].strip() or _EMPTY}, {{{parts[1]}}}, {{{parts[2]}}})"
        lost = text.count("\n", found.start(), closing) - made.count("\n")
        yield _operands(text[done : found.start()]) + _operands(made) + "\n" * lost
        done = closing + 1
    yield _operands(text[done:])


def _operands(text: str) -> str:
    return _CONSTRAINT.sub(lambda item: f'kbench::operand("{item[1]}", ', text)


_EMPTY = '""'


def _launches(text: str) -> Iterator[str]:
    """`kernel<T><<<grid, block, bytes, stream>>>(arguments)`, where the kernel may be a template that is deduced."""
    code, lines, done, opening = _blank(text), _Lines(text), 0, -3
    clusters = {found[2]: found[1] for found in _CLUSTER.finditer(code)}
    bounds = _bounds(code)
    if clusters and (pointer := _BY_POINTER.search(code)):
        raise NotTranslated(
            "a kernel with __cluster_dims__ may be launched through a pointer", lines.at(pointer.start())
        )
    while (opening := code.find("<<<", opening + 3)) >= 0:
        if opening < done or not _is_launch(code, opening):
            continue
        closing = _end_of_launch(code, opening + 3)
        if closing is None:
            raise NotTranslated("a launch has no >>>", lines.at(opening))
        start = _start_of_kernel(code, done, opening)
        kernel = " ".join(text[start:opening].split())
        config = text[opening + 3 : closing]
        call = f"kbench::Launcher({json.dumps(kernel[:160])}, {lines.at(opening)}, {config})"
        if name := re.match(r"(?:\w+::)*(\w+)", kernel):
            call += f".clustered({clusters[name[1]]})" if name[1] in clusters else ""
            bound = bounds.get(name[1], "")
            call += f".bounded({bound})" if bound.isdigit() or (bound and "::" not in name[0]) else ""
        lost = "\n" * text.count("\n", start, opening)
        yield f"{text[done:start]}{call}.of([=](auto... kb_a) {{ {kernel}(kb_a...); }}){lost}"
        done = closing + 3
    yield text[done:]


def _bounds(code: str) -> dict[str, str]:
    """By kernel the most threads of a block, where a number says so, or a constant that every launch can see."""
    constants = {name for names in _CONSTANT.findall(code) for name in names}
    all_of_name = Counter(_KERNEL.findall(code))  # another one of this name may have another bound, or none
    return {
        kernel: bound
        for bound, kernel in _BOUNDS.findall(code)
        if all_of_name[kernel] == 1 and (bound.isdigit() or bound in constants)
    }


def _is_launch(code: str, place: int) -> bool:
    before = code[max(0, place - 80) : place].rstrip()[-1:]
    return before.isalnum() or before in ("_", ">", ")")


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


def _start_of_kernel(code: str, first: int, end: int) -> int:
    """Where the expression before the launch at `end` begins, not before `first`, where the launch before it ends."""
    place = _without_spaces(code, first, end)
    if place > first and code[place - 1] == ">":
        place = _without_spaces(code, first, _open_angle(code, first, place - 1))
    elif place > first and code[place - 1] == ")":
        depth = 0
        for at in range(place - 1, first - 1, -1):
            depth += (code[at] == ")") - (code[at] == "(")
            if depth == 0:
                return at
        return first
    while place > first and (code[place - 1].isalnum() or code[place - 1] in "_:"):
        place -= 1
    return place


def _without_spaces(code: str, first: int, end: int) -> int:
    while end > first and code[end - 1].isspace():
        end -= 1
    return end


def _open_angle(code: str, first: int, closing: int) -> int:
    """The place of the `<` that `closing` ends; parentheses inside may hold comparisons."""
    depth, inner = 0, 0
    for place in range(closing, first - 1, -1):
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
