"""Where in the author's file a call draws at random or writes to its inputs, for refusals that name the line.

Not covered: what an author does without torch.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

AUTHORS_FILES = ("task.py", "reference.py", "utils.py")


class LineWatch(TorchDispatchMode):  # type: ignore[misc] # torch's types are not followed
    """`with LineWatch(inputs) as watch: function(*inputs)`; the lines are those where it happened first."""

    def __init__(self, inputs: Sequence[Any] = ()) -> None:
        super().__init__()
        self._memory = {item.untyped_storage().data_ptr() for item in inputs if isinstance(item, Tensor)}
        self.random: int | None = None
        self.written: int | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if self.random is None and torch.Tag.nondeterministic_seeded in func.tags:
            self.random = author_line()
        if self.written is None and any(
            item.untyped_storage().data_ptr() in self._memory for item in _to(func, args, named)
        ):
            self.written = author_line()
        return func(*args, **named)


def _to(func: Any, args: Sequence[Any], named: Mapping[str, Any]) -> Iterator[Tensor]:
    """The tensors that `func` writes to."""
    for place, described in enumerate(func._schema.arguments):
        if described.alias_info is not None and described.alias_info.is_write:
            value = args[place] if place < len(args) else named.get(described.name)
            if isinstance(value, Tensor):
                yield value


def author_line() -> int:
    """The line of the author's file that is running; 0 where none is."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not frame.f_code.co_filename.endswith(AUTHORS_FILES):
        frame = frame.f_back
    return frame.f_lineno if frame is not None else 0


def at_line(line: int | None) -> str:
    return f" (line {line})" if line else ""
