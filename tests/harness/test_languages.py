"""The records of languages, and that each table beside the code which uses it knows them all."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.harness import (
    LANGUAGE_OF_SUFFIX,
    LANGUAGES,
    SupervisorError,
    UsageError,
    device_class,
    language_of_file,
    language_of_text,
)
from benchmarks.harness.compilers import device_source
from benchmarks.harness.compilers.builds import _toolchain
from benchmarks.harness.compilers.device_source import missing_here
from benchmarks.harness.compilers.remarks import remarks


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("kernel.cpp", "cpp"),
        ("kernel.CXX", "cpp"),
        ("a.b/kernel.cu", "cuda"),
        ("kernel.py", "triton"),
        ("kernel", None),
    ],
)
def test_a_suffix_says_the_language(name: str, language: str | None) -> None:
    assert language_of_file(name) == language


def test_every_suffix_belongs_to_a_known_language() -> None:
    assert {suffix for language in LANGUAGES.values() for suffix in language.suffixes} == set(LANGUAGE_OF_SUFFIX)
    assert all(suffix in LANGUAGES[name].suffixes for suffix, name in LANGUAGE_OF_SUFFIX.items())


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_a_compiler_and_remarks(language: str) -> None:
    target = "sm_90" if device_class(language) == "cuda" else None
    assert _toolchain(language, target).binary
    assert all(flag.text for flag in remarks("", language))


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("import torch\nimport cutlass.cute as cute\n", "cute_dsl"),
        ("import tilelang.language as T\n", "tilelang"),
        ("from helion import language\nimport triton\n", "helion"),
        ("from numba import cuda\n", "numba_cuda"),
        ("import triton\n", None),
        ("# import tilelang\n    import tilelang\n", None),
        ("import tilelangs\n", None),
        ("import triton\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x): ...\n", "python"),
        ("import tilelang\n\n\nclass ModelNew(torch.nn.Module): ...\n", "python"),
        ("import triton\n\n\ndef custom_kernel(data): ...\n", "python"),
        ("import torch\n\n\ndef run(x): ...\n", "python"),
        ("class ModelNewer: ...\n", None),
        ("def run(x): ...\n\n\ndef forward(x): ...\n", None),
        ("class ModelNew: ...\n\n\ndef backward(x): ...\n", None),
    ],
)
def test_a_python_file_says_its_language_by_what_it_imports_and_defines(text: str, language: str | None) -> None:
    assert language_of_text(text) == language


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_source, "find_spec", lambda _: None)
    told = "the package nvidia-cutlass-dsl is not installed on this worker, so it judges no CuTe DSL"
    assert missing_here("cute_dsl") == told
    assert [missing_here(name) for name in ("cpp", "cuda", "triton", "python", "fortran")] == [""] * 5


def test_a_package_that_no_sandbox_would_see_is_as_good_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PYTHONPATH, say: processes of a judging are started with -I."""
    monkeypatch.delitem(sys.modules, "cutlass", raising=False)
    (tmp_path / "cutlass").mkdir()
    (tmp_path / "cutlass" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    told = missing_here("cute_dsl")
    assert told.startswith(f"the package nvidia-cutlass-dsl is installed in {tmp_path}, which a sandboxed process")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert missing_here("cute_dsl") == ""


def test_tilelang_needs_the_cuda_toolkit_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise SupervisorError("there is no CUDA compiler on this machine")

    found = SimpleNamespace(submodule_search_locations=[f"{sys.prefix}/lib/package"])
    monkeypatch.setattr(device_source, "find_spec", lambda _: found)
    assert missing_here("cute_dsl") == ""
    monkeypatch.setattr(device_source, "cuda_folder", none)
    assert "TileLang needs what is missing on this worker: there is no CUDA compiler" in missing_here("tilelang")


def test_an_unknown_language_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="'fortran' is not known here; known: cpp, cuda, triton, cute_dsl, tilelang"):
        device_class("fortran")
