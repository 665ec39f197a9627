"""A running site for files that `tests/scheduling.py` keeps together; those that break or stop one have their own."""

import pytest

from tests.stack import Stack


@pytest.fixture(scope="package")
def stack(tmp_path_factory):
    """On a machine with a GPU, by the word of its fake judge; it logs JSON."""
    running = Stack.prepared(tmp_path_factory.mktemp("stack"), "tests.stack_gpu_settings")
    running.environment["KBENCH_LOG_FORMAT"] = "json"
    running.up()
    yield running
    running.end()
