"""The catalogue and the people of the page tests, for tests of runs."""

from tests.web.conftest import (  # noqa: F401 - fixtures
    as_owner,
    as_stranger,
    begins_with_tasks,
    owner,
    stranger,
    tasks,
    two_operations,
    visitor,
)
