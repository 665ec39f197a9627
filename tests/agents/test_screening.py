"""Screening on the pages of a run: shown as such, its mistakes counted, and no part of the verifiers' matrix."""

from typing import Any

import pytest
from django.test import Client

from agents import selectors
from agents.evolve.budget import Caps
from agents.models import Run
from agents.record.snapshots import past, present
from tests.evolve import world

from . import factories


@pytest.fixture
def run(tasks: Any) -> Run:
    options = {"caps": Caps(judgings=40), "seed": 2, "audit_fraction": 0.4}
    return factories.driven(checks=(world.Racing(),), **options)


def test_the_page_tells_how_many_were_dropped_and_how_many_wrongly(visitor: Client, run: Run) -> None:
    found = selectors.screening(present(run))
    assert found is not None
    assert found.wrong is not None
    slow = run.candidates.filter(drop_reason="screened: slower")
    audited = run.candidates.filter(opinions__fault="slow", opinions__audit=True)
    assert (found.dropped, found.audited) == (slow.count(), audited.count())
    assert found.dropped > found.audited > 0
    assert found.wrong.part == audited.filter(improved=True).count()
    page = " ".join(visitor.get(run.get_absolute_url()).content.decode().split())
    wrong = f"{found.wrong.part:.0f} of the {found.audited} judged anyway became"
    assert f"{found.dropped} dropped as slower; {wrong}" in page


def test_the_past_counts_what_had_happened_by_then(run: Run) -> None:
    first = run.events.filter(type="verdict", payload__fault="slow", payload__audit=False).order_by("seq")[0]
    before, after = selectors.screening(past(run, first.seq - 1)), selectors.screening(past(run, first.seq))
    assert before is None or before.dropped == 0
    assert after is not None
    assert after.dropped == 1


def test_a_dropped_candidate_is_shown_as_screened_and_has_no_score(visitor: Client, run: Run) -> None:
    row = run.candidates.filter(drop_reason="screened: slower").first()
    assert row is not None
    assert (row.score, row.ticket, row.verdict) == (None, "", "")
    page = visitor.get(f"{run.get_absolute_url()}candidates/{row.key}/").content.decode()
    assert "screened: slower" in page
    assert "times as fast as the best kernel on two configurations" in page


def test_slower_is_not_wrong_in_the_matrix_and_on_the_page(visitor: Client, run: Run) -> None:
    assert not [row for row in selectors.matrix_rows(run) if row.fault == "slow"]
    audited = run.candidates.filter(opinions__fault="slow", opinions__audit=True, improved=False).first()
    assert audited is not None
    page = visitor.get(f"{run.get_absolute_url()}candidates/{audited.key}/").content.decode()
    assert "judged anyway to check the verifier" in page
    assert "verifier wrong" not in " ".join(page.split())


def test_the_form_offers_it_and_does_not_choose_it(visitor: Client, run: Run) -> None:
    page = visitor.get("/runs/new/?task=robust-kbench/mnist_linear_relu/forward").content.decode()
    box = page[page.index('value="screen"') - 100 : page.index('value="screen"') + 100]
    assert "checked" not in box.split("<input")[-1].split(">")[0]
