"""Fixtures of the page tests: a synced catalogue, and three people: owner, stranger and visitor."""

from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from benchmarks import catalogue

from . import factories


@pytest.fixture(autouse=True)
def tasks(db: None) -> None:
    """The shipped tasks, as a started site has them."""
    cache.clear()
    catalogue.tasks_sync()


@pytest.fixture
def owner() -> Any:
    return factories.user("olga")


@pytest.fixture
def stranger() -> Any:
    return factories.user("stefan")


@pytest.fixture
def visitor() -> Client:
    """Somebody without an account."""
    return Client()


@pytest.fixture
def as_owner(owner: Any) -> Client:
    client = Client()
    client.force_login(owner)
    return client


@pytest.fixture
def as_stranger(stranger: Any) -> Client:
    client = Client()
    client.force_login(stranger)
    return client
