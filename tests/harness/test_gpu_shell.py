"""What the calling shell of the GPU track takes for a result."""

import pytest
import torch

from benchmarks.harness.child.gpu.shell import WrongForm, results_in_form
from benchmarks.harness.protocol import Status


def test_one_number_may_have_either_shape() -> None:
    wanted = (torch.zeros(()), torch.zeros(2))
    number, pair = results_in_form([torch.ones(1), torch.ones(2)], wanted)
    assert (number.shape, pair.shape) == ((), (2,))


@pytest.mark.parametrize(
    ("results", "status"),
    [
        (torch.zeros(2), Status.WRONG_COUNT),
        ((torch.zeros(()), [1, 2]), Status.WRONG_TYPE),
        ((torch.zeros(1, 1), torch.zeros(2)), Status.WRONG_SHAPE),
        ((torch.zeros(()), torch.zeros(1)), Status.WRONG_SHAPE),
        ((torch.zeros(()), torch.zeros(2, dtype=torch.float64)), Status.WRONG_DTYPE),
    ],
)
def test_results_of_another_form_are_refused(results: object, status: Status) -> None:
    with pytest.raises(WrongForm) as caught:
        results_in_form(results, (torch.zeros(()), torch.zeros(2)))
    assert caught.value.status is status
