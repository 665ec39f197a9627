"""A language model behind an address that speaks OpenAI's chat completions, as servers of local models do.

Through the package `openai` (`pip install 'kbench[openai]'`), its retries off as those of the other SDK. Waiting, caps
and prices are those of every call (`client.py`). Such a server tells the tokens at the end of an answer alone, so an
answer that broke off, or whose server tells nothing, is charged with its whole reservation. Not covered: tools,
conversations and answers in JSON.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import httpx2

from .client import Patience
from .outcomes import BY_STATUS, MALFORMED, STOPS, Completion, Failure, Kind
from .stream import Account, Listener, StreamRequest, guard, utf8

PACKAGE = "openai"
_STOPS = {"stop": None, "length": "max_tokens", "content_filter": "refusal"}


@dataclass(frozen=True)
class CompatibleAccess:
    """Where the model is. A local server needs no key; one that is given is never sent after a redirect."""

    base_url: str
    api_key: str = field(default="", repr=False)
    http_client: Callable[[], httpx2.AsyncClient] | None = None

    async def fetch(
        self,
        patience: Patience,
        request: StreamRequest,
        account: Account,
        say: Listener,
        started: Callable[[], None],
    ) -> Completion:
        """Raises Failure for whatever is no whole answer; `account` then holds what was told until then."""
        openai = import_module(PACKAGE)
        http_client = self.http_client() if self.http_client else openai.DefaultAsyncHttpxClient()
        http_client.follow_redirects = False
        client = openai.AsyncOpenAI(
            api_key=self.api_key or "none",
            base_url=self.base_url,
            max_retries=0,
            timeout=httpx2.Timeout(patience.silence_s, connect=patience.connect_s),
            http_client=http_client,
        )
        async with client:
            account.sent = True
            try:
                return await _streamed(client, request, account, say, started)
            except openai.APIStatusError as error:
                account.sent = account.started
                raise _of_status(error) from error
            except (openai.OpenAIError, httpx2.HTTPError, httpx2.StreamError, *MALFORMED) as error:
                failure = _of_connection(error)
                account.sent = failure.kind is not Kind.UNREACHABLE
                raise failure from error


def unavailable(settings: Mapping[str, Any]) -> str | None:
    """Why no such model can be asked, for the person; None if one can."""
    if not settings.get("openai_base_url") or not settings.get("openai_model"):
        return "no address and name of a local language model are set (OPENAI_BASE_URL, OPENAI_MODEL)"
    if find_spec(PACKAGE) is None:
        return "the package openai is not installed (pip install 'kbench[openai]')"
    return None


def body(request: StreamRequest) -> dict[str, Any]:
    """The request as chat completions take it."""
    if request.tools or request.turns or request.schema is not None:
        raise ValueError("tools, conversations and JSON answers are not supported with a compatible server")
    system = {"role": "system", "content": utf8("\n\n".join(request.system))}
    return {
        "model": request.model,
        "max_tokens": request.max_tokens,
        "messages": [system, {"role": "user", "content": utf8(request.prompt)}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def _streamed(
    client: Any, request: StreamRequest, account: Account, say: Listener, started: Callable[[], None]
) -> Completion:
    said: dict[str, list[str]] = {"text": [], "thinking": []}
    heard_bytes, stop, request_id = 0, None, None
    async with await client.chat.completions.create(**body(request)) as stream:
        async for chunk in stream:
            if request_id is None:
                request_id = str(chunk.id)[:100]
                started()
            if chunk.usage is not None:
                _count(account, chunk.usage)
            for choice in chunk.choices[:1]:
                stop = choice.finish_reason or stop
                pieces = (
                    ("text", choice.delta.content),
                    ("thinking", getattr(choice.delta, "reasoning_content", None)),
                )
                for kind, added in pieces:
                    if isinstance(added, str) and added:
                        heard_bytes += len(added.encode(errors="replace"))
                        guard(heard_bytes, request.max_tokens)
                        said[kind].append(added)
                        say(kind, added)
    account.ended = account.started
    if stop is None or stop not in _STOPS:
        raise Failure(Kind.CUT, "the stream ended without its end mark: the answer is cut off")
    ended_by = _STOPS[stop]
    if ended_by is not None:
        raise Failure(*STOPS[ended_by])
    text, thinking = ("".join(said[kind]) for kind in ("text", "thinking"))
    return Completion(text, thinking, (), account.usage(request.max_tokens), request_id)


def _count(account: Account, usage: Any) -> None:
    """Tokens of the prompt that lay in a cache are told as a part of all."""
    cached = getattr(getattr(usage, "prompt_tokens_details", None), "cached_tokens", None) or 0
    told = {"input_tokens": usage.prompt_tokens - cached, "cache_read_input_tokens": cached}
    account.start(SimpleNamespace(**told, output_tokens=usage.completion_tokens))


def _of_status(error: Any) -> Failure:
    status = int(error.status_code)
    kind = BY_STATUS.get(status, Kind.SERVER_ERROR if status >= 500 else Kind.BAD_REQUEST)
    if error.code == "insufficient_quota":
        kind = Kind.UNPAID
    return Failure(
        kind, f"the server of the model answered with an error ({status}): {str(error.message)[:300]}", status=status
    )


def _of_connection(error: Exception) -> Failure:
    cause = error.__cause__
    if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout | httpx2.ProxyError):
        return Failure(Kind.UNREACHABLE, f"the server of the model cannot be reached: {cause}")
    return Failure(Kind.CUT, f"the stream could not be read: {type(error).__name__}")
