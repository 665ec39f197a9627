"""GPU memory that recorder and executors map at the same addresses, so that recorded calls find it there."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..measuring.contestants import Actor
from .record import MemorySpans, Span

INPUTS_AT, OUTPUTS_AT = 0x5000_0000_0000, 0x6000_0000_0000


@dataclass(frozen=True)
class Shared:
    """One region with the inputs, and one for the results of baseline and submission in each launch."""

    inputs_fd: int
    arena_fds: Sequence[int]  # of baseline and submission in each launch, one after the other
    input_bytes: int
    arena_bytes: Sequence[int]

    @property
    def memory(self) -> MemorySpans:
        return MemorySpans(Span(INPUTS_AT, self.input_bytes), Span(OUTPUTS_AT, self.arena_bytes[1]))

    def hand(self, actor: Actor, arena: int, *more_fds: int) -> None:
        """Passes the inputs and an arena to a process."""
        sizes = {"input_bytes": self.input_bytes, "output_bytes": self.arena_bytes[arena]}
        actor.link.send_descriptors([self.inputs_fd, self.arena_fds[arena], *more_fds], **sizes)
