"""The judged process writes down its calls instead of timing them: one capture for each input set of a configuration.

Everything said here is the submission's word; the supervisor reads it with suspicion (`gpu/record.py`), and what is
launched, compared and timed later is what it says. Not covered: calls that are timed by this process (`shell.py`).
"""

import base64
import gc
import hashlib
import json
import sys
from collections.abc import Sequence
from typing import Any

from ...protocol import Link
from ..shell import Call, Function
from .accelerator import Accelerator, Arena
from .capture import Capture, NotCaptured
from .driver import Driver
from .loaded import LoadedCode
from .shell import results_in_form

_PIECE_CHARACTERS = 48_000


class Recorder:
    """Answers until it is told to serve calls in the other way."""

    def __init__(
        self,
        functions: Sequence[Function],
        calls: Sequence[Call],
        arena: Arena,
        device: Accelerator,
        link: Link,
        *,
        agreed: bool,
        loaded: LoadedCode | None = None,
    ) -> None:
        """`agreed`: the shared memory lies where the executors will have it. `loaded`: where device code is seen."""
        self._agreed, self._loaded = agreed, loaded
        self._used: set[str] = set()  # digests of the images that recorded kernels come from
        self._functions, self._calls, self._arena, self._device, self._link = functions, calls, arena, device, link
        self._capture: Capture | None = None

    def serve(self) -> None:
        while True:
            request = self._link.receive()
            self._device.give_back_cached()  # configurations together may need more than the arena holds
            if "serve" in request:
                if self._loaded is not None:
                    self._loaded.end()
                return
            try:
                if "warm" in request:
                    self._warm(request["warm"])
                    self._link.send(warmed=True)
                elif "code" in request:
                    self._send(self._code())
                else:
                    self._send(self._record(request["record"]))
            except NotCaptured as error:
                self._link.send(not_recorded=str(error)[:600])
            except Exception as error:  # noqa: BLE001 - process edge: whatever the submission raised is the answer
                self._link.send(not_recorded=f"the call raised {type(error).__name__}: {error}"[:600])

    def _warm(self, config: int) -> None:
        """A call that is not captured loads code, sets attributes and makes what is made only once."""
        if self._device.device.type != "cuda":
            raise NotCaptured("nothing can be recorded on a stand-in for a GPU")
        if not self._agreed:
            raise NotCaptured("the driver did not map the shared memory where it was asked to")
        results = self._functions[config](*self._calls[config].sets[0])
        self._device.synchronize()
        self._places(results, self._calls[config])

    def _record(self, config: int) -> list[dict[str, Any]]:
        self._capture = self._capture or Capture(Driver())
        call, codes, kept, found = self._calls[config], _triton_codes(), [], []
        for arguments in call.sets:
            nodes, results = self._capture.record(self._functions[config], arguments)
            kept.append(results)  # until all sets are recorded, so that the results of each have a place of their own
            for node in nodes:
                if "function" in node:
                    node["code"] = self._code_of(node.pop("function"), codes)
            found.append({"nodes": nodes, "places": self._places(results, call)})
        return found

    def _code_of(self, function: int, codes: dict[int, str]) -> str:
        if function in codes or self._loaded is None:
            return codes.get(function, "")
        digest = self._loaded.digest_of(function)
        self._used |= {digest} if digest else set()
        return digest

    def _code(self) -> dict[str, Any]:
        """The images that recorded kernels come from, and whether none can be seen."""
        if self._loaded is None:
            return {"images": [], "unseen": False}
        images = [base64.b64encode(image).decode() for image in self._loaded.images(self._used)]
        return {"images": images, "unseen": bool(self._loaded.unknown)}

    def _places(self, results: Any, call: Call) -> list[int]:
        try:
            tensors = results_in_form(results, call.outputs)
        except ValueError as error:
            raise NotCaptured(str(error)) from error
        places = [self._arena.place_of(item) for item in tensors]
        if None in places:
            raise NotCaptured("a result lies in memory that torch did not allocate, or is not contiguous")
        return [place for place in places if place is not None]

    def _send(self, record: Any) -> None:
        """In pieces, as a message is limited."""
        text = json.dumps(record, separators=(",", ":"))
        for start in range(0, len(text), _PIECE_CHARACTERS):
            self._link.send(piece=text[start : start + _PIECE_CHARACTERS])
        self._link.send(recorded=True)


def _triton_codes() -> dict[int, str]:
    """Which compiled kernel of Triton's cache a function handle stands for: specialisations share a name."""
    compiler = sys.modules.get("triton.compiler.compiler")
    if compiler is None:
        return {}
    found = {}
    for item in gc.get_objects():
        if type(item) is compiler.CompiledKernel and isinstance(item.asm.get("cubin"), bytes):
            found[int(item.function or 0)] = hashlib.sha256(item.asm["cubin"]).hexdigest()
    return found
