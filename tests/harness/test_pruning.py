"""The cache of builds stays below a size, and what a judging may be about to load stays in it."""

import os
import time
from pathlib import Path

import pytest

from benchmarks.harness import Paths, Source, default_rules
from benchmarks.harness.compilers import builds, pruning
from tests.harness.test_shelf import Dictionary

HOUR_S = 3600.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for place, hours in enumerate((5, 4, 3, 2, 0)):
        made(tmp_path, f"build-{place}", hours)
    return tmp_path


def made(folder: Path, name: str, hours: float, size_bytes: int = 1000) -> None:
    (folder / name / "module").mkdir(parents=True)
    (folder / name / "module" / "program.so").write_bytes(b"x" * size_bytes)
    used_s = time.time() - hours * HOUR_S
    os.utime(folder / name, (used_s, used_s))


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_dir())


def test_what_was_used_longest_ago_goes_first(folder: Path) -> None:
    pruning.make_room(folder, max_bytes=3000)
    assert left(folder) == ["build-2", "build-3", "build-4"]


def test_nothing_goes_while_there_is_room(folder: Path) -> None:
    pruning.make_room(folder, max_bytes=5000)
    assert len(left(folder)) == 5
    pruning.make_room(folder)
    assert len(left(folder)) == 5


def test_what_was_used_within_an_hour_stays_whatever_its_size(folder: Path) -> None:
    made(folder, "large", 0.5, size_bytes=100_000)
    pruning.make_room(folder, max_bytes=1)
    assert left(folder) == ["build-4", "large"]


def test_a_use_is_noted(folder: Path) -> None:
    pruning.note_use(folder / "build-0")
    pruning.note_use(folder / "gone")
    pruning.make_room(folder, max_bytes=2000)
    assert left(folder) == ["build-0", "build-4"]


def test_it_looks_once_a_minute(folder: Path) -> None:
    pruning.make_room(folder, max_bytes=5000)
    pruning.make_room(folder, max_bytes=1)
    assert len(left(folder)) == 5
    long_ago_s = time.time() - 2 * pruning.LOOK_EVERY_S
    os.utime(folder / ".looked", (long_ago_s, long_ago_s))
    pruning.make_room(folder, max_bytes=1)
    assert left(folder) == ["build-4"]


def test_links_are_not_followed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    made(elsewhere, "kept", 9, size_bytes=50_000)
    (folder / "link").symlink_to(elsewhere)
    (folder / "build-0" / "link").symlink_to(elsewhere)
    os.utime(folder / "build-0", (0, 0))
    pruning.make_room(folder, max_bytes=1)
    assert left(elsewhere) == ["kept"]
    assert (elsewhere / "kept" / "module" / "program.so").exists()


@pytest.mark.sandbox
def test_a_new_build_makes_room_and_an_old_one_is_built_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "KEPT_MAX_BYTES", 1)
    monkeypatch.setattr(pruning, "LOOK_EVERY_S", 0.0)
    paths = Paths(root)
    made(paths.builds, "old", 2)
    broken = [Source(f"not a kernel {number}", "cpp") for number in range(2)]
    assert builds.build(broken[0], default_rules(), paths).exit_code != 0
    assert "old" not in left(paths.builds)
    (first,) = left(paths.builds)
    assert builds.build(broken[0], default_rules(), paths).cached
    os.utime(paths.builds / first, (0, 0))
    builds.build(broken[1], default_rules(), paths)
    assert first not in left(paths.builds)
    assert not builds.build(broken[0], default_rules(), paths).cached


@pytest.mark.sandbox
def test_what_another_machine_has_built_makes_room_too(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a GPU may never build: others compile for it."""
    monkeypatch.setattr(pruning, "KEPT_MAX_BYTES", 1)
    shelf, broken = Dictionary(), Source("not a kernel", "cpp")
    builds.build(broken, default_rules(), Paths(root, shelf))
    paths = Paths(root / "another", shelf)
    made(paths.builds, "old", 2)
    assert builds.build(broken, default_rules(), paths).cached
    assert [name.partition(".")[0] for name in left(paths.builds)] == [*shelf.items]
