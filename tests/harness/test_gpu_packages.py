"""What is asked of a package before a submission is loaded."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from benchmarks.harness import ProtocolError, Verdict, default_rules
from benchmarks.harness.child.gpu import packages, warm
from benchmarks.harness.gpu.warming import await_warm
from benchmarks.harness.measuring.faults import Fault
from tests.harness.test_gpu_replay import FakeActor

TEXTS = {"numba": "from numba import cuda\n", "triton": "import triton\n", "helion": "import helion\n"}


@pytest.fixture(autouse=True)
def imported_alone() -> Iterator[None]:
    """Other tests ask whether a package is here, which is so while it is imported."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in TEXTS:
            del sys.modules[name]


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The trusted kernels that were run. The packages are empty ones."""
    found: list[str] = []
    for package in TEXTS:
        folder = tmp_path / "site" / package
        folder.mkdir(parents=True)
        for name in ("__init__", "cuda", "language"):
            (folder / f"{name}.py").touch()
        for name in (package, f"{package}.cuda", f"{package}.language"):
            monkeypatch.setitem(sys.modules, name, ModuleType(name))  # so that what a test imports is gone after it
            monkeypatch.delitem(sys.modules, name)
        stand_in = ModuleType(package)
        stand_in.wake = lambda package=package: found.append(package)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, f"{packages.__package__}.{package}_wake", stand_in)
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setattr(sys, "dont_write_bytecode", sys.dont_write_bytecode)
    return found


@pytest.mark.parametrize(
    ("package", "kernels"), [("numba", ["numba"]), ("triton", ["triton"]), ("helion", ["triton"]), ("torch", [])]
)
def test_a_kernel_of_our_own_runs_for_packages_that_start_something_at_the_first(
    ran: list[str], tmp_path: Path, package: str, kernels: list[str]
) -> None:
    """Numba-CUDA looks for NVVM in a process of its own when it first compiles, which a submission may not start."""
    file = tmp_path / "kernel.py"
    file.write_text(TEXTS.get(package, f"import {package}\n"))
    packages.wake(str(file))
    assert ran == kernels


@pytest.mark.parametrize(
    "text", ["# numba\nx = 'import triton'\n", "from .numba import cuda\n", "import torch.numba\n", "import numba(\n"]
)
def test_a_word_that_imports_nothing_wakes_nothing(ran: list[str], tmp_path: Path, text: str) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(text)
    assert packages.wake(str(file)) == ()
    assert ran == []


def test_an_import_inside_of_a_function_counts(ran: list[str], tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text("def forward(x):\n    import triton.language as tl\n")
    assert packages.wake(str(file)) == ("triton",)
    assert ran == ["triton"]


def test_a_module_may_import_a_package_that_does_not_work(
    ran: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`try: import numba.cuda` in a PyTorch module whose kernels are written in Triton."""
    folder = tmp_path / "module"
    folder.mkdir()
    (folder / "module.py").write_text(TEXTS["numba"] + TEXTS["triton"])
    (tmp_path / "site" / "numba" / "cuda.py").write_text("from numpy import row_stacks\n")
    assert packages.wake(str(folder)) == ("triton",)
    alone = tmp_path / "kernel.py"
    alone.write_text(TEXTS["numba"])
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    with pytest.raises(ImportError, match="row_stacks"):
        packages.wake(str(alone))


def test_a_package_that_cannot_be_imported_is_told_before_a_submission_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Helion 1.5.1 beside torch 2.11, say: what is installed need not work."""
    file, said = tmp_path / "kernel.py", []
    file.write_text("import helion\nraise SystemExit('it was loaded')\n")
    broken = tmp_path / "site" / "helion"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("from torch import IntelGPUError\n")
    monkeypatch.syspath_prepend(broken.parent)
    monkeypatch.delitem(sys.modules, "helion", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", sys.dont_write_bytecode)
    monkeypatch.setenv("KBENCH_KERNELS", str(tmp_path / "kernels"))
    message = {"binary": str(file), "configs": [], "answer": -1}
    link = SimpleNamespace(send=lambda **told: said.append(told), receive=lambda: message)
    monkeypatch.setattr(warm, "connect", lambda _: link)
    monkeypatch.setattr(warm, "exact_arithmetic", lambda: None)
    monkeypatch.setattr(warm, "sleep_until_called", lambda *_: None)
    monkeypatch.setattr(warm, "start_device", lambda _: None)
    warm.main(["3", "host"])
    assert [list(told) for told in said] == [["awake"], ["unusable"]]
    assert "IntelGPUError" in said[1]["unusable"]


def awaited(*answers: Any, log: str = "") -> Fault:
    warming: Any = FakeActor(*answers)
    warming.child.log_tail = lambda _: log
    with pytest.raises(Fault) as found:
        await_warm(warming, default_rules().compile.timeout_s)
    return found.value


def test_a_package_that_fails_is_our_fault_until_a_submission_is_loaded() -> None:
    ours = awaited({"unusable": "ImportError: no\nmore"})
    assert (ours.verdict, ours.reason) == (
        Verdict.INTERNAL_ERROR,
        "a package that it uses fails on this worker: ImportError: no",
    )
    assert not ours.lacks_gpu_memory
    died = awaited(ProtocolError("it is gone"))
    assert died.verdict is Verdict.INTERNAL_ERROR
    theirs = awaited({"woken": {}}, {"unusable": "ImportError: no"}, {"load_error": "ValueError: no"})
    assert theirs.verdict is Verdict.RUNTIME_ERROR


def test_memory_that_a_package_lacks_is_told_in_any_line_and_by_its_end() -> None:
    """Else a package that lacked memory would not be tried again without the sessions that held it."""
    later = awaited({"unusable": "InternalError: no kernel\nCUDA_ERROR_OUT_OF_MEMORY"})
    assert (later.lacks_gpu_memory, "MEMORY" in later.reason) == (True, False)
    ended = 'Traceback (most recent call last):\n  File "a.py", line 1, in b\nRuntimeError: CUDA error: out of memory'
    for log, lacks in ((ended, True), ("a warning: out of memory\n", False)):
        assert awaited(ProtocolError("it is gone"), log=log).lacks_gpu_memory is lacks
    theirs = awaited({"woken": {}}, ProtocolError("it is gone"), log=ended)
    assert theirs.verdict is Verdict.RUNTIME_ERROR
