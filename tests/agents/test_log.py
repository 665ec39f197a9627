"""The log in the database: dense, all or nothing, one writer; tables and log say the same."""

import uuid
from typing import Any

import pytest

from agents.evolve.budget import Caps
from agents.evolve.events import Draft
from agents.evolve.state import RunState as EngineState
from agents.models import Candidate, Opinion, Run, RunEvent
from agents.record import log as log_of_runs
from agents.record import projection
from agents.record.log import DbLog, RunClaimLost
from agents.record.snapshots import past, present

from . import factories

NOTE = Draft("note", None, {"text": "hello"})
SAME = ("key", "position", "state", "verdict", "score", "island", "parents", "drop_reason", "judged_as", "improved")


def test_events_are_numbered_without_a_gap() -> None:
    holding = factories.claimed(factories.started())
    holding.log.append([NOTE, NOTE])
    holding.log.append([NOTE])
    assert [event.seq for event in holding.log.read()] == [1, 2, 3, 4]
    assert [event.seq for event in holding.log.read(after=2)] == [3, 4]


def test_of_two_writers_the_one_without_the_claim_loses() -> None:
    run = factories.started()
    holding = factories.claimed(run)
    with pytest.raises(RunClaimLost):
        DbLog(run, uuid.uuid4()).append([NOTE])
    assert [event.type for event in holding.log.read()] == ["run.created"]


def test_an_append_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    holding = factories.claimed(factories.started())

    def broken(*_: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setitem(projection.HANDLERS, "note", broken)
    with pytest.raises(OSError, match="disk"):
        holding.log.append([Draft("run.started", None, {}), NOTE])
    run = Run.objects.get()
    assert (run.last_seq, run.state, RunEvent.objects.count()) == (1, "waiting", 1)


def test_a_source_is_kept_once_and_found_by_its_sha256() -> None:
    log = factories.claimed(factories.started()).log
    assert log.put_source("text") == log.put_source("text")
    assert log.get_source(log.put_source("text")) == "text"
    with pytest.raises(KeyError):
        log.get_source("0" * 64)


def test_the_tables_say_what_the_engine_folds() -> None:
    run = factories.driven(caps=Caps(judgings=30, wall_s=500))
    state = EngineState.fold(log_of_runs.read(run.pk), log_of_runs.source)
    assert (run.best_key, run.best_score) == (state.best.id, state.best.score)  # type: ignore[union-attr]
    assert run.spent == state.budget.spent.to_json()
    assert run.leases == {}
    assert (run.state, run.reason, run.reason_text) == ("finished", state.reason, state.text)
    assert {row.key for row in run.candidates.all()} == set(state.archive.candidates)
    for row in run.candidates.all():
        candidate = state.archive.candidates[row.key]
        assert row.source_sha256 == (candidate.source_sha256 or "")
        assert row.verdict == (candidate.result.verdict if candidate.result else "")


def test_whatever_the_batches_the_tables_are_the_same() -> None:
    """Events that come one by one give what they give in one transaction."""
    whole = factories.driven()
    run = factories.started()
    events, memory = factories.searched()
    log = factories.claimed(run).log
    for event in events[1:]:
        factories.fill(log, [event], memory)
    rows = [list(Candidate.objects.filter(run=item).values_list(*SAME)) for item in (whole, run)]
    assert rows[0] == rows[1]


def test_the_past_is_folded_to_what_the_tables_were() -> None:
    run = factories.driven()
    now, folded = present(run), past(run, run.last_seq)
    assert [[getattr(row, name) for name in SAME] for row in now.rows] == [
        [getattr(row, name) for name in SAME] for row in folded.rows
    ]
    half = factories.driven(until=80)
    assert [row.state for row in past(run, 80).rows] == [row.state for row in present(half).rows]


def test_opinions_learn_the_truth_from_the_judge() -> None:
    run = factories.driven(caps=Caps(judgings=40))
    judged = Opinion.objects.filter(run=run, candidate__state="done")
    assert judged.exists()
    assert all(item.truth == item.candidate.verdict for item in judged.select_related("candidate"))
    assert not Opinion.objects.filter(run=run, candidate__state="dropped").exclude(truth="").exists()
