"""How a candidate answered or ended becomes a verdict."""

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.harness import Verdict
from benchmarks.harness.measuring.contestants import CallResult, WholeLimit
from benchmarks.harness.measuring.faults import call_fault, death, failure, first_line, load_fault, slow_load
from benchmarks.harness.protocol import Status
from benchmarks.harness.sandbox.crowd import TreeWork


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


@pytest.mark.parametrize(
    "result",
    [
        CallResult(Status.RAISED, 1.0, 1.0, text="77 by 99", error="RuntimeError"),
        CallResult(Status.RAISED, 1.0, 1.0, text="out of memory: 77 by 99", error="MemoryError"),
        CallResult(Status.WRONG_SHAPE, 1.0, 1.0, text="77 by 99"),
        CallResult(None, exit_code=77),
    ],
)
def test_what_a_process_says_after_it_has_met_hidden_configurations_is_not_shown(result: CallResult) -> None:
    quoted, unquoted = call_fault(result), call_fault(result, quoted=False)
    assert quoted is not None
    assert unquoted is not None
    assert ("77" in quoted.reason, "77" in unquoted.reason) == (True, False)
    assert quoted.verdict is unquoted.verdict


@pytest.mark.parametrize(
    ("text", "verdict", "lacks_gpu_memory"),
    [
        ("CUDA error: out of memory", Verdict.OUT_OF_MEMORY, True),
        ("CUBLAS_STATUS_ALLOC_FAILED", Verdict.OUT_OF_MEMORY, True),
        ("CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", Verdict.RUNTIME_ERROR, True),
        ("std::bad_alloc", Verdict.OUT_OF_MEMORY, False),
        ("DefaultCPUAllocator: not enough memory", Verdict.OUT_OF_MEMORY, False),
        ("expected 2-D", Verdict.RUNTIME_ERROR, False),
    ],
)
def test_memory_of_the_host_is_not_that_of_the_gpu(text: str, verdict: Verdict, *, lacks_gpu_memory: bool) -> None:
    """Sessions that wait hold memory of the GPU, and end for it."""
    raised = call_fault(CallResult(Status.RAISED, 1.0, 1.0, text=text, error="RuntimeError"))
    assert raised is not None
    hidden = call_fault(CallResult(Status.RAISED, 1.0, 1.0, text=text, error="RuntimeError"), quoted=False)
    assert hidden is not None
    for fault in (
        raised,
        hidden,
        hidden.told_as("it failed"),
        failure(text, text),
        load_fault({"load_error": text}),
    ):
        assert (fault.verdict, fault.lacks_gpu_memory) == (verdict, lacks_gpu_memory)
    assert not death("in a call", -signal.SIGKILL).lacks_gpu_memory


def test_a_missing_export_lists_what_there_is() -> None:
    fault = load_fault({"missing": "forward", "exported": ["run"]})
    assert (fault.verdict, "run" in fault.reason) == (Verdict.REJECTED, True)


def test_an_unknown_symbol_is_an_error_of_the_build() -> None:
    assert load_fault({"load_error": "ImportError: undefined symbol: _Z3foov"}).verdict is Verdict.COMPILE_ERROR


def test_the_signal_is_named() -> None:
    assert "SIGSEGV" in death("in a call", -signal.SIGSEGV).reason


def test_a_long_name_of_an_error_leaves_room_for_its_text() -> None:
    fault = call_fault(CallResult(Status.RAISED, 1.0, 1.0, text="no such size", error="E" * 40_000))
    assert fault is not None
    assert "no such size" in fault.reason
    assert len(fault.reason) < 500


@pytest.mark.parametrize("status", [item for item in Status if item not in (Status.OK, Status.RAISED)])
def test_every_status_that_is_a_refusal_has_a_verdict_and_a_reason(status: Status) -> None:
    fault = call_fault(CallResult(status, 1.0, 1.0))
    assert fault is not None
    assert fault.verdict in (Verdict.INCORRECT_SHAPE, Verdict.INCORRECT_DTYPE)
    assert fault.reason == "the results do not fit the task"


@pytest.mark.parametrize("claimed_us", [0.0, -4.0])
def test_a_call_cannot_take_no_time(claimed_us: float) -> None:
    assert verdict(CallResult(Status.OK, 1.0, 1.0, event_us=claimed_us)) is Verdict.TAMPERING
    assert verdict(CallResult(Status.OK, 1.0, 1.0, event_us=0.1)) is None


def test_results_in_memory_of_others_are_tampering() -> None:
    assert verdict(CallResult(Status.OK, 1.0, 1.0, foreign=True)) is Verdict.TAMPERING


def test_a_thread_on_its_way_to_sleep_is_not_accused() -> None:
    """A virtual processor that is taken away for a moment counts as time of the thread."""
    assert verdict(CallResult(Status.OK, 1.0, 1.0, woke_us=50_000.0)) is None
    assert verdict(CallResult(Status.OK, 1.0, 1.0, woke_us=50_001.0)) is Verdict.TAMPERING


def test_an_error_of_the_kernel_comes_before_what_looks_suspicious() -> None:
    assert verdict(CallResult(Status.RAISED, 1.0, 1.0, text="no", error="ValueError", late=True)) is (
        Verdict.RUNTIME_ERROR
    )


def test_a_module_that_does_not_finish_loading_is_told_the_limit() -> None:
    fault = slow_load(WholeLimit(lambda: TreeWork(0.0, is_ready=False), 60.0))
    assert (fault.verdict, fault.reason) == (Verdict.TIMEOUT, "loading the module took more than 60 s")


SAID = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(max_size=3), parts, max_size=3),
)


@given(st.dictionaries(st.sampled_from(["load_error", "missing", "exported", "timeout_s"]), SAID))
def test_whatever_a_process_says_of_its_load_is_a_fault_of_its_own(message: dict[str, object]) -> None:
    fault = load_fault(message)
    assert fault.verdict in (Verdict.REJECTED, Verdict.COMPILE_ERROR, Verdict.RUNTIME_ERROR)
    assert len(fault.reason) < 1_200


@pytest.mark.parametrize("exported", [None, {}, "forward", 7, []])
def test_exports_that_are_no_list_are_called_nothing(exported: object) -> None:
    """The message comes from the submission's process, which may write anything into it."""
    assert load_fault({"missing": "forward", "exported": exported}).reason.endswith("it exports nothing")


def test_many_long_exports_make_a_reason_of_bounded_length() -> None:
    fault = load_fault({"missing": "f" * 10_000, "exported": ["x" * 10_000] * 10_000})
    assert len(fault.reason) < 1_200


def test_an_error_while_loading_is_no_error_of_the_build() -> None:
    fault = load_fault({"load_error": "\n  ImportError: the pool is full\nmore"})
    assert (fault.verdict, fault.reason) == (
        Verdict.RUNTIME_ERROR,
        "the module cannot be loaded: ImportError: the pool is full",
    )


@pytest.mark.parametrize(
    ("exit_code", "words"),
    [
        (None, "stopped answering"),
        (0, "ended with exit code 0"),
        (3, "ended with exit code 3"),
        (-signal.SIGXCPU, "used more processor time than the rules allow"),
        (-signal.SIGRTMIN, "died of SIGRTMIN"),
        (-(signal.SIGRTMIN + 1), f"died of signal {signal.SIGRTMIN + 1}"),
        (-120, "died of signal 120"),
    ],
)
def test_a_process_that_is_gone_is_a_runtime_error_whatever_it_died_of(exit_code: int | None, words: str) -> None:
    fault = death("while the module was loaded", exit_code)
    assert fault.verdict is Verdict.RUNTIME_ERROR
    assert words in fault.reason
    assert "while the module was loaded" in fault.reason


@pytest.mark.parametrize(
    ("error", "text", "expected", "words"),
    [
        (
            "OSError",
            "Read-only file system: '/tmp/kernels/cache'",
            Verdict.RUNTIME_ERROR,
            "a kernel had to be compiled",
        ),
        ("RuntimeError", "CUDA out of memory. Tried", Verdict.OUT_OF_MEMORY, "more memory than it may have"),
        ("TypeError", "forward(): incompatible function arguments", Verdict.REJECTED, "incompatible function"),
        ("ValueError", "incompatible function arguments", Verdict.RUNTIME_ERROR, "raised ValueError"),
        ("", "", Verdict.RUNTIME_ERROR, "the kernel raised an error"),
    ],
)
def test_the_words_of_an_exception_choose_the_verdict(error: str, text: str, expected: Verdict, words: str) -> None:
    fault = call_fault(CallResult(Status.RAISED, 1.0, 1.0, text=text, error=error))
    assert fault is not None
    assert fault.verdict is expected
    assert words in fault.reason


def test_the_first_line_with_words_is_shown_and_cut() -> None:
    assert first_line("\n \n  wrong  \nmore") == "wrong"
    assert first_line("") == ""
    assert first_line("x" * 400) == "x" * 299 + "…"
