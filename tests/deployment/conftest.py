"""One throw-away machine with an installed site for all tests of this room; skipped, with the reason, without one."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.scheduling import cache_folder

from .installed import InstalledSite
from .machine import booted, missing


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InstalledSite]:
    reason = missing()
    if reason:
        pytest.skip(f"no machine can be booted here: {reason}")
    folder: Path = tmp_path_factory.mktemp("machine")
    kept = cache_folder() / "deployment"  # the worker's data folder: what the real judge compiles once
    kept.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        try:
            machine = stack.enter_context(booted(folder, f"--bind={kept}:/var/lib/kbench-worker"))
        except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
            # a container may forbid what a boot needs, and that says nothing of the site
            pytest.skip(f"no machine can be booted here: {error}")
        installed = InstalledSite(machine)
        installed.install()
        yield installed
