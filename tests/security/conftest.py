"""The world that the tests of this room look at from outside."""

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import caches
from django.db import transaction
from django.test import override_settings

from tests.rows import synced
from tests.web.conftest import two_operations  # noqa: F401 - a fixture

from . import world as worlds


@pytest.fixture(scope="module")
def built(
    django_db_setup: None,
    django_db_blocker: Any,
    two_operations: Path,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[worlds.World, Path]]:
    """The rows of all tests of a file, in a transaction around those of the tests, and where their files are."""
    files = tmp_path_factory.mktemp("media")
    with django_db_blocker.unblock(), transaction.atomic():
        with override_settings(MEDIA_ROOT=files):
            synced(two_operations)
            built = worlds.build()
        yield built, files
        transaction.set_rollback(True)


@pytest.fixture
def world(built: tuple[worlds.World, Path], db: None, settings: Any) -> worlds.World:
    """As it was built: what a test does to the rows is undone, and the objects are its own."""
    for name in ("pages", "boards"):
        caches[name].clear()
    world, settings.MEDIA_ROOT = deepcopy(built)
    return world
