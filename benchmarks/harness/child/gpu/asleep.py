"""A process that is started in advance loads its libraries and leaves the GPU alone while others are timed."""

from collections.abc import Sequence

from ...protocol import Link


def sleep_until_called(link: Link, arguments: Sequence[str]) -> None:
    if "asleep" in arguments:
        link.receive()
