"""What kbench depends on: licences that were agreed to, requirements with a bound, and an audit that can fail."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from scripts import audit

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def test_every_dependency_has_a_licence_that_was_agreed_to() -> None:
    assert audit.licence_problems() == []
    assert {"django", "torch", "celery", "pytest"} <= set(audit.dependencies())


def test_exceptions_are_still_needed() -> None:
    assert set(audit.EXCEPTIONS) <= set(audit.dependencies())


@pytest.mark.parametrize(
    ("licence", "allowed"),
    [
        ("MIT", True),
        ("Apache-2.0 AND BSD-2-Clause", True),
        ("(MIT OR Apache-2.0) AND Zlib", True),
        ("GPL-3.0-only", False),
        ("MIT AND AGPL-3.0", False),
        ("LGPL-3.0-only", False),
        ("Proprietary", False),
        ("", False),
    ],
)
def test_which_licences_are_allowed(licence: str, allowed: bool) -> None:
    assert audit.is_allowed(licence) == allowed


def test_every_direct_dependency_has_a_bound() -> None:
    named = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]
    assert [text for text in named if not Requirement(text).specifier] == []


def test_an_audit_that_could_not_be_done_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit.shutil, "which", lambda _: None)
    assert audit.vulnerabilities().startswith("SKIPPED")
