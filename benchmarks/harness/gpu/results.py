"""What the referee measured of a call that the contestant's own process made, as the result of the call."""

from typing import Any

from ..measuring.contestants import Actor, CallResult
from ..protocol import Status


def result_of(answer: dict[str, Any], actor: Actor) -> CallResult:
    """`answer` is the referee's; what the contestant says of itself is in it, and may be anything."""
    try:
        status = Status(answer["status"])
    except ValueError:
        return CallResult(None, text="the process answered with an unknown status")
    message = {} if status is Status.OK else actor.pending_message()
    return CallResult(
        status=status,
        wall_us=answer["wall_us"],
        resume_us=answer["resume_us"],
        text=str(message.get("text", "")),
        error=str(message.get("error", "")),
        early=answer["early"],
        foreign=not answer["inside"],
        event_us=answer["event_us"],
        tail_us=answer["tail_us"],
        flush_us=answer["flush_us"],
        gate_us=answer["gate_us"],
        copied=answer["copied"],
        throttled=tuple(answer["throttle"]),
    )
