"""V3: language models read the source for errors of memory, wrong numbers and cheating; asked where others abstain.

Three short questions side by side. It rejects only for a reason that names an existing line, given with high
confidence, and accepts only if all three accept. Needs a key. Not covered: deciding; the judge does that.
"""

import asyncio
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

from benchmarks.harness import TaskSpec

from ..budget import Cost
from ..config import ConfigError, RunConfig
from ..events import Quiet
from ..llm.access import client_of, prices_of, unavailable
from ..llm.citations import REASONS_SCHEMA, SURE_PERCENT, cited, numbered
from ..llm.client import LlmClient
from ..llm.fences import fenced
from ..llm.outcomes import Failure
from ..llm.prices import PriceError
from ..llm.prompting import SOURCES_BYTES_MAX, task_text
from ..llm.prompts import prompt
from ..llm.purse import Purse
from ..llm.stream import StreamRequest
from ..model import Decision, Reason, VerifierOpinion

QUESTIONS = ("memory", "numerics", "cheating")
MODEL = "claude-haiku-5-5"
EFFORT = "medium"
MAX_TOKENS = 8_000
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "enum": ["accept", "reject", "abstain"]},
        "confidence": {"type": "integer"},
        "reasons": REASONS_SCHEMA,
    },
    "required": ["decision", "confidence", "reasons"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Finding:
    """The answer to one question."""

    question: str
    decision: Decision
    confidence_percent: int
    reasons: tuple[Reason, ...]

    @property
    def damning(self) -> bool:
        return self.decision == "reject" and self.confidence_percent >= SURE_PERCENT and bool(self.reasons)


class Critic:
    id = "critic"

    def __init__(self, client: LlmClient, model: str = MODEL) -> None:
        self._client = client
        self._model = model
        self.version = f"{model} {_prompts_sha256()[:8]}"

    @classmethod
    def from_config(cls, config: RunConfig, settings: Mapping[str, Any]) -> Self:
        """The model is the option `critic_model`. Raises ConfigError without a key, and for one without a price."""
        reason = unavailable(settings)
        if reason is not None:
            raise ConfigError(reason)
        prices = prices_of(settings)
        model = str(config.options.get("critic_model", MODEL))
        try:
            prices.model(model)
        except PriceError as error:
            raise ConfigError(str(error)) from error
        return cls(client_of(settings, prices), model)

    def bound(self, source: str, language: str, task: TaskSpec) -> Cost:
        requests = self._requests(source, language, task)
        return sum((self._client.bound(request) for request in requests), Cost())

    async def judge(self, source: str, language: str, task: TaskSpec) -> VerifierOpinion:
        started_s = time.monotonic()
        requests = self._requests(source, language, task)
        purses = [Purse(self._client.bound(request)) for request in requests]
        lines = source.count("\n") + 1
        findings = await asyncio.gather(
            *(
                self._ask(question, request, purse, lines)
                for question, request, purse in zip(QUESTIONS, requests, purses, strict=False)
            )
        )
        cost = sum((purse.total for purse in purses), Cost())
        return opinion_of(findings, time.monotonic() - started_s, cost)

    def _requests(self, source: str, language: str, task: TaskSpec) -> list[StreamRequest]:
        """None for a source that is too long to be read with care."""
        if len(source.encode(errors="replace")) > SOURCES_BYTES_MAX:
            return []
        system = (prompt("verifier"), task_text(task, language, "the machine of the judge"))
        text = fenced(numbered(source), "source of the kernel")
        return [self._request(system, f"{prompt(f'verifier-{question}')}\n\n{text}") for question in QUESTIONS]

    def _request(self, system: tuple[str, ...], text: str) -> StreamRequest:
        return StreamRequest("verify", self._model, system, text, MAX_TOKENS, EFFORT, SCHEMA)

    async def _ask(self, question: str, request: StreamRequest, purse: Purse, lines: int) -> Finding:
        try:
            completion = await self._client.call(request, purse, Quiet())
        except Failure as failure:
            return _silent(question, failure.text)
        return read_finding(question, completion.text, lines)


def read_finding(question: str, text: str, lines: int) -> Finding:
    """What does not have the form that was asked for is no opinion. Reasons on lines that are not there are dropped."""
    try:
        data = json.loads(text)
        decision, confidence = data["decision"], int(data["confidence"])
        reasons = cited(data["reasons"], lines, most=5)
    except (ValueError, KeyError, TypeError, RecursionError):
        return _silent(question, "the answer does not have the requested form")
    if decision not in ("accept", "reject", "abstain"):
        return _silent(question, "the answer has an unknown decision")
    named = tuple(Reason(f"{question}: {text}", line) for line, text in reasons)
    return Finding(question, cast(Decision, decision), min(max(confidence, 0), 100), named)


def opinion_of(findings: Sequence[Finding], seconds: float, cost: Cost) -> VerifierOpinion:
    damning = [item for item in findings if item.damning]
    decision: Decision = "abstain"
    if damning:
        decision = "reject"
    elif len(findings) == len(QUESTIONS) and all(item.decision == "accept" for item in findings):
        decision = "accept"
    reasons = tuple(reason for item in damning or findings for reason in item.reasons)
    return VerifierOpinion(
        decision=decision,
        reasons=reasons,
        fault=damning[0].question if damning else None,
        probability=_probability(findings) if decision != "abstain" else None,
        seconds=seconds,
        cost=cost,
    )


def _probability(findings: Sequence[Finding]) -> float:
    """That the kernel is correct: as if the answers did not depend on each other."""
    result = 1.0
    for item in findings:
        sure = item.confidence_percent / 100
        result *= sure if item.decision == "accept" else 1 - sure if item.decision == "reject" else 0.5
    return round(result, 4)


def _silent(question: str, why: str) -> Finding:
    return Finding(question, "abstain", 0, (Reason(f"{question}: {why}"),))


def _prompts_sha256() -> str:
    names = ("verifier", *(f"verifier-{question}" for question in QUESTIONS))
    return hashlib.sha256("\0".join(map(prompt, names)).encode()).hexdigest()
