"""One throw-away machine with an installed site for all tests of this room. In CI it must be possible to boot it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scheduling import cache_folder

from .installed import InstalledSite
from .machine import booted, missing


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InstalledSite]:
    reason = missing()
    if reason and os.environ.get("CI") == "true":
        pytest.fail(f"the rehearsal of a deployment cannot run here, and CI must run it: {reason}")
    if reason:
        pytest.skip(f"no machine can be booted here: {reason}")
    folder: Path = tmp_path_factory.mktemp("machine")
    kept = cache_folder() / "deployment"  # the worker's data folder: what the real judge compiles once
    kept.mkdir(parents=True, exist_ok=True)
    with booted(folder, f"--bind={kept}:/var/lib/kbench-worker") as machine:
        installed = InstalledSite(machine)
        installed.install()
        yield installed
