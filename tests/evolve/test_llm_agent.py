"""The agent with tools, through the real SDK: conversations, their bounds, every failure, and what the log holds."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from agents.evolve.budget import Caps
from agents.evolve.config import ConfigError, RunConfig
from agents.evolve.llm.arms import Arm
from agents.evolve.llm.workshop import ABSENT, AbsentWorkshop, DeviceWorkshop, workshop_of
from agents.evolve.logs import MemoryLog
from agents.evolve.loop import create, drive
from agents.evolve.memory import PastKernel, RunMemory
from agents.evolve.model import NoProposal, Proposal
from agents.evolve.proposers import find_proposer
from agents.evolve.proposers.anthropic_agent import TOOLS, Allowance, AnthropicAgent
from agents.evolve.state import RunState
from tests.evolve import world
from tests.evolve.llm_kit import Ledger, Watcher, calculated_usd, client_of
from tests.evolve.llm_requests import CONFIG, TASK, candidate, keep, request_of
from tests.evolve.llm_server import Reply, error, script, serve
from tests.evolve.test_simulated import passed

ARM = Arm("claude-haiku-5-5", "low", "free", 2_000)
CODE = world.kernel(40, 50, 60)
SMALL = Allowance(turns=5, usd=0.5)


def call(tool: str, **given: Any) -> Reply:
    return Reply(text="", tool=tool, tool_json=json.dumps(given), stop_reason="tool_use", piece_chars=400)


SUBMIT = call("submit", source=CODE, name="tiles", thought="fewer passes")


class ScriptedWorkshop:
    """A workshop that notes what it was asked."""

    def __init__(self, passes: bool = True, pause_s: float = 0.0, breaks: bool = False) -> None:
        self.passes, self.pause_s, self.breaks, self.asked = passes, pause_s, breaks, list[tuple[str, ...]]()

    async def _said(self, *asked: str) -> str:
        self.asked.append(asked)
        await asyncio.sleep(self.pause_s)
        if self.breaks:
            raise OSError("no sandbox")
        return f"{asked[0]} answered"

    async def compile(self, source: str, language: str, task: Any) -> str:
        return await self._said("compile", source)

    async def check(self, source: str, language: str, task: Any) -> tuple[bool, str]:
        return self.passes, await self._said("check", source)

    async def time(self, source: str, language: str, task: Any, config: str) -> str:
        return await self._said("time", source, config)

    async def profile(self, source: str, language: str, task: Any) -> str:
        return await self._said("profile", source)


async def talked(
    *replies: Reply, shop: Any = None, allowance: Allowance = SMALL, request: Any = None, arm: Arm = ARM
) -> Any:
    request = request or request_of(parents=[candidate("1-0", 1.1)])
    async with serve(script(*replies)) as server:
        agent = AnthropicAgent(client_of(server), (arm,), shop or ScriptedWorkshop(), allowance)
        ledger, live = Ledger(agent.bound(request)), Watcher()
        answer = await agent.propose(request, ledger, live)
        assert ledger.open_bound is None
        assert all(value >= -1e-9 for value in (ledger.reserved - ledger.spent).to_json().values())
        return answer, ledger, server


def results(server: Any) -> list[str]:
    """What the tools answered, as the last request repeats it."""
    turns = [item["content"] for item in server.served[-1].body["messages"][1:] if item["role"] == "user"]
    return [block["content"] for content in turns if isinstance(content, list) for block in content]


async def test_it_works_with_its_tools_and_submits() -> None:
    shop = ScriptedWorkshop()
    work = (
        call("compile", source=CODE),
        call("check", source=CODE),
        call("time", source=CODE, config=CONFIG.key),
        call("profile", source=CODE),
    )
    answer, ledger, server = await talked(*work, SUBMIT, shop=shop)
    assert isinstance(answer, Proposal)
    assert (answer.source, answer.name, answer.thought, answer.arm) == (CODE, "tiles", "fewer passes", ARM.name)
    assert shop.asked == [("compile", CODE), ("check", CODE), ("time", CODE, CONFIG.key), ("profile", CODE)]
    assert results(server) == ["compile answered", "check answered", "time answered", "profile answered"]
    assert [said["tool"] for said, _ in ledger.tools] == ["compile", "check", "time", "profile", "submit"]
    assert [said["turn"] for said, _ in ledger.tools] == [1, 2, 3, 4, 5]
    assert {source for _, source in ledger.tools} == {CODE}
    billed = sum(calculated_usd(ARM.model, item.billed) for item in server.served)
    assert ledger.spent.usd == pytest.approx(billed, abs=1e-9)


async def test_a_conversation_repeats_itself_byte_for_byte() -> None:
    _, _, server = await talked(call("read_task"), call("compile", source=CODE), SUBMIT)
    first, second, third = (item.body for item in server.served)
    assert [tool["name"] for tool in first["tools"]] == [tool["name"] for tool in TOOLS]
    assert "tool_choice" not in first
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert third["messages"][: len(second["messages"])] == second["messages"]
    assert (first["system"], first["tools"]) == (third["system"], third["tools"])


async def test_thinking_is_repeated_with_its_signature_and_empty_text_is_not() -> None:
    thinking = Reply(text="", thinking="hm", tool="read_task", tool_json="{}", stop_reason="tool_use")
    _, _, server = await talked(thinking, SUBMIT)
    spoken = server.served[1].body["messages"][1]["content"]
    assert [block["type"] for block in spoken] == ["thinking", "tool_use"]
    assert spoken[0] == {"type": "thinking", "thinking": "hm", "signature": ""}


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (call("read_task"), "# Task mnist_linear_relu/forward"),
        (call("time", source=CODE, config="hidden 1"), "There is no such configuration. The configurations are: "),
        (call("format_disk", source=CODE), "There is no tool 'format_disk'"),
        (call("compile"), "There is no tool 'compile' that takes these arguments"),
        (call("compile", source=7), "The source is empty."),
        (call("check", source="int a;\x00"), "The source holds control characters"),
        (call("search_library", words="linear"), "The library has no kernel of a related task."),
        (Reply(text="I am thinking about it."), None),
    ],
)
async def test_whatever_is_called_is_answered(reply: Reply, said: str | None) -> None:
    shop = ScriptedWorkshop()
    answer, _, server = await talked(reply, SUBMIT, shop=shop)
    assert isinstance(answer, Proposal)
    assert shop.asked == []
    if said is None:
        assert server.served[1].body["messages"][2]["content"] == "Call a tool. Only `submit` is an answer."
    else:
        assert said in results(server)[0]


async def test_the_library_holds_what_the_run_was_told() -> None:
    kernels = tuple(
        PastKernel(f"{op}/forward", "cpu", 1.5, ("own",), keep(f"// {op}\n")) for op in ("layernorm", "unet_linear")
    )
    request = replace(request_of(), memory=RunMemory(kernels=kernels))
    _, _, server = await talked(call("search_library", words="unet_linear/forward"), SUBMIT, request=request)
    (text,) = results(server)
    assert text.index("// unet_linear") < text.index("// layernorm")


async def test_a_tool_that_is_slow_or_breaks_costs_a_call_and_no_more() -> None:
    slow = Allowance(turns=3, usd=0.5, tool_s=0.05)
    answer, ledger, server = await talked(
        call("compile", source=CODE), SUBMIT, shop=ScriptedWorkshop(pause_s=30), allowance=slow
    )
    assert isinstance(answer, Proposal)
    assert results(server) == ["It took more than 0 s and was ended."]
    assert 0 < ledger.spent.judging_s <= 0.05 + 1e-9
    answer, _, server = await talked(call("compile", source=CODE), SUBMIT, shop=ScriptedWorkshop(breaks=True))
    assert isinstance(answer, Proposal)
    assert results(server) == ["The tool failed: OSError."]


async def test_without_time_on_the_device_nothing_is_measured() -> None:
    none_left = Allowance(turns=4, usd=0.5, device_s=0.02, tool_s=0.02)
    shop = ScriptedWorkshop(pause_s=1)
    work = call("compile", source=CODE)
    answer, ledger, server = await talked(work, work, SUBMIT, shop=shop, allowance=none_left)
    assert isinstance(answer, Proposal)
    assert len(shop.asked) == 1
    assert "No time on the device is left" in results(server)[1]
    assert ledger.spent.judging_s == pytest.approx(0.02)


async def test_turns_end_with_what_was_checked_or_with_a_refusal() -> None:
    answer, _, server = await talked(call("check", source=CODE))
    assert isinstance(answer, Proposal)
    assert (answer.source, answer.name) == (CODE, "last checked")
    assert len(server.served) == SMALL.turns
    answer, _, _ = await talked(call("check", source=CODE), shop=ScriptedWorkshop(passes=False))
    assert isinstance(answer, NoProposal)
    assert (answer.reason, answer.text) == ("empty", "the agent has not submitted a kernel within its allowance")


async def test_it_ends_before_a_request_that_does_not_fit() -> None:
    tight = Allowance(turns=50, usd=0.000001, input_tokens=1, output_tokens=1)
    answer, ledger, server = await talked(call("read_task"), allowance=tight)
    assert isinstance(answer, NoProposal)
    assert 1 <= len(server.served) < 50
    assert ledger.spent.usd <= ledger.reserved.usd


@pytest.mark.parametrize(
    ("reply", "reason", "pause"),
    [
        (Reply(text=" ", stop_reason="max_tokens"), "too_long", False),
        (Reply(text="no", stop_reason="refusal"), "provider_error", False),
        (Reply(text="no", stop_reason="pause_turn"), "provider_error", False),
        (Reply(text="", tool="compile", tool_json='{"source": "x', fault="eof"), "provider_error", False),
        (Reply(text="", tool="compile", tool_json='{"a": 1}', fault="garbage"), "provider_error", False),
        (Reply(text="", tool="compile", tool_json='{"a": 1}', fault="reset"), "provider_error", False),
        (Reply(text="", tool="c", tool_json=json.dumps({"a": "y" * 300_000}), piece_chars=50_000), "too_long", False),
        (error(529, "overloaded_error"), "provider_error", False),
        (error(429, "rate_limit_error", retry_after="3600"), "provider_error", False),
        (error(402, "billing_error"), "provider_error", True),
        (error(401, "authentication_error"), "provider_error", True),
        (error(400, "invalid_request_error"), "provider_error", True),
    ],
)
@pytest.mark.parametrize("turn", [1, 2])
async def test_every_failure_ends_the_candidate_with_its_reason(
    reply: Reply, reason: str, pause: bool, turn: int
) -> None:
    before = [call("check", source=CODE)] * (turn - 1)
    answer, ledger, _ = await talked(*before, reply)
    assert isinstance(answer, NoProposal)
    assert (answer.reason, answer.pause) == (reason, pause)
    assert len(ledger.tools) == turn - 1


async def test_an_overloaded_vendor_in_mid_conversation_is_asked_again() -> None:
    answer, ledger, _ = await talked(call("read_task"), error(529, "overloaded_error"), SUBMIT)
    assert isinstance(answer, Proposal)
    assert [status for status, _, _ in ledger.attempts] == [200, 529, 200]


def test_the_bound_is_half_of_what_is_left_and_at_least_one_request() -> None:
    server = type("Server", (), {"url": "http://127.0.0.1:1"})
    agent = AnthropicAgent(client_of(server), (ARM,), AbsentWorkshop(), Allowance())
    assert agent.bound(request_of(budget=Caps(judgings=3))) == Allowance().cost
    few = agent.bound(request_of(budget=Caps(usd=0.4, judging_s=30.0)))
    assert (few.usd, few.judging_s) == (0.2, 15.0)
    least = agent.bound(request_of(budget=Caps(usd=0.000001, output_tokens=2)))
    assert 0.000001 < least.usd < 0.1
    assert least.output_tokens == 2 * ARM.max_tokens


async def run_of_agents(caps: Caps, decide: Any) -> MemoryLog:
    log = MemoryLog()
    create(log, RunConfig(TASK.name, proposer="anthropic-agent", caps=caps, concurrency=2, generation_size=2), {})
    async with serve(decide) as server:
        agent = AnthropicAgent(client_of(server), (ARM,), ScriptedWorkshop(), Allowance(turns=4, usd=0.05))
        await drive(log, agent, [], world.Judge(), Watcher(), world.always_go, task=TASK)  # type: ignore[arg-type]
    return log


def working(body: dict[str, Any], number: int) -> Reply:
    """Reads, checks and submits; now and then the vendor fails."""
    turns = len(body["messages"]) // 2
    code = world.kernel(number % 90, 50, 60 + number % 7)
    if number % 11 == 7:
        return error(529, "overloaded_error", retry_after="0")
    return (call("read_task"), call("check", source=code), call("submit", source=code, name="k", thought="t"))[turns]


@pytest.mark.parametrize(
    "caps",
    [
        Caps(judgings=5),
        Caps(judgings=6, usd=0.02),
        Caps(judgings=4, judging_s=450.0),
        Caps(judgings=6, output_tokens=9_000),
    ],
)
async def test_a_run_passes_no_cap_and_leaves_no_reservation(caps: Caps) -> None:
    log = await run_of_agents(caps, working)
    state = RunState.fold(log.read(), log.get_source)
    assert state.status == "finished"
    assert passed(log.read(), caps) == []
    assert state.budget.leases == {}
    called = world.of_type(log.read(), "tool.called")
    assert {event.payload["tool"] for event in called} == {"read_task", "check", "submit"}
    kept = [event.payload["source_sha256"] for event in called if event.payload["tool"] == "check"]
    assert all(log.get_source(sha256) for sha256 in kept)


async def test_after_a_crash_the_first_conversation_counts_in_full() -> None:
    log = await run_of_agents(Caps(judgings=2), working)
    events = log.read()
    called = next(event for event in events if event.type == "tool.called")
    broken = MemoryLog()
    broken._events, broken._sources = events[: called.seq], dict(log._sources)
    before = RunState.fold(broken.read(), broken.get_source)
    lease = before.budget.leases[f"{called.candidate}/propose"]
    async with serve(working) as server:
        agent = AnthropicAgent(client_of(server), (ARM,), ScriptedWorkshop(), Allowance(turns=4, usd=0.05))
        await drive(broken, agent, [], world.Judge(), Watcher(), world.always_go, task=TASK)  # type: ignore[arg-type]
    state = RunState.fold(broken.read(), broken.get_source)
    assert state.status == "finished"
    assert state.budget.leases == {}
    assert state.archive.candidates[str(called.candidate)].cost.usd >= lease.usd


def test_it_is_found_by_name_and_its_allowance_is_checked(tmp_path: Any) -> None:
    config = RunConfig(TASK.name, proposer="anthropic-agent", caps=Caps(usd=1.0), options={"allowance": {"turns": 3}})
    found = find_proposer(config, {"api_key": "k", "data": tmp_path, "device": "cpu"})
    assert isinstance(found, AnthropicAgent)
    assert (found.allowance.turns, found.name, found.needs_key) == (3, "anthropic-agent", True)
    assert isinstance(found.workshop, DeviceWorkshop)
    for wrong in ({"turns": 0}, {"dollars": 1}, ["a"]):
        with pytest.raises(ConfigError, match="the allowance of a candidate has turns"):
            Allowance.of_options({"allowance": wrong})


async def test_without_the_device_the_tools_say_so() -> None:
    shop = workshop_of({"data": "x", "device": "cpu", "elsewhere": True})
    assert isinstance(shop, AbsentWorkshop)
    assert await shop.compile(CODE, "cpp", TASK) == ABSENT
    assert await shop.check(CODE, "cpp", TASK) == (False, ABSENT)
    assert await shop.time(CODE, "cpp", TASK, CONFIG.key) == ABSENT
