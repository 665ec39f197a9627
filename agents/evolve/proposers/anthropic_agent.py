"""The proposer with tools: a language model in a conversation that can try its kernel, within an allowance.

A candidate is one conversation. Each turn is one request with all turns before it; each tool call is an event of the
log. The allowance of a candidate (dollars, tokens, seconds on the device, turns) is reserved before the first request;
a turn or a tool call that does not fit into the rest is not made. After a crash the conversation begins again, and
the first one counts in full. The last source that passed the quick check is proposed if nothing was submitted. Not
covered: the work of the tools (`llm/workshop.py`).
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from benchmarks.harness import default_rules, device_class

from ..budget import CURRENCIES, Cost
from ..config import ConfigError, RunConfig
from ..events import Live
from ..llm.access import client_of, prices_of, unavailable
from ..llm.answers import NAME_CHARS_MAX, THOUGHT_CHARS_MAX
from ..llm.arms import Arm, read_arms
from ..llm.client import LlmClient
from ..llm.fences import fenced
from ..llm.outcomes import Completion, Failure
from ..llm.prompting import Asked, PromptForm, task_text
from ..llm.stream import StreamRequest
from ..llm.workshop import AgentWorkshop, workshop_of
from ..model import Meter, NoProposal, Proposal, ProposalRequest, guarded
from ..proposing import readable
from .anthropic import Anthropic, refusal_of

CALLS_PER_TURN_MAX = 4
TEXT_CHARS_MAX = 40_000  # of what a tool answers
LOGGED_CHARS = 2_000
AGENT_ARMS = (
    {"model": "claude-haiku-5-5", "effort": "medium", "hint": "free", "max_tokens": 12_000},
    {"model": "claude-sonnet-5-5", "effort": "medium", "hint": "free", "max_tokens": 12_000},
)


@dataclass(frozen=True)
class Allowance:
    """The most that one candidate may use; half of what is left of the run at most, but one request always."""

    turns: int = 12
    usd: float = 1.0
    input_tokens: int = 1_000_000
    output_tokens: int = 100_000
    device_s: float = 120.0
    tool_s: float = 60.0  # of one call of a tool

    @classmethod
    def of_options(cls, options: Mapping[str, Any]) -> Self:
        """Raises ConfigError."""
        given = options.get("allowance") or {}
        known: dict[str, Any] = {item.name: item.default for item in fields(cls)}
        if not isinstance(given, dict) or not all(
            name in known and isinstance(value, int | float) and value > 0 for name, value in given.items()
        ):
            raise ConfigError(f"the allowance of a candidate has {', '.join(known)}, each more than 0")
        return cls(**{name: type(known[name])(value) for name, value in given.items()})

    @property
    def cost(self) -> Cost:
        return Cost(self.usd, self.input_tokens, self.output_tokens, judging_s=self.device_s)


def _tool(name: str, text: str, *given: str) -> dict[str, Any]:
    properties = {item: {"type": "string", "description": _GIVEN[item]} for item in given}
    schema = {"type": "object", "properties": properties, "required": [*given], "additionalProperties": False}
    return {"name": name, "description": text, "input_schema": schema}


_GIVEN = {
    "source": "the whole source file",
    "config": "the key of a configuration of the task",
    "words": "what to look for: an operation or a technique",
    "name": "a few words for the kernel",
    "thought": "two to six sentences: what bounds it, what you changed, why it should pay",
}
TOOLS = (
    _tool("read_task", "The task, its interface, configurations and tolerances."),
    _tool("compile", "Compiles the source as the judge would: errors, or registers and spills.", "source"),
    _tool("check", "Compiles, runs and compares the results on two configurations, with times.", "source"),
    _tool("time", "Times one configuration beside the baselines.", "source", "config"),
    _tool("profile", "What limits its speed: the bottleneck, metrics, stalled lines. Slow; check it first.", "source"),
    _tool("search_library", "Verified kernels of related tasks, at most three.", "words"),
    _tool("submit", "Your answer. Ends the conversation.", "source", "name", "thought"),
)


class AnthropicAgent(Anthropic):
    name = "anthropic-agent"
    form: PromptForm = "agent"

    def __init__(self, client: LlmClient, arms: tuple[Arm, ...], workshop: AgentWorkshop, allowance: Allowance) -> None:
        super().__init__(client, arms)
        self.workshop, self.allowance = workshop, allowance

    @classmethod
    def from_config(cls, config: RunConfig, settings: Mapping[str, Any]) -> Self:
        """Raises ConfigError without a key, and for a model without a price."""
        reason = unavailable(settings)
        if reason is not None:
            raise ConfigError(reason)
        prices = prices_of(settings)
        arms = read_arms(config.options.get("arms") or AGENT_ARMS, prices)
        return cls(client_of(settings, prices), arms, workshop_of(settings), Allowance.of_options(config.options))

    def bound(self, request: ProposalRequest) -> Cost:
        """The allowance, or half of what is left where that is less; the first request in any case."""
        first, wanted, left = self._client.bound(self._begin(request)[2]), self.allowance.cost, request.budget_left
        limits = {name: getattr(left, name) for name in CURRENCIES if getattr(left, name, None) is not None}
        return Cost(
            **{
                name: max(
                    getattr(first, name), min(getattr(wanted, name), _half(limits.get(name), getattr(wanted, name)))
                )
                for name in CURRENCIES
            }
        )

    async def propose(self, request: ProposalRequest, meter: Meter, live: Live) -> Proposal | NoProposal:
        arm, asked, stream = self._begin(request)
        talk = _Talk(self, request, arm, asked, meter, live)
        for turn in range(1, self.allowance.turns + 1):
            if not _fits(self._client.bound(stream), meter.left):
                break
            try:
                completion = await self._client.call(stream, meter, live)
            except Failure as failure:
                return refusal_of(failure)
            answered = await talk.answer(turn, completion)
            if talk.submitted is not None:
                return talk.submitted
            stream = replace(stream, turns=(*stream.turns, *answered))
        return talk.last_checked()

    def _begin(self, request: ProposalRequest) -> tuple[Arm, Asked, StreamRequest]:
        """The same for the same request."""
        arm, asked = self._ask(request)
        return arm, asked, replace(asked.request, tools=TOOLS)


@dataclass
class _Talk:
    """One conversation."""

    agent: AnthropicAgent
    request: ProposalRequest
    arm: Arm
    asked: Asked
    meter: Meter
    live: Live
    submitted: Proposal | None = None
    checked: str | None = None  # the last source whose quick check passed

    async def answer(self, turn: int, completion: Completion) -> list[dict[str, Any]]:
        """The model's turn and ours. Runs the tools that it calls, one after the other."""
        calls = [block for block in completion.content if block["type"] == "tool_use"]
        results = []
        for place, call in enumerate(calls):
            text = "Too many calls in one turn." if place >= CALLS_PER_TURN_MAX else await self._called(turn, call)
            results.append({"type": "tool_result", "tool_use_id": call["id"], "content": text[:TEXT_CHARS_MAX]})
            if self.submitted is not None:
                break
        reply: Any = results or "Call a tool. Only `submit` is an answer."
        spoken = list(completion.content) or [{"type": "text", "text": "(nothing)"}]
        return [{"role": "assistant", "content": spoken}, {"role": "user", "content": reply}]

    async def _called(self, turn: int, call: Mapping[str, Any]) -> str:
        """Runs one tool within its limit of time and writes it down, whatever it answers."""
        name, given = str(call["name"]), call["input"] if isinstance(call["input"], dict) else {}
        limit_s = min(self.agent.allowance.tool_s, self.meter.left.judging_s)
        source, problem = self._source(given) if "source" in given else (None, "")
        uses_device = name in ("compile", "check", "time", "profile") and not problem
        self.live.say("tool", {"turn": turn, "tool": name[:40]})
        self.meter.open(Cost(judging_s=limit_s) if uses_device else Cost())
        started = time.perf_counter()
        if problem:
            text = problem
        elif uses_device and limit_s <= 0:
            text = "No time on the device is left for this candidate. Submit."
        else:
            text = await self._within(limit_s, name, source, given)
        seconds = min(time.perf_counter() - started, limit_s) if uses_device else 0.0
        said = {"turn": turn, "tool": readable(name)[:40], "text": readable(text)[:LOGGED_CHARS], "seconds": seconds}
        if name == "time":
            said["config"] = readable(str(given.get("config", "")))[:500]
        self.meter.tool(said, source, Cost(judging_s=seconds))
        return text

    async def _within(self, limit_s: float, name: str, source: str | None, given: Mapping[str, Any]) -> str:
        """A tool that is slow or breaks costs a call and never the candidate."""
        answer = await guarded(lambda: asyncio.wait_for(self._run(name, source, given), limit_s or None))
        if isinstance(answer, TimeoutError):
            return f"It took more than {limit_s:.0f} s and was ended."
        return f"The tool failed: {type(answer).__name__}." if isinstance(answer, Exception) else answer

    async def _run(self, name: str, source: str | None, given: Mapping[str, Any]) -> str:
        task, language = self.request.task, self.request.language
        if name == "read_task":
            text = task_text(task, language, self.request.device_kind)
        elif name == "search_library":
            text = self._library(str(given.get("words", "")))
        elif source is None or name not in {item["name"] for item in TOOLS}:
            known = ", ".join(item["name"] for item in TOOLS)
            text = f"There is no tool {name[:40]!r} that takes these arguments. The tools are: {known}"
        elif name == "submit":
            self.submitted, text = self._proposal(source, given), "Submitted."
        else:
            text = await self._worked(name, source, given)
        return text

    async def _worked(self, name: str, source: str, given: Mapping[str, Any]) -> str:
        """What the workshop says to a source."""
        task, language, shop = self.request.task, self.request.language, self.agent.workshop
        if name == "compile":
            return await shop.compile(source, language, task)
        if name == "check":
            passed, text = await shop.check(source, language, task)
            self.checked = source if passed else self.checked
            return text
        if name == "profile":
            return await shop.profile(source, language, task)
        config, known = str(given.get("config", "")), self._configs()
        if config not in known:
            return f"There is no such configuration. The configurations are: {'; '.join(known)}"
        return await shop.time(source, language, task, config)

    def _source(self, given: Mapping[str, Any]) -> tuple[str | None, str]:
        """The text that a tool was given, or what is wrong with it."""
        text, limit = given["source"], default_rules().source.max_bytes
        if not isinstance(text, str) or not text.strip():
            return None, "The source is empty."
        if len(text) > limit or len(text.encode(errors="replace")) > limit:
            return None, f"The source is longer than the {limit} bytes that the rules allow."
        if text != readable(text):
            return None, "The source holds control characters or broken Unicode."
        return text, ""

    def _configs(self) -> list[str]:
        kind = device_class(self.request.language)
        return [item.key for item in self.request.task.configs_for(kind) if not item.hidden]

    def _library(self, words: str) -> str:
        """Of what the run was told at its start, those that match come first."""
        kernels = self.request.memory.kernels if self.request.memory else ()
        wanted = set(words.lower().split())
        order = sorted(kernels, key=lambda item: -len(wanted & set(f"{item.task} {' '.join(item.technique)}".split())))
        parts = [
            f"{item.task}, score {item.score:.3f} on {item.device_kind}\n"
            + fenced(self.request.view.load(item.source_sha256), "source of the kernel")
            for item in order
        ]
        return "\n\n".join(parts) or "The library has no kernel of a related task."

    def last_checked(self) -> Proposal | NoProposal:
        """What is there when turns or allowance are used up."""
        if self.checked is None:
            return NoProposal("empty", "the agent has not submitted a kernel within its allowance")
        thought = "Its last source that passed the quick check; it was not submitted within the allowance."
        return self._proposal(self.checked, {"name": "last checked", "thought": thought})

    def _proposal(self, source: str, given: Mapping[str, Any]) -> Proposal:
        return Proposal(
            source=source,
            language=self.request.language,
            name=str(given.get("name", ""))[:NAME_CHARS_MAX],
            thought=str(given.get("thought", ""))[:THOUGHT_CHARS_MAX],
            parents=tuple(item.id for item in reversed(self.asked.shown)),
            operator=self.asked.operator if self.asked.operator in ("translate", "repair") else "agent",
            arm=self.arm.name,
        )


def _half(left: float | None, wanted: float) -> Any:
    """Of a limit, so that what was reserved never fails by a rounding; whole numbers stay whole."""
    if left is None:
        return wanted
    return left // 2 if isinstance(wanted, int) else left / 2


def _fits(cost: Cost, left: Cost) -> bool:
    return all(getattr(cost, name) <= getattr(left, name) for name in CURRENCIES)
