"""From a request to a proposal or a refusal, through the real SDK; and when there is no key at all."""

import pytest

from agents.evolve.budget import Caps
from agents.evolve.config import ConfigError, RunConfig
from agents.evolve.llm.access import unavailable
from agents.evolve.llm.arms import Arm
from agents.evolve.model import Proposal
from agents.evolve.proposers import find_proposer
from agents.evolve.proposers.anthropic import Anthropic
from tests.evolve.llm_kit import Ledger, Watcher, calculated_usd, client_of
from tests.evolve.llm_requests import candidate, failed, request_of
from tests.evolve.llm_server import Reply, error, script, serve

ARM = Arm("claude-haiku-5-5", "low", "free", 4_000)
CODE = "#include <torch/extension.h>\nint forward() { return 1; }\n"
GOOD = f"NAME: rows\nTHOUGHT: fewer passes\nCODE:\n```cpp\n{CODE}```\n"


async def proposed(reply, request=None, **patience):
    request = request or request_of(parents=[candidate("1-0", 1.1), candidate("1-1", 1.5)])
    async with serve(script(*([reply] if isinstance(reply, Reply) else reply))) as server:
        proposer = Anthropic(client_of(server, **patience), (ARM,))
        ledger, live = Ledger(proposer.bound(request)), Watcher()
        answer = await proposer.propose(request, ledger, live)
        assert ledger.open_bound is None
        return answer, ledger, server


async def test_a_whole_file_is_a_proposal():
    answer, ledger, server = await proposed(Reply(text=GOOD))
    assert isinstance(answer, Proposal)
    assert (answer.source, answer.language, answer.name, answer.thought) == (CODE, "cpp", "rows", "fewer passes")
    assert (answer.parents, answer.arm) == (("1-1", "1-0"), ARM.name)
    assert ledger.spent.usd == pytest.approx(calculated_usd(ARM.model, server.served[0].billed), abs=1e-9)
    assert server.served[0].body["output_config"] == {"effort": "low"}


async def test_edits_are_made_in_the_fastest_kernel_shown():
    text = (
        "NAME: x\nTHOUGHT: y\nEDITS:\n<<<<<<< SEARCH\nint forward_1() { return 1; }\n=======\nint f;\n>>>>>>> REPLACE"
    )
    answer, _, _ = await proposed(Reply(text=text))
    assert answer.source == "// source of 1-1\nint f;\n"
    assert (answer.parents, answer.operator) == (("1-1",), "edit")


async def test_edits_of_the_last_failure_repair_it():
    text = "EDITS:\n<<<<<<< SEARCH\nint wrong;\n=======\nint right;\n>>>>>>> REPLACE"
    request = request_of(stage="translate", failure=failed("0-0"), generation=1)
    answer, _, _ = await proposed(Reply(text=text), request)
    assert answer.source == "// source of 0-0\nint right;\n"
    assert (answer.parents, answer.operator) == (("0-0",), "repair")


@pytest.mark.parametrize(
    ("reply", "reason", "pause"),
    [
        (Reply(text="I would rather talk about the weather."), "unparsable", False),
        (Reply(text=" "), "empty", False),
        (Reply(text="CODE:\n```\n```"), "empty", False),
        (Reply(text="CODE:\n```\n" + "x" * 10_000_000, piece_chars=50_000), "too_long", False),
        (Reply(text=GOOD[:-5]), "unparsable", False),
        (Reply(text=GOOD, stop_reason="max_tokens"), "too_long", False),
        (Reply(text=GOOD, stop_reason="refusal"), "provider_error", False),
        (Reply(text=GOOD, stop_reason="model_context_window_exceeded"), "too_long", False),
        (Reply(text=GOOD, stop_reason="pause_turn"), "provider_error", False),
        (Reply(text=GOOD, fault="eof"), "provider_error", False),
        (Reply(text="EDITS:\n<<<<<<< SEARCH\nnot there\n=======\nx\n>>>>>>> REPLACE"), "unparsable", False),
        (error(529, "overloaded_error"), "provider_error", False),
        (error(429, "rate_limit_error", retry_after="3600"), "provider_error", False),
        (error(429, "rate_limit_error", code="enforced_spend_limit_reached"), "provider_error", True),
        (error(402, "billing_error"), "provider_error", True),
        (error(401, "authentication_error"), "provider_error", True),
        (error(400, "invalid_request_error"), "provider_error", True),
        (error(413, "request_too_large"), "too_long", True),
    ],
)
async def test_whatever_is_no_kernel_is_a_refusal_with_its_reason(reply, reason, pause):
    answer, ledger, _ = await proposed(reply)
    assert (answer.reason, answer.pause) == (reason, pause)
    assert answer.text
    assert ledger.spent.usd <= ledger.reserved.usd


async def test_edits_without_a_kernel_to_edit_are_refused():
    text = "EDITS:\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE"
    answer, _, _ = await proposed(Reply(text=text), request_of(stage="translate"))
    assert answer.reason == "no_parent"


def test_the_bound_is_that_of_the_call_that_is_made_and_free_to_ask():
    proposer = Anthropic(client_of(type("Server", (), {"url": "http://127.0.0.1:1"})), (ARM,))
    request = request_of(parents=[candidate("1-0", 1.1)])
    assert proposer.bound(request) == proposer.bound(request)
    assert proposer.bound(request).output_tokens == 2 * ARM.max_tokens


CONFIG = RunConfig("mnist_linear_relu/forward", proposer="anthropic", caps=Caps(usd=1.0))


@pytest.mark.parametrize("key", [None, "", "  "])
def test_without_a_key_it_says_so_and_nothing_else_is_asked(key, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a key that nobody handed over")
    assert "ANTHROPIC_API_KEY" in unavailable({"api_key": key})
    with pytest.raises(ConfigError, match="no key"):
        find_proposer(CONFIG, {"api_key": key})


def test_with_a_key_it_is_made_from_the_configuration():
    proposer = find_proposer(CONFIG, {"api_key": "k", "base_url": "http://127.0.0.1:1"})
    assert (proposer.name, proposer.needs_key) == ("anthropic", True)


def test_a_price_table_that_cannot_be_read_makes_it_unavailable(tmp_path):
    assert "cannot read" in unavailable({"api_key": "k", "prices": tmp_path / "none.toml"})
