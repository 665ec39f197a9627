"""Runs with bounded candidates beside replayed ones: the best is the one of which the most counts, and pages say why.

A kernel that could be replayed at 1.75× scores 1.92× when it avoids that; its interval reaches down to 1.55×.
"""

import uuid
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.test import Client

from agents import selectors, services
from agents.evolve.events import Draft
from agents.evolve.model import JudgeResult
from agents.evolve.slots import result_to_json
from agents.evolve.state import RunState as EngineState
from agents.library import remembered
from agents.models import RecordedRun, Run
from agents.record import log as log_of_runs
from agents.record.log import DbLog
from agents.record.snapshots import past, present
from agents.views import comparisons
from tests.evolve.test_archive import WORDS
from tests.web import factories as site
from tests.web.test_bounds import enter, found

from . import factories
from .test_library import told

REPLAYED = JudgeResult("PASS", "fine", 1.75, (1.73, 1.77), 1.75, timing_trust="replayed")
BOUNDED = JudgeResult("PASS", "fine", 1.92, (1.55, 1.94), 1.92, timing_trust="bounded")
FIRST, SECOND = "0-0", "0-1"


def judged(*results: JudgeResult) -> Run:
    """A run whose candidates were judged like this, one after the other."""
    version = site.version()
    order = services.RunRequest(version, site.gpu_kind(), factories.config(language="cuda", device_kind="x"), None)
    run = services.run_start(order)
    claim = uuid.uuid4()
    Run.objects.filter(pk=run.pk).update(claim=claim)
    log = DbLog(run, claim)
    factories._judge([str(uuid.uuid5(run.code, str(slot))) for slot in range(len(results))])
    log.append([Draft("run.started", None, {}), opened()])
    for slot, result in enumerate(results):
        for draft in candidate(log, run, slot, result):
            log.append([draft])
    Run.objects.filter(pk=run.pk).update(claim=None)
    run.refresh_from_db()
    return run


def again(run: Run, key: str, *results: JudgeResult) -> None:
    claim = uuid.uuid4()
    Run.objects.filter(pk=run.pk).update(claim=claim)
    for result in results:
        payload = {"number": 1, "lease": "again", "result": result_to_json(result)}
        DbLog(run, claim).append([Draft("confirmation.finished", key, payload)])
    Run.objects.filter(pk=run.pk).update(claim=None)


def opened() -> Draft:
    return Draft("generation.opened", None, {"number": 0, "base_seq": 2, "stage": "optimise"})


def candidate(log: DbLog, run: Run, slot: int, result: JudgeResult) -> list[Draft]:
    key, place = f"0-{slot}", {"generation": 0, "slot": slot, "island": 0}
    ticket = str(uuid.uuid5(run.code, str(slot)))
    sha256 = log.put_source(f"// {key}")
    named = {**place, **WORDS, "language": "cuda", "source_sha256": sha256, "parents": [], "cell": ["text"]}
    return [
        Draft("proposal.requested", key, {**place, "stage": "optimise", "parents": [], "probabilities": {}}),
        Draft("proposal.received", key, named),
        Draft("evaluation.submitted", key, {"key": key, "ticket": ticket}),
        Draft("evaluation.finished", key, {"result": result_to_json(result), "reused_from": None}),
    ]


@pytest.mark.parametrize(
    ("results", "best", "improved"),
    [((BOUNDED, REPLAYED), SECOND, [FIRST, SECOND]), ((REPLAYED, BOUNDED), FIRST, [FIRST])],
)
def test_tables_past_and_engine_agree_on_the_best(
    tasks: Any, results: tuple[JudgeResult, ...], best: str, improved: list[str]
) -> None:
    run = judged(*results)
    assert (run.best_key, run.best_score) == (best, 1.75)
    assert [row.key for row in present(run).improvements] == improved
    before = past(run, run.last_seq)
    assert (before.run.best_key, [row.key for row in before.improvements]) == (best, improved)
    state = EngineState.fold(log_of_runs.read(run.pk), log_of_runs.source)
    assert state.best is not None
    assert state.best.id == best
    assert [row.key for row in selectors.candidate_rows(present(run), "accepted", 1)] == [
        best,
        *{FIRST, SECOND} - {best},
    ]


def test_a_page_says_that_the_lower_end_counts(tasks: Any, visitor: Client) -> None:
    run, other = judged(BOUNDED, REPLAYED), judged(BOUNDED)
    page = " ".join(visitor.get(run.get_absolute_url()).content.decode().split())
    assert '<p class="score-number">1.75×</p>' in page
    assert "the lower end counts" in page
    assert "so the lower end of the interval counts" not in page
    alone = " ".join(visitor.get(other.get_absolute_url()).content.decode().split())
    assert '<p class="score-number">1.92×</p>' in alone
    assert "so the lower end of the interval counts" in alone
    assert "is where a step is drawn" in alone
    row = visitor.get(f"{other.get_absolute_url()}candidates/{FIRST}/").content.decode()
    assert "the lower end of the interval counts" in " ".join(row.split())
    compared = visitor.get(f"/runs/compare/?a={run.code}&b={other.code}").content.decode()
    assert compared.count("the lower end counts") == 1
    figures = comparisons.figures([present(run), present(other)])
    assert [item.to_common for item in figures] == [1, 1]
    assert [item.area for item in figures] == [pytest.approx(1.55), pytest.approx(1.55)]


def test_a_row_that_is_judged_again_has_the_pooled_score(tasks: Any, visitor: Client) -> None:
    lucky, steady = replace(REPLAYED, score=1.80, ci95=(1.78, 1.82)), REPLAYED
    run = judged(lucky, steady)
    assert run.best_key == FIRST
    again(run, FIRST, replace(REPLAYED, score=1.71, ci95=(1.69, 1.73)), BOUNDED, JudgeResult("NOISY", ""))
    again(run, SECOND, REPLAYED)
    run.refresh_from_db()
    state = EngineState.fold(log_of_runs.read(run.pk), log_of_runs.source)
    assert state.best is not None
    assert (run.best_key, run.best_score) == (state.best.id, state.best.score) == (FIRST, pytest.approx(1.75, abs=5e-3))
    for row in [*run.candidates.all(), *past(run, run.last_seq).rows]:
        known = state.archive.candidates[row.key].pooled
        assert known is not None
        assert (row.score, row.score_lo, row.score_hi) == (known.score, known.lo, known.hi)
        assert row.timing_trust == "replayed"
    assert run.candidates.get(key=FIRST).judgings == state.best.judgings == 3
    page = " ".join(visitor.get(run.get_absolute_url()).content.decode().split())
    assert f"candidate {FIRST}</a>, confirmed by 2 more judgings" in page
    row = " ".join(visitor.get(f"{run.get_absolute_url()}candidates/{FIRST}/").content.decode().split())
    assert "the score is pooled from 3 judgings" in row
    log = " ".join(visitor.get(f"{run.get_absolute_url()}log/").content.decode().split())
    assert "judged again: 1.710×" in log
    best = visitor.get(f"/api/v1/runs/{run.code}").json()["best"]
    assert (best["judgings"], best["score"]) == (3, run.best_score)


def test_a_row_that_fails_when_it_is_judged_again_is_the_best_no_more(tasks: Any) -> None:
    run = judged(REPLAYED, replace(REPLAYED, score=1.6))
    again(run, FIRST, JudgeResult("NONDETERMINISTIC", "It differs."))
    run.refresh_from_db()
    assert (run.best_key, run.best_score) == (SECOND, 1.6)
    row = run.candidates.get(key=FIRST)
    assert (row.verdict, row.verdict_text, row.score) == ("NONDETERMINISTIC", "It differs.", None)
    again(run, SECOND, JudgeResult("TIMEOUT", ""))
    run.refresh_from_db()
    assert (run.best_key, run.best_score) == ("", None)


def test_a_row_is_the_best_without_being_confirmed_if_luck_does_not_explain_it(tasks: Any) -> None:
    run = judged(replace(REPLAYED, score=3.0, ci95=(2.98, 3.02)), REPLAYED)
    again(run, FIRST, JudgeResult("NOISY", ""))
    again(run, SECOND, REPLAYED)
    run.refresh_from_db()
    state = EngineState.fold(log_of_runs.read(run.pk), log_of_runs.source)
    assert state.best is not None
    assert (run.best_key, run.best_score) == (state.best.id, state.best.score) == (FIRST, 3.0)


def test_the_api_names_what_counts(tasks: Any, visitor: Client) -> None:
    run, other = judged(BOUNDED, REPLAYED), judged(BOUNDED)
    best = [visitor.get(f"/api/v1/runs/{item.code}").json()["best"] for item in (run, other)]
    assert [(item["score"], item["counts"]) for item in best] == [(1.75, 1.75), (1.92, 1.55)]


def test_runs_of_before_get_their_best_when_the_site_is_upgraded(tasks: Any) -> None:
    run, other = judged(REPLAYED, BOUNDED), judged(REPLAYED, replace(REPLAYED, score=1.76))
    Run.objects.filter(pk=run.pk).update(best_key=SECOND, best_score=1.92)
    run.candidates.update(improved=True)
    renew = import_module("agents.migrations.0006_best_by_what_counts").renew
    for _ in range(2):
        renew(apps, None)
        run.refresh_from_db()
        assert (run.best_key, run.best_score) == (FIRST, 1.75)
        assert [row.key for row in present(run).improvements] == [FIRST]
    other.refresh_from_db()
    assert (other.best_key, other.best_score) == (SECOND, 1.76)
    assert not RecordedRun.objects.exists()


def test_the_library_shows_kernels_in_the_order_of_the_board(tasks: Any) -> None:
    enter("avoids", found(1.92, 1.55, 1.94, "bounded"))
    enter("replayed", found(1.75, 1.73, 1.77, "replayed"))
    version = site.version("mnist_linear_relu", "backward")
    memory = remembered(replace(factories.config(), language="cuda"), version, site.gpu_kind(), told()[1])
    assert [round(kernel.score, 2) for kernel in memory.kernels] == [1.75]
