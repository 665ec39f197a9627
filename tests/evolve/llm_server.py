"""A Messages server on a real socket that does what it is told: answers, limits, faults, cuts in mid-stream.

It counts tokens as a quarter of the bytes, keeps prompt caches by prefix, and writes down what it would ask money for.
"""

import asyncio
import hashlib
import json
import math
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

CACHE_MIN_TOKENS = 512
CACHE_LIVES_S = 300.0


@dataclass(frozen=True)
class Reply:
    """One answer and how it goes wrong. `fault` strikes after the text: error, eof, abort, reset, garbage, hang."""

    text: str = "hello"
    thinking: str = ""
    tool_json: str = ""
    tool: str = "note"
    stop_reason: str | None = "end_turn"
    status: int = 200
    error: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    fault: str = ""
    before_start: bool = False  # the fault strikes before message_start
    after_delta: bool = False  # the fault strikes between message_delta and message_stop
    output_tokens: int | None = None
    usage: dict[str, Any] = field(default_factory=dict)  # in place of what was counted
    piece_chars: int = 7
    pause_s: float = 0.0  # between pieces
    noise: bool = False  # pings and an event that nobody knows


@dataclass
class Served:
    """What the server saw and did. `billed` is what the vendor would ask money for; `open`: it is still at it."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    reply: Reply
    billed: dict[str, int] | None = None
    disconnected: bool = False
    open: bool = True


Decide = Callable[[dict[str, Any], int], Reply]


def error(status: int, kind: str, message: str = "no", code: str | None = None, **headers: str) -> Reply:
    details = {"details": {"error_code": code}} if code else {}
    body = {"type": "error", "error": {"type": kind, "message": message, **details}}
    return Reply(status=status, error=body, headers={name.replace("_", "-"): value for name, value in headers.items()})


def script(*replies: Reply) -> Decide:
    """These replies, the last one for ever."""
    return lambda _body, number: replies[min(number, len(replies) - 1)]


class Server:
    def __init__(self, decide: Decide, clock: Callable[[], float] = lambda: 0.0) -> None:
        self.decide, self.clock = decide, clock
        self.served: list[Served] = []
        self.url = ""
        self._cached_until_s: dict[str, float] = {}

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            path, headers, raw = await _read(reader)
            await self._answer(path, headers, json.loads(raw or b"{}"), reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, path: str, headers: dict[str, str], body: dict[str, Any], reader: Any, writer: Any) -> None:
        if path.startswith("/v1/models"):
            return await _json(writer, 200, {"data": [{"id": "claude-haiku-5-5", "type": "model"}], "has_more": False})
        if path.startswith("/v1/messages/count_tokens"):
            return await _json(writer, 200, {"input_tokens": tokens_of(body)})
        reply = self.decide(body, len(self.served))
        served = Served(path, headers, body, reply)
        self.served.append(served)
        try:
            if reply.error is not None:
                return await _json(writer, reply.status, reply.error, reply.headers)
            if not body.get("stream"):
                return await _json(writer, 200, self._whole(body, served))
            await self._stream(body, served, reader, writer)
        except ConnectionError:
            served.disconnected = True
        finally:
            served.open = False
        return None

    def _whole(self, body: dict[str, Any], served: Served) -> dict[str, Any]:
        usage = self._usage(body, served.reply)
        usage["output_tokens"] = _output_tokens(served.reply)
        served.billed = _flat(usage)
        content = [{"type": "text", "text": served.reply.text}]
        return {**_message(body, usage), "content": content, "stop_reason": served.reply.stop_reason}

    async def _stream(self, body: dict[str, Any], served: Served, reader: Any, writer: Any) -> None:
        reply = served.reply
        chunked = reply.fault == "abort"
        writer.write(_head(200, {"content-type": "text/event-stream", "request-id": "req_1"}, chunked=chunked))
        usage = self._usage(body, reply)
        send = _Sender(writer, reader, served, chunked)
        if reply.before_start and await send.fault(reply.fault):
            return
        served.billed = _flat({**usage, "output_tokens": 1})
        await send("message_start", {"message": _message(body, {**usage, "output_tokens": 1})})
        told = 0
        for event, data, output in _blocks(reply):
            told += output
            served.billed["output_tokens"] = min(math.ceil(told / 4) or 1, body["max_tokens"])
            await send(event, data)
            if reply.pause_s:
                await asyncio.sleep(reply.pause_s)
            if served.disconnected:
                return
        if not reply.after_delta and await send.fault(reply.fault):
            return
        served.billed["output_tokens"] = _output_tokens(reply)
        final = {
            "output_tokens": _output_tokens(reply),
            **{k: v for k, v in reply.usage.items() if k != "cache_creation"},
        }
        await send(
            "message_delta", {"delta": {"stop_reason": reply.stop_reason, "stop_sequence": None}, "usage": final}
        )
        if await send.fault(reply.fault):
            return
        await send("message_stop", {})

    def _usage(self, body: dict[str, Any], reply: Reply) -> dict[str, Any]:
        """A prefix that ends in a mark is read if it is there, else written; too short a one is neither."""
        read = written = 0
        prefix = json.dumps([body.get("model"), body.get("output_config"), body.get("thinking")])
        total = 0
        for block in body.get("system", []):
            prefix += block["text"]
            total += math.ceil(len(block["text"].encode()) / 4)
            if "cache_control" in block and total >= CACHE_MIN_TOKENS:
                read, written = self._touch(prefix, total, read, written)
        usage = {
            "input_tokens": tokens_of(body) - read - written,
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": read,
            "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
        }
        return {**usage, **reply.usage}

    def _touch(self, prefix: str, total: int, read: int, written: int) -> tuple[int, int]:
        key = hashlib.sha256(prefix.encode()).hexdigest()
        known = self._cached_until_s.get(key, -1.0) > self.clock()
        self._cached_until_s[key] = self.clock() + CACHE_LIVES_S
        return (total, 0) if known else (read, total - read)


class _Sender:
    def __init__(
        self, writer: asyncio.StreamWriter, reader: asyncio.StreamReader, served: Served, chunked: bool
    ) -> None:
        self.writer, self.reader, self.served, self.chunked = writer, reader, served, chunked

    async def __call__(self, event: str, data: dict[str, Any]) -> None:
        text = f"event: {event}\ndata: {json.dumps({'type': event, **data})}\n\n".encode()
        await self.raw(text)

    async def raw(self, text: bytes) -> None:
        if self.reader.at_eof():
            self.served.disconnected = True
            raise ConnectionResetError
        self.writer.write(f"{len(text):x}\r\n".encode() + text + b"\r\n" if self.chunked else text)
        await self.writer.drain()

    async def fault(self, fault: str) -> bool:
        """True if that was the end."""
        match fault:
            case "error":
                await self("error", {"error": {"type": "overloaded_error", "message": "Overloaded"}})
            case "garbage":
                await self.raw(b"event: content_block_delta\ndata: {not json\n\n")
            case "reset":
                option = struct.pack("ii", 1, 0)
                self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, option)
                self.writer.transport.abort()
            case "hang":
                await self.reader.read()
                self.served.disconnected = True
            case "eof" | "abort":
                pass
        return bool(fault)


@asynccontextmanager
async def serve(decide: Decide, clock: Callable[[], float] = lambda: 0.0) -> AsyncIterator[Server]:
    server = Server(decide, clock)
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await server.handle(reader, writer)
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            tasks.discard(task)

    listening = await asyncio.start_server(handle, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def tokens_of(body: dict[str, Any]) -> int:
    texts = [*(block["text"] for block in body.get("system", [])), *(item["content"] for item in body["messages"])]
    return sum(math.ceil(len(str(text).encode()) / 4) for text in texts)


def _output_tokens(reply: Reply) -> int:
    if reply.output_tokens is not None:
        return reply.output_tokens
    return max(1, math.ceil(len((reply.thinking + reply.text + reply.tool_json).encode()) / 4))


def _flat(usage: dict[str, Any]) -> dict[str, int]:
    split = usage.get("cache_creation") or {}
    hour = split.get("ephemeral_1h_input_tokens", 0)
    return {
        "input_tokens": usage["input_tokens"],
        "cache_read_tokens": usage.get("cache_read_input_tokens") or 0,
        "cache_write_1h_tokens": hour,
        "cache_write_5m_tokens": (usage.get("cache_creation_input_tokens") or 0) - hour,
        "output_tokens": usage["output_tokens"],
        "us": int(usage.get("inference_geo") == "us"),
    }


def _message(body: dict[str, Any], usage: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": body.get("model"), "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip


def _blocks(reply: Reply) -> Iterable[tuple[str, dict[str, Any], int]]:
    """Events of the content, and how many bytes of answer each adds."""
    kinds = [
        ("thinking", "thinking_delta", "thinking", reply.thinking,
         {"type": "thinking", "thinking": "", "signature": ""}),
        ("text", "text_delta", "text", reply.text, {"type": "text", "text": ""}),
        ("tool", "input_json_delta", "partial_json", reply.tool_json,
         {"type": "tool_use", "id": "t1", "name": reply.tool, "input": {}}),
    ]  # fmt: skip
    for index, (_, kind, name, text, start) in enumerate(item for item in kinds if item[3] or item[0] == "text"):
        yield "content_block_start", {"index": index, "content_block": start}, 0
        for piece in range(0, len(text), reply.piece_chars):
            part = text[piece : piece + reply.piece_chars]
            if reply.noise:
                yield "ping", {}, 0
                yield "content_block_weather", {"index": index, "forecast": "rain"}, 0
            yield "content_block_delta", {"index": index, "delta": {"type": kind, name: part}}, len(part.encode())
        yield "content_block_stop", {"index": index}, 0


def _head(status: int, headers: dict[str, str], *, chunked: bool = False) -> bytes:
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items()), "connection: close"]
    return "\r\n".join([*lines, *(["transfer-encoding: chunked"] if chunked else []), "", ""]).encode()


async def _json(writer: asyncio.StreamWriter, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
    raw = json.dumps(body).encode()
    all_headers = {"content-type": "application/json", "content-length": str(len(raw)), **(headers or {})}
    writer.write(_head(status, all_headers) + raw)
    await writer.drain()


async def _read(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    return head[0].split(" ")[1], headers, await reader.readexactly(int(headers.get("content-length", 0)))
