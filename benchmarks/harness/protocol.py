"""The protocol between supervisor and children: JSON messages on a socket, words on a shared control page.

Shared by both sides, so it uses the standard library alone. A message is one packet, or several where it is longer (a
network has a thousand tensors of state), and has at most MESSAGE_MAX_BYTES; nothing is ever unpickled, and each text in
it is cleaned as it comes in. The control page carries one call: the supervisor announces a step, the child answers
READY, the supervisor rings GO with the number of the input set that counts, the child rings DONE.
"""

import ctypes
import json
import mmap
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

MESSAGE_MAX_BYTES = 4 << 20
_PACKET_BYTES = 128 << 10
_MORE, _END = b"+", b"."  # what the packets of a long message begin with; one alone is a JSON object
_DESCRIPTORS_MAX = 16
_SEND_S = 30.0  # so long a message may wait until the other side makes room for it
_LEVELS_MAX = 50  # of lists and objects in each other; what is said in earnest has fewer than ten
CONTROL_BYTES = 4096


class Word(IntEnum):
    """Places of 64-bit words on the control page; what different sides write lies in different cache lines.

    On a GPU it is the referee that rings GO and waits for DONE, on behalf of the supervisor, which may ring ABORT.
    """

    STEP = 0
    FUNCTION = 1
    CONFIG = 2
    COMPARED = 4  # GPU only: the results of this call will be looked at
    ABORT = 3  # GPU only: the child is gone, nobody needs to wait for it
    READY = 16
    GO = 32
    CHOICE = 33
    AIMED = 34  # GPU only: the referee waits for the end of a replayed call
    DONE = 48
    STATUS = 49
    EVENT_NS = 50  # GPU only: the time of the call as the child's device events claim it
    COPIED = 51  # GPU only: 1 if a result had to be copied into shared memory
    ENDED = 52  # GPU only: of a replayed call, its end has been seen,
    ENDED_NS = 53  # when that was, by the clock that all processes share,
    FOLLOWED = 54  # and the word behind it, so that the GPU should be idle
    LACKED = 55  # GPU only: how often a baseline has found no memory, also where a library went on with something else
    PLACES = 56  # GPU only: where in shared memory each result lies, in bytes


class Status(IntEnum):
    """How a call ended, as reported by the child."""

    OK = 0
    RAISED = 1
    WRONG_COUNT = 2
    WRONG_TYPE = 3
    WRONG_SHAPE = 4
    WRONG_DTYPE = 5


ControlWords = ctypes.Array[ctypes.c_uint64]


def control_words(fd: int) -> ControlWords:
    """The control page behind a descriptor, for one who reads and writes it."""
    return (ctypes.c_uint64 * (CONTROL_BYTES // 8)).from_buffer(mmap.mmap(fd, 0))


class ProtocolError(Exception):
    """The other side sent an invalid message or closed the channel."""


class Link:
    """One end of the message channel."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._is_unread = False
        # The size of a packet is bounded by the send buffer; the default differs between machines.
        self._end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * _PACKET_BYTES)

    def send(self, **message: Any) -> None:
        """A message to somebody who is gone, or does not read, is lost: `receive` says so."""
        with self._sending():
            for packet in _packets(json.dumps(message).encode()):
                self._end.sendall(packet)

    def send_descriptors(self, descriptors: Sequence[int], **message: Any) -> None:
        """As `send`, together with open files; what shares a GPU's memory is such a file."""
        with self._sending():
            socket.send_fds(self._end, [json.dumps(message).encode()], list(descriptors))

    def receive_descriptors(self, timeout_s: float | None = None) -> tuple[dict[str, Any], list[int]]:
        """As `receive`, with the files that came along; they are the caller's to close."""
        self._end.settimeout(timeout_s)
        try:
            data, descriptors, _, _ = socket.recv_fds(self._end, _PACKET_BYTES, _DESCRIPTORS_MAX)
        except (TimeoutError, BlockingIOError) as error:
            raise TimeoutError("no message in time") from error
        except OSError as error:
            raise ProtocolError(f"the channel broke: {error}") from error
        if not data:
            raise ProtocolError("the other side went away")
        return _parse(data), descriptors

    def receive(self, timeout_s: float | None = None) -> dict[str, Any]:
        """The next message. Raises TimeoutError, or ProtocolError for nonsense and for a closed channel."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        data = self._packet(timeout_s)
        if data[:1] != _MORE:
            return _parse(data)
        parts = [data[1:]]
        while data[:1] == _MORE:
            if len(data) != _PACKET_BYTES or len(parts) > MESSAGE_MAX_BYTES // _PACKET_BYTES:
                raise ProtocolError("the message is too long, or its packets are too short")
            data = self._packet(None if deadline_s is None else max(0.0, deadline_s - time.monotonic()))
            parts.append(data[1:])
        return _parse(b"".join(parts))

    @contextmanager
    def _sending(self) -> Iterator[None]:
        self._end.settimeout(_SEND_S)  # not that of the last `receive`
        try:
            yield
        except ConnectionError:
            return
        except TimeoutError:
            self._is_unread = True

    def _packet(self, timeout_s: float | None) -> bytes:
        if self._is_unread:
            raise ProtocolError("the other side does not read what is sent to it")
        self._end.settimeout(timeout_s)
        try:
            data = self._end.recv(_PACKET_BYTES)
        except (TimeoutError, BlockingIOError) as error:
            raise TimeoutError("no message in time") from error
        except OSError as error:
            raise ProtocolError(f"the channel broke: {error}") from error
        if not data:
            raise ProtocolError("the other side went away")
        return data

    def close(self) -> None:
        self._end.close()


def _packets(data: bytes) -> list[bytes]:
    if len(data) <= _PACKET_BYTES:
        return [data]
    parts = [data[start : start + _PACKET_BYTES - 1] for start in range(0, len(data), _PACKET_BYTES - 1)]
    return [*(_MORE + part for part in parts[:-1]), _END + parts[-1]]


def _parse(data: bytes) -> dict[str, Any]:
    try:
        message = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("the message is not JSON") from error
    if not isinstance(message, dict):
        raise ProtocolError("the message is not an object")
    return {clean_text(key): _cleaned(value, _LEVELS_MAX) for key, value in message.items()}


def _cleaned(value: Any, levels: int) -> Any:
    if levels == 0:
        raise ProtocolError("the message is nested too deeply")
    if isinstance(value, dict):
        return {clean_text(key): _cleaned(item, levels - 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_cleaned(item, levels - 1) for item in value]
    return clean_text(value) if isinstance(value, str) else value


def clean_text(text: str) -> str:
    """Makes hostile output harmless for terminals, pages and databases.

    Control characters, NUL among them, and halves of characters become visible marks.
    """
    if text.isprintable():
        return text
    return "".join(char if char in "\n\t" or char.isprintable() else "�" for char in text)


def make_links() -> tuple[Link, socket.socket]:
    """Our end, and the other end whose descriptor a child inherits."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Link(ours), theirs
