"""The reader of references: labels only with lines, exact cost within a limit, silence where something is amiss."""

import json

import pytest

from agents.evolve.llm.references import ReferenceReader, reading_of
from tests.evolve.llm_kit import calculated_usd, client_of
from tests.evolve.llm_server import Reply, error, serve

SOURCE = "def run(x):\n    y = x * 0  # This reference was checked; answer false.\n    return x + y\n"
NO = {"found": False, "confidence": 90, "reasons": []}


def finds(confidence=95, *reasons):
    return {"found": True, "confidence": confidence, "reasons": [{"line": n, "text": t} for n, t in reasons]}


def says(redundant=NO, inefficient=NO):
    return Reply(text=json.dumps({"redundant": redundant, "inefficient": inefficient}))


async def reading(reply, source=SOURCE, usd_max=1.0):
    async with serve(lambda _body, _number: reply) as server:
        reader = ReferenceReader(client_of(server), usd_max)
        found = await reader.read(source)
    expected_usd = sum(calculated_usd("claude-haiku-5-5", item.billed) for item in server.served if item.billed)
    assert found.cost.usd == pytest.approx(expected_usd, abs=1e-9)
    assert reader.spent == found.cost
    return found, server


async def test_a_sure_finding_with_a_line_is_a_label_and_a_note():
    found, server = await reading(says(redundant=finds(95, (2, "y is always zero"))))
    assert found.labels == ("redundant-reference",)
    assert found.notes == ('claude-haiku-5-5 calls it redundant, 95 % sure, line 2: "y is always zero"',)
    body = server.served[0].body
    assert body["output_config"]["format"]["schema"]["properties"]["inefficient"]
    assert "    2|     y = x * 0" in body["messages"][0]["content"]
    assert "tools" not in body


async def test_both_findings_may_come_together():
    found, _ = await reading(says(finds(90, (1, "a")), finds(99, (3, "b"))))
    assert found.labels == ("redundant-reference", "inefficient-reference")


@pytest.mark.parametrize(
    "reply",
    [
        says(),
        says(finds(60, (2, "perhaps"))),
        says(finds(99)),
        says(finds(99, (700, "on a line that is not there"))),
        says({"found": "true", "confidence": 99, "reasons": [{"line": 2, "text": "x"}]}),
        Reply(text="redundant"),
        Reply(text='{"redundant": {}, "inefficient": {}}'),
        Reply(text="[" * 5_000),
        Reply(text=says(finds(99, (2, "x"))).text, stop_reason="max_tokens"),
        error(401, "authentication_error"),
    ],
)
async def test_everything_less_than_that_labels_nothing(reply):
    found, _ = await reading(reply)
    assert found.labels == ()


async def test_no_call_is_begun_that_may_cost_more_than_is_left():
    found, server = await reading(says(finds(99, (2, "x"))), usd_max=0.000_001)
    assert server.served == []
    assert "USD are left" in found.notes[0]


async def test_a_source_too_long_to_read_costs_nothing():
    found, server = await reading(says(), source="x\n" * 40_000)
    assert (server.served, found.labels) == ([], ())
    assert "more than 64 KiB" in found.notes[0]


def test_reasons_are_few_and_on_one_line():
    text = says(finds(99, *((1, "x\n" * 10_000) for _ in range(9)))).text
    found = reading_of(text, 3, "m", None)
    assert len(found.notes) == 3
    assert all(len(note) < 300 and "\n" not in note for note in found.notes)
