"""Compiled Python files for machines whose torch came without: made once, by a process that runs none of them."""

from pathlib import Path

import pytest

from benchmarks.harness import Paths
from benchmarks.harness.gpu import bytecode


def test_files_are_compiled_once_and_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = tmp_path / "torch"
    torch.mkdir()
    (torch / "broken.py").write_text("def (")
    (torch / "whole.py").write_text(f"open({str(tmp_path / 'was_run')!r}, 'w')")
    monkeypatch.setattr(bytecode, "bytecode_missing", lambda: True)
    monkeypatch.setattr(bytecode, "torch_folder", lambda: torch)
    monkeypatch.setattr(bytecode, "find_spec", lambda _: None)
    folder = bytecode.bytecode_folder(Paths(tmp_path / "data"))
    assert folder is not None
    # an interpreter that has no compiled files of its own keeps them there as well
    made = [path for path in folder.rglob("*") if path.is_file() and str(torch) in str(path)]
    assert [path.name.partition(".")[0] for path in made] == ["whole"]
    assert not (tmp_path / "was_run").exists()
    made[0].unlink()
    assert bytecode.bytecode_folder(Paths(tmp_path / "data")) == folder
    assert not made[0].exists()


def test_nothing_is_compiled_where_torch_has_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytecode, "bytecode_missing", lambda: False)
    assert bytecode.bytecode_folder(Paths(tmp_path)) is None
