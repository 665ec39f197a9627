"""The bench of a large site on a tiny one: no page is left out, and each answers."""

from random import Random

import pytest
from django.test import Client

from benchmarks.api import api
from benchmarks.models import Evaluation, Standing
from lab.site import addresses, filling
from tests.rows import synced
from tests.web import factories


@pytest.fixture(scope="module")
def operations():
    return api.get_openapi_schema()["paths"]


def test_every_page_and_endpoint_is_measured(operations):
    assert addresses.missing(operations) == []
    assert addresses.unknown(operations) == []


def test_a_page_without_a_line_is_named(operations, monkeypatch):
    monkeypatch.delitem(addresses.PAGES, "status/")
    assert addresses.missing({**operations, "/api/v1/new": {"get": {}}}) == ["/api/v1/new", "status/"]


@pytest.mark.django_db
def test_a_filled_site_answers_everywhere():
    synced()
    for role in ("compile", "maint"):
        factories.worker(role)
    names = filling.fill(filling.Size(500), Random(filling.SEED))
    assert Evaluation.objects.count() >= 500
    assert not Standing.objects.ranked().filter(rank=None).exists()
    for address in addresses.addresses(names):
        headers = {"host": "localhost", **address.headers(names)}
        answer = Client().get(address.path, headers=headers)
        if address.path != "/readyz":  # there is no broker here
            assert answer.status_code == 200, address
