"""The process that examines a foreign task: first what it is like, then whether the checker can judge it.

`python -m ... examiner SOCKET`. Between the two the process that asked checks the facts, makes the task of them and
writes it to a folder that is empty until then. It never runs a line of the author's file, which this process does.
"""

import faulthandler
from collections.abc import Sequence
from pathlib import Path

from ..shell import connect, set_threads, tried
from .examination import examined
from .place import place_of, with_aim
from .probe import describe


def main(arguments: Sequence[str]) -> None:
    link = connect(arguments)
    link.send(started=True)
    message = link.receive()
    set_threads(message["threads"])
    place = place_of(message)
    describe(message, link, place)
    message = link.receive()
    faulthandler.dump_traceback_later(message["traceback_s"])
    place.free()
    found = tried(examined, Path(message["folder"]), with_aim(place), compare_compiled=message["compare_compiled"])
    if isinstance(found, Exception):
        told = f"trying the checker on it failed: {type(found).__name__}: {found}"[:800]
        found = {"problem": place.no_memory(found) or told}
    link.send(**found)
