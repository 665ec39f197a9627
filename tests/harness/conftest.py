"""A folder of builds of their own for tests that ask how a text is built."""

from pathlib import Path

import pytest

from benchmarks.harness import Paths


@pytest.fixture
def root(tmp_path: Path, paths: Paths, sandbox: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With the headers that all tests share."""
    (tmp_path / "scratch").mkdir()
    (tmp_path / "cache/builds").mkdir(parents=True)
    monkeypatch.setattr(Paths, "headers", property(lambda _: paths._made("cache/headers")))
    return tmp_path
