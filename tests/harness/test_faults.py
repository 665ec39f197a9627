"""How a candidate answered or ended becomes a verdict."""

import signal

import pytest

from benchmarks.harness import Verdict
from benchmarks.harness.measuring.contestants import CallResult
from benchmarks.harness.measuring.faults import call_fault, death, load_fault
from benchmarks.harness.protocol import Status


def verdict(result: CallResult) -> Verdict | None:
    fault = call_fault(result)
    return None if fault is None else fault.verdict


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (CallResult(Status.OK, 1.0, 1.0), None),
        (CallResult(Status.OK, 1.0, 1.0, late=True), Verdict.TAMPERING),
        (CallResult(Status.OK, 1.0, 1.0, early=True), Verdict.TAMPERING),
        (CallResult(Status.WRONG_SHAPE, 1.0, 1.0), Verdict.INCORRECT_SHAPE),
        (CallResult(Status.WRONG_COUNT, 1.0, 1.0), Verdict.INCORRECT_SHAPE),
        (CallResult(Status.WRONG_DTYPE, 1.0, 1.0), Verdict.INCORRECT_DTYPE),
        (CallResult(Status.WRONG_TYPE, 1.0, 1.0), Verdict.INCORRECT_DTYPE),
        (CallResult(Status.RAISED, 1.0, 1.0, text="std::bad_alloc", error="MemoryError"), Verdict.OUT_OF_MEMORY),
        (CallResult(Status.RAISED, 1.0, 1.0, text="expected 2-D", error="RuntimeError"), Verdict.RUNTIME_ERROR),
        (CallResult(None, timed_out=True), Verdict.TIMEOUT),
        (CallResult(None, exit_code=0), Verdict.RUNTIME_ERROR),
        (CallResult(None, exit_code=-signal.SIGSEGV), Verdict.RUNTIME_ERROR),
        (CallResult(None, exit_code=-signal.SIGSYS), Verdict.REJECTED),
        (CallResult(None, exit_code=-signal.SIGKILL), Verdict.OUT_OF_MEMORY),
    ],
)
def test_each_end_of_a_call_has_its_verdict(result: CallResult, expected: Verdict | None) -> None:
    assert verdict(result) == expected


def test_a_wrong_signature_is_a_broken_contract_and_is_shown() -> None:
    text = "forward(): incompatible function arguments. The following argument types are supported:\n    1. (x: Tensor)"
    fault = call_fault(CallResult(Status.RAISED, 1.0, 1.0, text=text, error="TypeError"))
    assert fault is not None
    assert fault.verdict is Verdict.REJECTED
    assert "(x: Tensor)" in fault.reason


def test_a_missing_export_lists_what_there_is() -> None:
    fault = load_fault({"missing": "forward", "exported": ["run"]}, None)
    assert (fault.verdict, "run" in fault.reason) == (Verdict.REJECTED, True)


def test_an_unknown_symbol_is_an_error_of_the_build() -> None:
    assert load_fault({"load_error": "ImportError: undefined symbol: _Z3foov"}, None).verdict is Verdict.COMPILE_ERROR


def test_the_signal_is_named() -> None:
    assert "SIGSEGV" in death("in a call", -signal.SIGSEGV).reason


def test_a_long_name_of_an_error_leaves_room_for_its_text() -> None:
    fault = call_fault(CallResult(Status.RAISED, 1.0, 1.0, text="no such size", error="E" * 40_000))
    assert fault is not None
    assert "no such size" in fault.reason
    assert len(fault.reason) < 500
