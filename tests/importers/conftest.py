"""Foreign suites for tests, written here in the formats of others, and what becomes of them.

Examining a task starts two sandboxes, so each is examined once. Not covered: anything of the site.
"""

from functools import cache
from pathlib import Path

import pytest

from benchmarks.harness import (
    Examined,
    ForeignConfig,
    ForeignTask,
    Paths,
    examine,
)

FIXTURES = Path(__file__).parents[1] / "fixtures"


def foreign(source: str, form: str = "model", configs: tuple[ForeignConfig, ...] = (ForeignConfig("single"),)):
    words = {"title": "A task", "summary": "", "family": "test"}
    direction = "backward" if form == "gradients" else "forward"
    return ForeignTask("kernelbench", "task", direction, **words, form=form, source=source, configs=configs)


@pytest.fixture(scope="session")
def examined(paths: Paths):
    """The outcome for a file of the fixtures, by its path below `kernelbench`."""

    @cache
    def run(name: str) -> Examined:
        return examine(foreign((FIXTURES / "kernelbench" / name).read_text()), paths, compare_compiled=False)

    return run
