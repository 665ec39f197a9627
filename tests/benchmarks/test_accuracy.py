"""The largest error in units of the tolerance: where it is known, and where it is not."""

from typing import Any

import pytest

from benchmarks.boards.accuracy import attach_shares
from benchmarks.models import ConfigResult


def definition(*tolerances: float) -> dict[str, Any]:
    results = [{"tolerance": value} for value in tolerances]
    return {"devices": {"cpu": {"hidden": 1, "configs": [{"group": "single", "key": "n=1", "results": results}]}}}


def share(tolerances: tuple[float, ...], error: float | None, group: str = "single", device: str = "cpu") -> Any:
    row = ConfigResult(group=group, key="n=1", max_rel_error=error)
    attach_shares([row], definition(*tolerances), device)
    return row.of_tolerance


def test_a_share_is_the_largest_error_by_the_tolerance() -> None:
    assert share((2e-5,), 5e-6) == pytest.approx(0.25)
    assert share((2e-5, 2e-5), 4e-5) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("tolerances", "error"),
    [((0.0,), 0.0), ((2e-5, 5e-5), 1e-6), ((2e-5,), None), ((), 1e-6)],
    ids=["exact", "different", "unchecked", "no results"],
)
def test_it_is_unknown_where_one_number_would_not_be_true(tolerances: tuple[float, ...], error: float | None) -> None:
    assert share(tolerances, error) is None


def test_it_is_unknown_for_configurations_that_the_definition_does_not_show() -> None:
    assert share((2e-5,), 1e-6, group="hidden") is None
    assert share((2e-5,), 1e-6, device="cuda") is None
