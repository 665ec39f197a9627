"""Events and states as short sentences for people: in the log, in the stream, on the command line.

Does NOT format numbers of tables: the template tags do.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

Payload = Mapping[str, Any]
KEPT = 200
CURRENCY_TITLES = {
    "usd": "Dollars",
    "input_tokens": "Input tokens",
    "output_tokens": "Output tokens",
    "judgings": "Judgings",
    "judging_s": "Judging time",
    "wall_s": "Run time",
}


class LogLine(Protocol):
    """An event, stored or not."""

    @property
    def type(self) -> str: ...
    @property
    def payload(self) -> Any: ...


def sentence(event: LogLine) -> str:
    """What happened, in at most `KEPT` characters; empty where the type says it all."""
    writer = WRITERS.get(event.type)
    text = writer(event.payload) if writer else ""
    return text if len(text) <= KEPT else f"{text[: KEPT - 1].rstrip()}…"


def amounts(cost: Payload) -> str:
    """A cost in its currencies."""
    return ", ".join(f"{_amount(name, value)}" for name, value in cost.items()) or "nothing"


def _amount(name: str, value: float) -> str:
    if name == "usd":
        return f"${value:.4f}"
    if name.endswith("_s"):
        return f"{value:.1f} s {'of judging' if name == 'judging_s' else 'of run time'}"
    word = name.replace("_", " ")
    return f"{value:g} {word.removesuffix('s') if value == 1 else word}"


def _finished(payload: Payload) -> str:
    return str(payload.get("text") or payload["reason"])


def _generation(payload: Payload) -> str:
    return f"generation {payload['number']}"


def _requested(payload: Payload) -> str:
    parents = ", ".join(payload.get("parents") or ())
    words = [payload.get("operator") or "", f"from {parents}" if parents else "", f"island {payload.get('island', 0)}"]
    return ", ".join(word for word in words if word)


def _received(payload: Payload) -> str:
    return payload.get("name") or payload.get("thought") or payload.get("template") or ""


def _refused(payload: Payload) -> str:
    return f"{payload['reason'].replace('_', ' ')}: {payload.get('text') or 'no details'}"


def _verdict(payload: Payload) -> str:
    audited = ", judged anyway to check the verifier" if payload.get("audit") else ""
    fault = f" ({payload['fault']})" if payload.get("fault") else ""
    said = f"{payload['verifier']}: {payload['decision']}{fault}{audited}"
    reasons = (payload.get("reasons") or ()) if payload["decision"] == "reject" else ()
    texts = [item["text"] if isinstance(item, Mapping) else str(item) for item in reasons]
    return f"{said}, {'; '.join(texts)}" if texts else said


def _judged(payload: Payload) -> str:
    result = payload["result"]
    score = result.get("score")
    return f"{score:.3f}×" if score is not None else f"{result['verdict']}: {result.get('reason') or ''}"


def _money(payload: Payload) -> str:
    return f"{payload['lease']}: {amounts(payload['cost'])}"


def _attempt(payload: Payload) -> str:
    wait = payload.get("retry_after_s")
    later = f", again in {wait:g} s" if wait else ""
    return f"{payload['model']}: {payload.get('status') or 'no answer'}{later} {payload.get('text') or ''}".strip()


def _usage(payload: Payload) -> str:
    return f"{payload['model']}: ${payload.get('cost_usd') or 0:.4f} as {payload['role']}"


def _tool(payload: Payload) -> str:
    return f"{payload['turn']}. {payload['tool']} {payload.get('config') or ''}: {payload.get('text') or ''}"


def _text(payload: Payload) -> str:
    return str(payload.get("text") or "")


WRITERS: dict[str, Callable[[Payload], str]] = {
    "run.finished": _finished,
    "run.paused": _text,
    "run.stopping": _text,
    "curriculum.began": lambda payload: f"on {payload['config']} first",
    "curriculum.ended": lambda payload: f"on all configurations: {payload['text']}",
    "generation.opened": _generation,
    "generation.closed": _generation,
    "proposal.requested": _requested,
    "proposal.received": _received,
    "proposal.rejected": _refused,
    "verdict": _verdict,
    "evaluation.submitted": lambda payload: "submitted to the judge",
    "evaluation.finished": _judged,
    "confirming.began": lambda payload: f"{', '.join(payload['candidates'])} are judged again: {payload['text']}",
    "confirmation.submitted": lambda payload: "submitted to the judge again",
    "confirmation.finished": lambda payload: f"judged again: {_judged(payload)}",
    "migration": lambda payload: f"from island {payload['from_island']} to island {payload['to_island']}",
    "budget.reserved": _money,
    "budget.settled": _money,
    "budget.denied": _text,
    "tool.called": _tool,
    "llm.attempt": _attempt,
    "llm.usage": _usage,
    "note": _text,
    "task.note": _text,
    "error": _text,
    "human.action": lambda payload: f"{payload['who']}: {payload['action']}",
}
