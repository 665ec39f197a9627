"""The records of languages, and that each table beside the code which uses it knows them all."""

import pytest

from benchmarks.harness import LANGUAGE_OF_SUFFIX, LANGUAGES, UsageError, device_class, language_of_file
from benchmarks.harness.compilers.builds import _toolchain
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


def test_an_unknown_language_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="'fortran' is not known here; known: cpp, cuda, triton, cute_dsl, tilelang"):
        device_class("fortran")
