"""The catalogue and the people of the page tests, for tests of runs."""

from tests.web.conftest import (  # noqa: F401 - fixtures
    all_tasks,
    as_owner,
    as_staff,
    as_stranger,
    begins_with_tasks,
    owner,
    staff,
    stranger,
    tasks,
    two_operations,
    visitor,
)
