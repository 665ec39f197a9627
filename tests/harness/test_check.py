"""The comparison of a result with its float64 reference, and the reference itself."""

import math
from types import ModuleType

import pytest
import torch

from benchmarks.harness.child.check import compare, reference

REFERENCE = torch.linspace(-4, 4, 64, dtype=torch.float64).reshape(8, 8)


def _compare(out: torch.Tensor, tolerance: float = 1e-4, rms_tolerance: float = 1e-4):
    return compare(out, REFERENCE, tolerance, rms_tolerance)


def test_the_rounded_reference_passes():
    result = _compare(REFERENCE.float())
    assert result.ok
    assert result.reason == ""
    assert 0 < result.max_rel_error < 1e-7


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 3.4e38])
def test_one_element_that_is_not_a_plausible_number_fails(value):
    out = REFERENCE.float()
    out[5, 3] = value
    result = _compare(out)
    assert not result.ok
    assert result.bad_elements == 1
    assert "1 of 64" in result.reason
    assert "(5, 3)" in result.reason


def test_a_result_of_nothing_but_nan_fails():
    result = _compare(torch.full((8, 8), math.nan))
    assert not result.ok
    assert result.bad_elements == 64
    assert result.max_abs_error == math.inf


def test_one_element_beyond_the_tolerance_fails_and_one_within_passes():
    rms = float(REFERENCE.square().mean().sqrt())
    allowed = 1e-4 * (4 + rms)
    near, far = REFERENCE.clone(), REFERENCE.clone()
    near[7, 7] += 0.99 * allowed
    far[7, 7] += 1.01 * allowed
    assert _compare(near).ok
    assert not _compare(far).ok


def test_a_small_error_in_every_element_fails_by_the_root_mean_square():
    result = _compare(REFERENCE * (1 + 5e-5), rms_tolerance=1e-5)
    assert not result.ok
    assert result.bad_elements == 0
    assert "root mean square of the errors" in result.reason


def test_a_reference_of_zeros_allows_nothing_but_zeros():
    zeros = torch.zeros(4, dtype=torch.float64)
    assert compare(torch.zeros(4), zeros, 1e-4, 1e-4).ok
    assert not compare(torch.full((4,), 1e-30), zeros, 1e-4, 1e-4).ok


def test_a_scalar_result_is_compared_like_any_other():
    expected = torch.tensor(2.5, dtype=torch.float64)
    assert compare(torch.tensor(2.5), expected, 1e-6, 1e-6).ok
    assert "1 of 1" in compare(torch.tensor(2.6), expected, 1e-6, 1e-6).reason


def test_the_reason_does_not_tell_the_expected_value():
    out = REFERENCE.float()
    out[0, 0] = 0.0
    assert "-4" not in _compare(out).reason


def test_shapes_that_broadcast_are_not_compared():
    with pytest.raises(ValueError, match="cannot compare"):
        compare(torch.zeros(1, 8), REFERENCE, 1e-4, 1e-4)


def test_a_reference_that_is_not_finite_is_our_fault():
    with pytest.raises(ValueError, match="not finite"):
        compare(torch.zeros(1), torch.tensor([math.nan], dtype=torch.float64), 1e-4, 1e-4)


def test_the_reference_runs_in_float64_and_leaves_integers_and_none_alone():
    seen = []
    module = ModuleType("task")
    module.forward = lambda *args: seen.extend(args) or args[0]
    (result,) = reference(module, "forward", [torch.ones(2), torch.tensor([3]), None, 2, (torch.ones(1),)])
    assert result.dtype == torch.float64
    assert seen[1].dtype == torch.int64
    assert seen[2:4] == [None, 2]
    assert seen[4][0].dtype == torch.float64
