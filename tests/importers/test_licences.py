"""Licence and origin of a suite, from the files that lie there. Nothing of the site."""

from pathlib import Path

import pytest

from benchmarks.importers import SuiteOrigin
from benchmarks.importers.licences import licence_line, web_address

APACHE = "                                 Apache License\n                           Version 2.0, January 2004\n"
BSD = "Redistribution and use in source and binary forms, with or without\nmodification, are permitted\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (APACHE + "Copyright [yyyy] [name of copyright owner]", "Apache-2.0 (LICENSE)"),
        ("Copyright 2024 A & B\n\n" + BSD, "BSD-2-Clause; Copyright 2024 A & B (LICENSE)"),
        (BSD + "may be used to endorse or promote products", "BSD-3-Clause (LICENSE)"),
        ("# June 9 Researcher License\n\nYou may", "June 9 Researcher License (LICENSE)"),
        ("\n\n", "no text (LICENSE)"),
        ("\x1b[31m" + "x" * 999, "[31m" + "x" * 176 + " (LICENSE)"),
    ],
)
def test_a_licence_in_one_line(text: str, line: str) -> None:
    assert licence_line(text, "LICENSE") == line


def test_the_nearest_licence_above_a_task_counts(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "COPYING").write_text(APACHE)
    (tmp_path / "a/LICENCE.md").write_text("# Ours alone")
    origin = SuiteOrigin(tmp_path)
    assert origin.licence_of("a/b/x.py") == "Ours alone (LICENCE.md)"
    assert origin.licence_of("x.py") == "Apache-2.0 (COPYING)"
    assert SuiteOrigin(tmp_path, licence="as said").licence_of("x.py") == "as said"


def test_no_link_leads_to_a_licence(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("secret")
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite/LICENSE").symlink_to(tmp_path / "outside")
    assert SuiteOrigin(tmp_path / "suite").licence_of("x.py") == ""


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("https://user:secret@example.org/a/b.git", "https://example.org/a/b"),
        ("git@example.org:a/b.git", "https://example.org/a/b"),
        ("/srv/clone", ""),
        ("https://[", ""),
        ("javascript:alert(1)", ""),
        ("https://example.org/<b>", ""),
    ],
)
def test_an_address_has_neither_names_nor_passwords(text: str, address: str) -> None:
    assert web_address(text) == address


def test_the_address_of_a_clone(tmp_path: Path) -> None:
    assert SuiteOrigin(tmp_path).of_task("x.py") == f"{tmp_path.name}: x.py"
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").write_text('[remote "origin"]\n\turl = https://t:k@example.org/a.git\n')
    assert SuiteOrigin(tmp_path).of_task("x.py") == "https://example.org/a: x.py"
    assert SuiteOrigin(tmp_path, address="https://example.org/b").of_suite() == "https://example.org/b"
