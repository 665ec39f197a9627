"""One shape first on the pages: chosen in the form, shown while it lasts and after, also in the past of a run."""

from typing import Any

import pytest
from django.test import Client

from agents import selectors
from agents.evolve.budget import Caps
from agents.models import Run
from agents.record.snapshots import past, present
from tests.evolve import world
from tests.rows import cpu_kind

from . import factories


@pytest.fixture
def run(tasks: Any) -> Run:
    options = {"caps": Caps(judgings=30), "seed": 4, "curriculum": 2, "verifiers": ("screen",)}
    return factories.driven(checks=(world.Racing(),), **options)


def test_the_page_names_the_configuration_and_why_it_ended(visitor: Client, run: Run) -> None:
    found = selectors.curriculum(present(run))
    assert found is not None
    began, ended = run.events.filter(type__startswith="curriculum.").order_by("seq")
    assert (found.config, found.ended) == (began.payload["config"], ended.payload["text"])
    page = " ".join(visitor.get(run.get_absolute_url()).content.decode().split())
    assert "one configuration first" in page
    assert f"{began.payload['config']}</code></a>; now all configurations: {ended.payload['text']}" in page


def test_the_past_shows_what_counted_then(visitor: Client, run: Run) -> None:
    began, ended = run.events.filter(type__startswith="curriculum.").order_by("seq")
    assert selectors.curriculum(past(run, began.seq - 1)) is None
    page = " ".join(visitor.get(f"{run.get_absolute_url()}?at={ended.seq - 1}").content.decode().split())
    assert "the other configurations do not count yet" in page


def test_the_form_offers_it_and_adds_what_it_needs(visitor: Client, tasks: Any) -> None:
    address, kind = "/runs/new/?task=robust-kbench/mnist_linear_relu/forward", cpu_kind()
    assert "id_curriculum" in visitor.get(address).content.decode()
    data = {"proposer": "template-evo", "device": kind.slug, "judgings": 5, "verifiers": ["static"], "curriculum": "on"}
    visitor.post(address, data)
    started = Run.objects.get()
    assert (started.config["curriculum"], started.config["verifiers"]) == (3, ["static", "screen"])
    visitor.post(address, {**data, "curriculum": ""})
    assert Run.objects.first().config["curriculum"] is None  # type: ignore[union-attr]
