"""Rows of the app for tests of this room."""

from tests.benchmarks.conftest import cpu, person, small_suites, submit, version  # noqa: F401 - fixtures
