"""What is asked of a package before a submission is loaded."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.harness.child.gpu import packages

TEXTS = {"numba": "from numba import cuda\n", "triton": "import triton\n", "helion": "import helion\n"}


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
            monkeypatch.delitem(sys.modules, name, raising=False)
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
