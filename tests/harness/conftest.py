"""What judging needs in tests: a cache that outlives a test run, rules, and a sandbox worth testing.

Compiled kernels and prepared baselines are kept in pytest's own cache folder under the hash of all they depend on, so a
second run compiles nothing; `pytest --cache-clear` starts over. Not covered: anything that needs a database.
"""

from pathlib import Path

import pytest

from benchmarks.harness import Paths, RuleSet, default_rules, isolation_in_force


@pytest.fixture(scope="session")
def rules() -> RuleSet:
    return default_rules()


@pytest.fixture(scope="session")
def paths(pytestconfig: pytest.Config) -> Paths:
    return Paths(Path(pytestconfig.cache.mkdir("kbench")))


@pytest.fixture(scope="session")
def sandbox() -> None:
    """Attacks run only where they cannot hurt: never without the strong sandbox."""
    isolation = isolation_in_force()
    if not isolation.strong:
        pytest.skip(f"hostile kernels are not run here: {isolation.text}")
