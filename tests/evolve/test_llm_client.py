"""Every way in which a call can go, through the real SDK to a server on this machine: events, cost, final state."""

import asyncio

import httpx2
import pytest

from agents.evolve.budget import Cost
from agents.evolve.llm.client import Access, LlmClient
from agents.evolve.llm.outcomes import Failure, Kind
from tests.evolve.llm_kit import KEY, PRICES, Clock, Ledger, Watcher, ask, calculated_usd, client_of
from tests.evolve.llm_server import Reply, error, script, serve


async def call(server, request=None, clock=None, live=None, **patience):
    """The completion or the failure, and the meter."""
    request = request or ask()
    client = client_of(server, clock, **patience)
    ledger = Ledger(client.bound(request))
    try:
        outcome = await client.call(request, ledger, live or Watcher())
    except Failure as failure:
        outcome = failure
    assert ledger.open_bound is None
    return outcome, ledger


async def gone(server):
    """The server notices that nobody listens any more."""
    async with asyncio.timeout(10):
        while server.served[0].open:
            await asyncio.sleep(0.005)
    assert server.served[0].disconnected


async def outcome_of(*replies, **options):
    async with serve(script(*replies)) as server:
        outcome, ledger = await call(server, **options)
        return outcome, ledger, server


async def test_it_assembles_text_thinking_and_tool_input_and_ignores_what_it_does_not_know():
    reply = Reply(text="NAME: ä kernel 🙂", thinking="let me see", tool_json='{"lines": [1, 2]}', noise=True)
    outcome, ledger, server = await outcome_of(reply)
    assert (outcome.text, outcome.thinking) == ("NAME: ä kernel 🙂", "let me see")
    assert outcome.tool_inputs == ({"lines": [1, 2]},)
    assert ledger.attempts == [(200, "", None)]
    expected_usd = calculated_usd("claude-sonnet-5-5", server.served[0].billed)
    assert ledger.spent.usd == pytest.approx(expected_usd, abs=1e-9)


async def test_it_asks_in_the_form_that_the_vendor_takes():
    _, _, server = await outcome_of(Reply(), request=ask(effort="high", schema={"type": "object"}))
    served = server.served[0]
    assert served.headers["authorization"] == f"Bearer {KEY}"
    assert served.body["stream"] is True
    assert served.body["output_config"]["effort"] == "high"
    assert served.body["output_config"]["format"] == {"type": "json_schema", "schema": {"type": "object"}}
    assert served.body["system"][0]["cache_control"] == {"type": "ephemeral"}
    assert not {"temperature", "top_p", "top_k", "tool_choice"} & set(served.body)


@pytest.mark.parametrize("own_transport", [True, False])
async def test_a_redirect_is_not_followed_so_key_and_prompt_stay(own_transport, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    follows = (lambda: httpx2.AsyncClient(trust_env=False, follow_redirects=True)) if own_transport else None
    async with serve(script(Reply())) as other:
        target = f"{other.url}/v1/messages"
        async with serve(script(error(307, "", location=target))) as server:
            client = LlmClient(Access(KEY, server.url, http_client=follows), PRICES)
            ledger = Ledger(client.bound(ask()))
            with pytest.raises(Failure, match=r"redirects to .* where the key is not sent") as failed:
                await client.call(ask(), ledger, Watcher())
    assert failed.value.needs_person
    assert (len(server.served), other.served, ledger.spent) == (1, [], Cost())


async def test_thinking_is_asked_for_in_words_where_somebody_may_watch():
    _, _, server = await outcome_of(Reply())
    assert server.served[0].body["thinking"] == {"type": "adaptive", "display": "summarized"}


async def test_deltas_are_told_at_most_ten_times_a_second_and_whole():
    clock, live = Clock(), Watcher()
    outcome, _, _ = await outcome_of(Reply(text="x" * 500, piece_chars=5), clock=clock, live=live)
    assert "".join(payload["text"] for _, payload in live.said) == outcome.text
    assert len(live.said) == 2  # the first piece and, as this clock stands still, all others at the end
    assert live.said[-1] == ("proposal.delta", {"text": "x" * 495, "chars": 500})


@pytest.mark.parametrize(
    ("headers", "waited_s"),
    [({"retry_after": "1"}, 1.0), ({"retry_after_ms": "2500"}, 2.5), ({}, 1.0), ({"retry_after": "nonsense"}, 1.0)],
)
async def test_a_rate_limit_is_waited_for_by_us_and_not_by_the_sdk(headers, waited_s):
    clock = Clock()
    outcome, ledger, server = await outcome_of(error(429, "rate_limit_error", **headers), Reply(), clock=clock)
    assert outcome.text == "hello"
    assert clock.slept_s == [waited_s]
    assert [status for status, _, _ in ledger.attempts] == [429, 200]
    assert (ledger.freed, len(ledger.usages), len(server.served)) == (1, 1, 2)


async def test_a_wait_beyond_our_patience_ends_the_call_at_once():
    clock = Clock()
    outcome, ledger, server = await outcome_of(error(429, "rate_limit_error", retry_after="3600"), clock=clock)
    assert (outcome.kind, outcome.retry_after_s) == (Kind.RATE_LIMITED, 3600.0)
    assert (clock.slept_s, len(server.served), ledger.spent) == ([], 1, Cost())


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (error(429, "rate_limit_error", code="enforced_spend_limit_reached"), Kind.SPEND_LIMIT),
        (error(402, "billing_error"), Kind.UNPAID),
        (error(400, "invalid_request_error"), Kind.BAD_REQUEST),
        (error(401, "authentication_error"), Kind.KEY_REFUSED),
        (error(403, "permission_error"), Kind.KEY_REFUSED),
        (error(404, "not_found_error"), Kind.MODEL_UNKNOWN),
        (error(413, "request_too_large"), Kind.TOO_LARGE),
    ],
)
async def test_what_only_a_person_can_mend_is_not_tried_again(reply, kind):
    clock = Clock()
    outcome, ledger, server = await outcome_of(reply, clock=clock)
    assert outcome.kind is kind
    assert outcome.needs_person
    assert (clock.slept_s, len(server.served), ledger.spent) == ([], 1, Cost())


async def test_overload_is_waited_out():
    clock = Clock()
    overloaded = error(529, "overloaded_error")
    outcome, ledger, _ = await outcome_of(overloaded, overloaded, error(500, "api_error"), Reply(), clock=clock)
    assert outcome.text == "hello"
    assert clock.slept_s == [1.0, 2.0, 4.0]
    assert [status for status, _, _ in ledger.attempts] == [529, 529, 500, 200]


async def test_overload_for_ever_opens_the_breaker_and_ends_within_patience():
    clock = Clock()
    outcome, ledger, server = await outcome_of(error(529, "overloaded_error"), clock=clock, waits_s=600.0)
    assert outcome.outage
    assert clock.now_s <= 600.0
    assert len(server.served) < 12  # without the breaker: one a minute and the first seven
    assert ledger.spent == Cost()


async def test_the_breaker_lets_one_call_find_out_and_closes_again():
    clock = Clock()
    down = [error(529, "overloaded_error")] * 6
    async with serve(script(*down, Reply())) as server:
        client = client_of(server, clock)
        calls = [client.call(ask(), Ledger(client.bound(ask())), Watcher()) for _ in range(4)]
        answers = await asyncio.gather(*calls)
    assert [answer.text for answer in answers] == ["hello"] * 4
    assert len(server.served) == 10


async def test_nobody_there_costs_nothing():
    clock = Clock()
    async with serve(script(Reply())) as server:
        pass
    outcome, ledger = await call(server, clock=clock, waits_s=60.0)
    assert outcome.outage
    assert (ledger.spent, ledger.usages) == (Cost(), [])
    assert ledger.freed == len(ledger.attempts) > 3


@pytest.mark.parametrize("fault", ["error", "eof", "abort", "reset", "garbage"])
@pytest.mark.parametrize("after_delta", [False, True])
async def test_a_stream_that_breaks_is_settled_asked_for_once_more_and_never_parsed(fault, after_delta):
    broken = Reply(text="CODE: half a ker", fault=fault, after_delta=after_delta)
    outcome, ledger, server = await outcome_of(broken, Reply())
    assert outcome.text == "hello"
    assert len(server.served) == 2
    told, cost = ledger.usages[0]
    billed = dict(server.served[0].billed)
    if fault != "reset":  # a reset may overtake what was sent before it
        assert told.get("assumed") == (None if after_delta else "output_tokens")
        counted = billed if after_delta else {**billed, "output_tokens": 1_000}
        assert cost.usd == pytest.approx(calculated_usd("claude-sonnet-5-5", counted), abs=1e-9)
    assert cost.usd >= calculated_usd("claude-sonnet-5-5", billed) - 1e-12


@pytest.mark.parametrize("fault", ["error", "eof", "abort", "reset", "garbage"])
async def test_a_stream_that_always_breaks_is_asked_for_twice_and_stays_within_its_bound(fault):
    outcome, ledger, server = await outcome_of(Reply(text="half", fault=fault))
    assert outcome.kind is (Kind.OVERLOADED if fault == "error" else Kind.CUT)
    assert len(server.served) == 2
    assert ledger.spent.usd <= ledger.reserved.usd


@pytest.mark.parametrize("fault", ["eof", "abort", "reset", "garbage"])
async def test_a_stream_that_breaks_before_it_starts_may_have_cost_everything(fault):
    outcome, ledger, _ = await outcome_of(Reply(fault=fault, before_start=True))
    assert outcome.kind is Kind.CUT
    assert [told for told, _ in ledger.usages] == [{"assumed": "all"}] * 2
    assert ledger.spent == ledger.reserved


async def test_overload_before_the_stream_starts_costs_nothing():
    outcome, ledger, _ = await outcome_of(Reply(fault="error", before_start=True), Reply())
    assert outcome.text == "hello"
    assert (ledger.freed, len(ledger.usages)) == (1, 1)


@pytest.mark.parametrize(
    ("stop_reason", "kind"),
    [
        ("max_tokens", Kind.MAX_TOKENS),
        ("refusal", Kind.REFUSAL),
        ("model_context_window_exceeded", Kind.CONTEXT_EXCEEDED),
        ("pause_turn", Kind.PAUSE_TURN),
        ("something_new", Kind.CUT),
    ],
)
async def test_each_stop_reason_has_its_outcome_and_its_exact_cost(stop_reason, kind):
    outcome, ledger, server = await outcome_of(Reply(stop_reason=stop_reason))
    assert outcome.kind is kind
    expected_usd = sum(calculated_usd("claude-sonnet-5-5", item.billed) for item in server.served)
    assert ledger.spent.usd == pytest.approx(expected_usd, abs=1e-9)


async def test_ten_megabytes_are_not_read_to_the_end():
    async with serve(script(Reply(text="x" * 10_000_000, piece_chars=20_000))) as server:
        outcome, ledger = await call(server)
        await gone(server)
    assert outcome.kind is Kind.FLOOD
    assert ledger.usages[0][0]["output_tokens"] == 1_000


async def test_a_cancelled_call_is_gone_in_a_moment_and_settled():
    async with serve(script(Reply(text="x" * 1_000, pause_s=0.02))) as server:
        client = client_of(server)
        ledger, live = Ledger(client.bound(ask())), Watcher()
        task = asyncio.create_task(client.call(ask(), ledger, live))
        while not live.said:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ledger.usages[0][0]["assumed"] == "output_tokens"
        assert ledger.open_bound is None
        await gone(server)


async def test_a_cancelled_wait_is_over_at_once():
    async with serve(script(error(529, "overloaded_error"))) as server:
        clock = Clock()
        client = client_of(server, clock)
        client._sleep = asyncio.sleep  # a real wait, which the cancellation cuts
        task = asyncio.create_task(client.call(ask(), Ledger(client.bound(ask())), Watcher()))
        while not server.served:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_stream_that_falls_silent_counts_as_dead():
    outcome, ledger, _ = await outcome_of(Reply(fault="hang"), silence_s=0.1)
    assert outcome.kind is Kind.CUT
    assert len(ledger.usages) == 2


async def test_one_call_warms_the_prefix_for_the_others():
    request = ask(system=("rules " * 600, "task " * 600))
    async with serve(script(Reply(text="x" * 50, pause_s=0.001))) as server:
        client = client_of(server)
        ledgers = [Ledger(client.bound(request)) for _ in range(8)]
        await asyncio.gather(*(client.call(request, ledger, Watcher()) for ledger in ledgers))
    written = [item.billed["cache_write_5m_tokens"] for item in server.served]
    read = [item.billed["cache_read_tokens"] for item in server.served]
    assert sum(count > 0 for count in written) == 1
    assert sum(read) > 0.8 * sum(sum(item.billed.values()) - item.billed["output_tokens"] for item in server.served)
    for ledger, item in zip(ledgers, server.served, strict=True):
        assert ledger.spent.usd == pytest.approx(calculated_usd(request.model, item.billed), abs=1e-9)


async def test_the_next_call_goes_ahead_where_the_first_one_fails():
    request = ask(system=("rules " * 600,))
    async with serve(script(error(400, "invalid_request_error"), Reply())) as server:
        client = client_of(server)
        calls = [client.call(request, Ledger(client.bound(request)), Watcher()) for _ in range(3)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(item, Failure) for item in outcomes] == [True, False, False]


async def test_a_server_that_repeats_the_key_does_not_bring_it_into_the_log():
    outcome, ledger, _ = await outcome_of(error(401, "authentication_error", message=f"{KEY} is wrong"))
    assert KEY not in outcome.text
    assert KEY not in str(ledger.attempts)
    assert KEY not in repr(client_of(type("Server", (), {"url": "http://127.0.0.1:1"}))._access)
