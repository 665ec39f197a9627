"""Launches recorded calls and times them: the trusted process of a GPU judging that holds device code and nothing else.

No host code of a submission is ever loaded here, nor torch. It maps inputs and results where the recorder had them,
loads the device code, and on request launches calls and times them. Not covered: what inputs and results hold
(the referee's) and what the records may say (the supervisor has checked them).
"""

import ctypes
import gc
import hashlib
import json
import os
import socket
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...protocol import Link, control_words
from .asleep import sleep_until_called
from .clock import Clock, Tampered
from .contexts import context_calls
from .driver import Driver, DriverError, pointer
from .launches import GraphNode, Program, program


def main(arguments: Sequence[str]) -> None:
    link = Link(socket.socket(fileno=int(arguments[0])))
    sleep_until_called(link, arguments)
    driver = Driver()
    driver.open()
    clock = Clock(driver)
    link.send(awake=True)
    message = link.receive()
    while "context" in message:
        link.send(**context_calls(driver, clock))
        message = link.receive()
    try:
        executor = Executor(driver, clock, message, link)
    except NotLoaded as error:
        link.send(not_replayable=str(error), config=error.config)
        return
    except DriverError as error:
        link.send(not_replayable=str(error))
        return
    gc.collect()
    gc.disable()
    link.send(serving=True)
    while True:
        request = link.receive()
        if "burn_s" in request:
            link.send(**executor.burn(request["config"], request["sets"], request["burn_s"]))
        else:
            link.send(**executor.run(request["config"], request["sets"], request["step"]))


class NotLoaded(Exception):
    """The calls of a configuration cannot be launched."""

    def __init__(self, config: int, text: str) -> None:
        super().__init__(text)
        self.config = config


class Executor:
    def __init__(self, driver: Driver, clock: Clock, message: dict[str, Any], link: Link) -> None:
        self._driver, self._clock = driver, clock
        driver.demand_own_memory()
        sizes, fds = link.receive_descriptors()
        *memory, page = fds
        for name, fd in zip(("inputs", "outputs"), memory, strict=True):
            driver.adopt(fd, sizes[f"{name[:-1]}_bytes"], message[f"{name}_at"], writable=name == "outputs")
            os.close(fd)
        clock.page = control_words(page)
        os.close(page)
        self._images: list[bytes] = []  # the driver may read them for as long as they are loaded
        self._kernels: dict[tuple[str, str], pointer] = {}  # by digest of the image, or "" for any, and name
        self._names: set[str] = set()  # that more than one image defines
        folder = Path(message["code"])
        for path in sorted(folder.glob("*.bin")):
            self._load(path.read_bytes())
        records = json.loads((folder / "records.json").read_text())
        self._programs = [self._programs_of(number, sets) for number, sets in enumerate(records)]

    def run(self, config: int, sets: Sequence[int], step: int) -> dict[str, Any]:
        """The calls of `sets`, back to back; without any it says what an empty call takes."""
        try:
            times = self._clock.measure([self._programs[config][number] for number in sets], step)
        except DriverError as error:
            return {"error": str(error)}
        except Tampered as error:
            return {"tampered": str(error)}
        return asdict(times)

    def burn(self, config: int, sets: Sequence[int], burn_s: float) -> dict[str, Any]:
        """The calls of `sets` again and again for so long."""
        try:
            calls, took_s = self._clock.burn([self._programs[config][number] for number in sets], burn_s)
        except DriverError as error:
            return {"error": str(error)}
        return {"calls": calls, "took_s": took_s}

    def _programs_of(self, config: int, sets: Sequence[Sequence[GraphNode]]) -> list[Program]:
        try:
            return [program(self._driver, self._clock.lanes, nodes, self._function_of) for nodes in sets]
        except DriverError as error:
            raise NotLoaded(config, str(error)) from error

    def _function_of(self, node: GraphNode) -> pointer:
        key = (node["code"], node["name"])
        if not node["code"] and node["name"] in self._names:
            raise DriverError(f"several kernels are called {node['name']}")
        if key not in self._kernels:
            raise DriverError(f"the device code of {node['name']} was not found: it is a kernel of a library")
        return self._kernels[key]

    def _load(self, image: bytes) -> None:
        library, count, driver = pointer(), ctypes.c_uint(), self._driver
        self._images.append(image)
        nothing, none = pointer(None), ctypes.c_uint(0)
        options = (nothing, nothing, none, nothing, nothing, none)
        driver.call("cuLibraryLoadData", ctypes.byref(library), ctypes.c_char_p(image), *options)
        driver.call("cuLibraryGetKernelCount", ctypes.byref(count), library)
        kernels = (pointer * count.value)()
        driver.call("cuLibraryEnumerateKernels", kernels, count, library)
        digest = hashlib.sha256(image).hexdigest()
        for kernel in kernels:
            function = pointer()
            name = driver.text("cuKernelGetName", pointer(kernel))
            driver.call("cuKernelGetFunction", ctypes.byref(function), pointer(kernel))
            if ("", name) in self._kernels:
                self._names.add(name)
            self._kernels["", name] = self._kernels[digest, name] = function
