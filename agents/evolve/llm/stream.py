"""One streamed request, read to its end: the text, the usage, and which part of the usage is only assumed.

The vendor reports the tokens of the prompt when a stream starts and those of the answer when it ends. A stream that
was cut off is charged with the most that it can have cost. Not covered: trying again (`client.py`).
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import httpx2

from .outcomes import MALFORMED, Completion, Failure, Kind, failure_of, failure_of_stop
from .prices import Usage

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from anthropic.lib.streaming import AsyncMessageStream

Sleep = Callable[[float], Awaitable[None]]
Listener = Callable[[str, str], None]  # text or thinking, and what was added to it
BYTES_PER_TOKEN_MAX = 64


@dataclass(frozen=True)
class StreamRequest:
    """One call. `system` are the blocks that stay the same from call to call; each ends a cached prefix."""

    role: str  # propose, verify
    model: str
    system: tuple[str, ...]
    prompt: str
    max_tokens: int
    effort: str | None = None
    schema: Mapping[str, Any] | None = None  # of the JSON answer
    tools: tuple[Mapping[str, Any], ...] = ()  # that the answer may call
    turns: tuple[Mapping[str, Any], ...] = ()  # of the conversation so far, after the prompt

    @property
    def prompt_tokens_bound(self) -> int:
        """A token is at least a byte; the rest is for what the vendor adds around the blocks."""
        texts = (*self.system, self.prompt, str(self.schema or ""), *(json.dumps(item) for item in self.turns))
        tools = len(json.dumps(self.tools).encode()) + 1_000 if self.tools else 0
        return sum(len(text.encode(errors="replace")) for text in texts) + tools + 1_000

    def body(self) -> dict[str, Any]:
        """Byte for byte the same for the same request: caches depend on it. JSON comes with the usual thinking."""
        blocks = [{"type": "text", "text": utf8(text), "cache_control": {"type": "ephemeral"}} for text in self.system]
        config: dict[str, Any] = {"effort": self.effort} if self.effort else {}
        if self.schema is not None:
            config["format"] = {"type": "json_schema", "schema": dict(self.schema)}
        return {
            "model": self.model,
            "max_tokens": self.max_tokens,
            "system": blocks,
            "messages": [{"role": "user", "content": utf8(self.prompt)}, *self.turns],
            "service_tier": "standard_only",
            **({"thinking": {"type": "adaptive", "display": "summarized"}} if self.schema is None else {}),
            **({"output_config": config} if config else {}),
            **({"tools": list(self.tools)} if self.tools else {}),
        }


@dataclass
class Account:
    """What is known of the tokens of a call while it goes on.

    `sent`: the vendor may have begun to work, so it may ask for money; `started` and `ended`: it told the tokens of
    the prompt, and those of the answer.
    """

    sent: bool = False
    started: bool = False
    ended: bool = False
    counts: dict[str, Any] = field(default_factory=dict)
    us_inference: bool = False

    def start(self, usage: Any) -> None:
        self.sent = self.started = True
        split = getattr(usage, "cache_creation", None)
        hour = _count(split, "ephemeral_1h_input_tokens")
        self.counts = {
            "input_tokens": _count(usage, "input_tokens"),
            "cache_read_tokens": _count(usage, "cache_read_input_tokens"),
            "cache_write_1h_tokens": hour,
            "cache_write_5m_tokens": max(_count(usage, "cache_creation_input_tokens") - hour, 0),
            "output_tokens": _count(usage, "output_tokens"),
        }
        self.us_inference = str(getattr(usage, "inference_geo", None) or "").lower() == "us"

    def go_on(self, usage: Any, stopped: bool) -> None:
        """Totals so far; those that are not told stay as they were."""
        self.ended = self.ended or stopped
        self._update("input_tokens", usage, "input_tokens")
        self._update("cache_read_tokens", usage, "cache_read_input_tokens")
        self._update("output_tokens", usage, "output_tokens")
        if isinstance(getattr(usage, "cache_creation_input_tokens", None), int):
            hour = self.counts.get("cache_write_1h_tokens", 0)
            written = _count(usage, "cache_creation_input_tokens")
            self.counts["cache_write_5m_tokens"] = max(written - hour, 0)

    def usage(self, max_tokens: int) -> Usage:
        """An answer whose end was never told counts as long as it may have been."""
        counts = dict(self.counts)
        if not self.ended:
            counts["output_tokens"] = max_tokens
        return replace(Usage(**counts), us_inference=self.us_inference)

    def _update(self, name: str, usage: Any, told_as: str) -> None:
        if isinstance(getattr(usage, told_as, None), int):
            self.counts[name] = _count(usage, told_as)


async def fetch(
    client: "AsyncAnthropic",
    request: StreamRequest,
    account: Account,
    say: Listener,
    started: Callable[[], None] = lambda: None,
) -> Completion:
    """Raises Failure for whatever is no whole answer; `account` then holds what was told until then."""
    import anthropic

    try:
        account.sent = True
        async with client.messages.stream(**request.body()) as stream:
            await _listen(stream, request, account, say, started)
            message = stream.current_message_snapshot
            return _completion(message, account.usage(request.max_tokens), stream.request_id)
    except anthropic.APIStatusError as error:
        account.sent = account.started
        raise failure_of(error) from error
    except (anthropic.AnthropicError, httpx2.HTTPError, httpx2.StreamError, *MALFORMED) as error:
        failure = failure_of(error)
        account.sent = failure.kind is not Kind.UNREACHABLE
        raise failure from error


async def _listen(
    stream: "AsyncMessageStream[Any]",
    request: StreamRequest,
    account: Account,
    say: Listener,
    started: Callable[[], None],
) -> None:
    heard_bytes, stop_reason, stopped = 0, None, False
    async for event in stream:
        match event.type:
            case "message_start":
                account.start(event.message.usage)
                started()
            case "text" | "thinking":
                added = event.text if event.type == "text" else event.thinking
                heard_bytes += len(added.encode(errors="replace"))
                guard(heard_bytes, request.max_tokens)
                say(event.type, added)
            case "input_json":
                heard_bytes += len(event.partial_json.encode(errors="replace"))
                guard(heard_bytes, request.max_tokens)
            case "message_delta":
                stop_reason = event.delta.stop_reason or stop_reason
                account.go_on(event.usage, bool(stop_reason))
            case "message_stop":
                stopped = True
    failure = failure_of_stop(stop_reason if stopped else None)
    if failure:
        raise failure


def utf8(text: str) -> str:
    """A log may hold halves of characters, which no request can carry."""
    return text.encode(errors="replace").decode()


def guard(heard_bytes: int, max_tokens: int) -> None:
    if heard_bytes > max_tokens * BYTES_PER_TOKEN_MAX:
        raise Failure(Kind.FLOOD, "the answer has far more text than was asked for; the stream was closed")


def _completion(message: Any, usage: Usage, request_id: str | None) -> Completion:
    blocks = message.content
    return Completion(
        text="".join(block.text for block in blocks if block.type == "text"),
        thinking="".join(block.thinking for block in blocks if block.type == "thinking"),
        tool_inputs=tuple(cast(Mapping[str, Any], block.input) for block in blocks if block.type == "tool_use"),
        usage=usage,
        request_id=request_id,
        content=tuple(kept for block in blocks if (kept := _kept(block)) is not None),
    )


def _kept(block: Any) -> dict[str, Any] | None:
    """A block as the next request of a conversation has to repeat it."""
    match block.type:
        case "text":
            return {"type": "text", "text": block.text} if block.text.strip() else None
        case "thinking":
            return {"type": "thinking", "thinking": block.thinking, "signature": block.signature}
        case "redacted_thinking":
            return {"type": "redacted_thinking", "data": block.data}
        case "tool_use":
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}
    return None


def _count(usage: Any, name: str) -> int:
    value = getattr(usage, name, None)
    return value if isinstance(value, int) and value > 0 else 0
