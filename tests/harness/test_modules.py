"""The words of a submission in Python that cannot be loaded."""

import pytest

from benchmarks.harness.child.modules import why_not_loaded


@pytest.mark.parametrize(
    ("error", "device", "is_for_gpus"),
    [
        (ModuleNotFoundError("No module named 'triton'", name="triton"), "cpu", True),
        (ModuleNotFoundError("No module named 'cutlass.cute'", name="cutlass.cute"), "cpu", True),
        (ModuleNotFoundError("No module named 'triton'", name="triton"), "cuda", False),
        (ModuleNotFoundError("No module named 'tritons'", name="tritons"), "cpu", False),
        (ModuleNotFoundError("no name"), "cpu", False),
        (ImportError("cannot import name 'x'", name="triton"), "cpu", False),
        (ValueError("triton"), "cpu", False),
    ],
)
def test_a_module_for_gpus_is_told_that_it_was_judged_on_a_processor(
    error: Exception, device: str, *, is_for_gpus: bool
) -> None:
    told = why_not_loaded(error, device)
    assert told.startswith(f"{type(error).__name__}: {error}")
    assert told.endswith("Its kernels run on a GPU; this was judged on a processor") is is_for_gpus
