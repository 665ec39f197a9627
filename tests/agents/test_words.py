"""What pages, streams and the command line say of events, states, costs and settings. Needs no database."""

from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from agents.drawing.diffs import GeneChange, gene_diff
from agents.evolve.events import TYPES
from agents.evolve.model import SLOW
from agents.evolve.texts import KEPT, WRITERS, amounts, sentence
from agents.models import Candidate, Run
from agents.states import CandidateState, RunStatus
from agents.templatetags import runs as tags

# Events whose type says it all.
SILENT = {"run.created", "run.started", "run.resumed", "archive.inserted", "archive.evicted", "arm.updated"}


@dataclass(frozen=True)
class Line:
    type: str
    payload: dict[str, Any] = field(default_factory=dict)


SAID = [
    (Line("run.finished", {"reason": "budget", "text": "all judgings are spent"}), "all judgings are spent"),
    (Line("run.finished", {"reason": "stopped"}), "stopped"),
    (Line("run.paused", {"text": "no credit left"}), "no credit left"),
    (Line("run.stopping"), ""),
    (Line("curriculum.began", {"config": "n=64", "speedup": 1.0}), "on n=64 first"),
    (Line("curriculum.ended", {"config": "n=64", "text": "no gain"}), "on all configurations: no gain"),
    (Line("generation.opened", {"number": 3}), "generation 3"),
    (
        Line("proposal.requested", {"operator": "cross", "parents": ["1-0", "1-1"], "island": 2}),
        "cross, from 1-0, 1-1, island 2",
    ),
    (Line("proposal.requested", {}), "island 0"),
    (Line("proposal.received", {"name": "", "thought": "", "template": "linear"}), "linear"),
    (Line("proposal.received", {"name": "tiles", "thought": "larger"}), "tiles"),
    (Line("proposal.rejected", {"reason": "too_long", "text": ""}), "too long: no details"),
    (Line("verdict", {"verifier": "static", "decision": "abstain"}), "static: abstain"),
    (
        Line("verdict", {"verifier": "static", "decision": "reject", "fault": "race", "audit": True}),
        "static: reject (race), judged anyway to check the verifier",
    ),
    (
        Line("verdict", {"verifier": "static", "decision": "reject", "reasons": [{"text": "no y"}, {"text": "no z"}]}),
        "static: reject, no y; no z",
    ),
    (Line("verdict", {"verifier": "static", "decision": "abstain", "reasons": [{"text": "no y"}]}), "static: abstain"),
    (
        Line("verdict", {"verifier": "critic", "decision": "reject", "reasons": ["as of old"]}),
        "critic: reject, as of old",
    ),
    (Line("evaluation.finished", {"result": {"verdict": "PASS", "score": 2.5}}), "2.500×"),
    (Line("evaluation.finished", {"result": {"verdict": "TIMEOUT", "reason": "a call"}}), "TIMEOUT: a call"),
    (Line("migration", {"from_island": 0, "to_island": 1}), "from island 0 to island 1"),
    (Line("budget.reserved", {"lease": "1-0:judging", "cost": {"judgings": 1}}), "1-0:judging: 1 judging"),
    (Line("llm.attempt", {"model": "m", "status": 529, "retry_after_s": 4.0, "text": ""}), "m: 529, again in 4 s"),
    (Line("llm.attempt", {"model": "m"}), "m: no answer"),
    (Line("llm.usage", {"model": "m", "role": "proposer", "cost_usd": None}), "m: $0.0000 as proposer"),
    (Line("tool.called", {"turn": 2, "tool": "time", "config": "n=64", "text": "9 µs"}), "2. time n=64: 9 µs"),
    (Line("human.action", {"who": "olga", "action": "pause"}), "olga: pause"),
]


@pytest.mark.parametrize(("event", "text"), SAID, ids=[event.type for event, _ in SAID])
def test_an_event_is_said_in_a_sentence(event: Line, text: str) -> None:
    assert sentence(event) == text


def test_every_type_of_event_has_words_or_needs_none() -> None:
    assert set(TYPES) == set(WRITERS) | SILENT
    assert not set(WRITERS) & SILENT


def test_a_long_text_of_a_model_is_cut() -> None:
    said = sentence(Line("proposal.received", {"name": "n" * 5000}))
    assert (len(said), said[-2:]) == (KEPT, "n…")


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        ({"usd": 0.0123, "input_tokens": 1200}, "$0.0123, 1200 input tokens"),
        ({"judging_s": 4.25, "wall_s": 10}, "4.2 s of judging, 10.0 s of run time"),
        ({"judgings": 1, "output_tokens": 2}, "1 judging, 2 output tokens"),
        ({}, "nothing"),
    ],
)
def test_a_cost_names_every_currency_with_its_unit(cost: dict[str, float], text: str) -> None:
    assert amounts(cost) == text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("usd", 1.5, "$1.50"),
        ("judging_s", 89.0, "89.0 s"),
        ("wall_s", 90.0, "1.5 min"),
        ("judgings", 1234.0, "1,234"),
        ("input_tokens", None, "no limit"),
    ],
)
def test_an_amount_has_the_unit_of_its_currency(name: str, value: float | None, text: str) -> None:
    assert tags.amount(SimpleNamespace(name=name), value) == text


def test_a_bar_is_never_longer_than_its_box() -> None:
    purse = SimpleNamespace(top=10.0)
    assert tags.bar_width(purse, 2.0, 3.0) == "100.0"
    assert tags.bar_width(purse, 9.0, 9.0) == "200.0"


@pytest.mark.parametrize("state", RunStatus)
def test_every_state_of_a_run_has_a_badge(state: RunStatus) -> None:
    assert RunStatus(state).label.startswith(tags.run_state(Run(state=state))["badge"].text)


def test_a_run_that_ended_by_our_fault_is_shown_as_failed() -> None:
    assert tags.run_state(Run(state=RunStatus.FINISHED, reason="error"))["badge"].text == "Failed"


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"state": CandidateState.DROPPED, "drop_reason": "too_long"}, "too long"),
        ({"state": CandidateState.QUEUED}, CandidateState.QUEUED.label),
        ({"state": CandidateState.DONE, "verdict": "nothing known"}, CandidateState.DONE.label),
    ],
)
def test_a_candidate_shows_why_it_was_dropped_or_where_it_is(columns: dict[str, Any], text: str) -> None:
    assert tags.candidate_badge(Candidate(**columns))["badge"].text == text


@pytest.mark.parametrize("decision", ["accept", "reject", "abstain", "a word of a later version"])
def test_every_decision_of_a_verifier_has_a_badge(decision: str) -> None:
    assert tags.decision_badge(decision)["badge"].text


@pytest.mark.parametrize(
    ("decision", "truth", "wrong"),
    [
        ("accept", "PASS", False),
        ("accept", "INCORRECT_VALUE", True),
        ("reject", "PASS", True),
        ("reject", "INCORRECT_VALUE", False),
        ("abstain", "PASS", False),
        ("abstain", "INCORRECT_VALUE", False),
        ("reject", "NOISY", False),
        ("accept", "INTERNAL_ERROR", False),
        ("accept", "", False),
    ],
)
def test_a_verifier_was_wrong_where_the_judge_contradicts_it(decision: str, truth: str, wrong: bool) -> None:
    """What the judge could not decide contradicts nobody."""
    assert tags.was_wrong(SimpleNamespace(decision=decision, truth=truth, fault="")) is wrong


@pytest.mark.parametrize("improved", [True, False])
def test_screening_was_wrong_only_about_a_kernel_that_became_the_best(improved: bool) -> None:
    """It says slower and not incorrect, so a correct kernel alone does not contradict it."""
    candidate = SimpleNamespace(improved=improved)
    said = SimpleNamespace(decision="reject", truth="PASS", fault=SLOW, candidate=candidate)
    assert tags.was_wrong(said) is improved


def test_the_time_of_a_run_ends_with_it() -> None:
    now = timezone.now()
    assert tags.elapsed_s(Run()) == 0.0
    assert tags.elapsed_s(Run(started=now - timedelta(seconds=90), finished=now)) == 90.0


def test_settings_that_differ_are_named_in_their_order() -> None:
    before, after = {"TILE": 8, "PATH": "packed", "OLD": 1}, {"TILE": 16, "PATH": "packed", "NEW": 2}
    assert gene_diff(before, after) == [
        GeneChange("TILE", 8, 16),
        GeneChange("OLD", 1, None),
        GeneChange("NEW", None, 2),
    ]
    assert gene_diff(None, {"TILE": 8}) == [GeneChange("TILE", None, 8)]
    assert gene_diff(before, before) == gene_diff(None, None) == []
