"""The world that the tests of this room look at from outside."""

from pathlib import Path
from typing import Any

import pytest

from tests.web.conftest import tasks, two_operations  # noqa: F401 - fixtures

from . import world as worlds


@pytest.fixture
def world(tasks: None, settings: Any, tmp_path: Path) -> worlds.World:  # noqa: F811
    settings.MEDIA_ROOT = tmp_path
    return worlds.build()
