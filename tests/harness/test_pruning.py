"""Caches stay below a share of the disk, and what a judging may be about to load stays in them."""

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.harness import Paths, Source, default_rules
from benchmarks.harness.compilers import builds, pruning
from tests.harness.test_shelf import Dictionary

HOUR_S = 3600.0
MIB = 1 << 20
EACH_BYTES = int(1.05 * MIB)  # a build in these tests, with its folders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for place, hours in enumerate((5, 4, 3, 2, 0)):
        made(tmp_path, f"build-{place}", hours)
    return tmp_path


def made(folder: Path, name: str, hours: float, size_bytes: int = MIB) -> None:
    (folder / name / "module").mkdir(parents=True)
    (folder / name / "module" / "program.so").write_bytes(b"x" * size_bytes)
    used_s = time.time() - hours * HOUR_S
    os.utime(folder / name, (used_s, used_s))


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_dir())


def test_what_was_used_longest_ago_goes_first(folder: Path) -> None:
    pruning.make_room(folder, max_bytes=3 * EACH_BYTES)
    assert left(folder) == ["build-2", "build-3", "build-4"]


def test_nothing_goes_while_there_is_room(folder: Path) -> None:
    pruning.make_room(folder, max_bytes=5 * EACH_BYTES)
    assert len(left(folder)) == 5
    pruning.make_room(folder)
    assert len(left(folder)) == 5


def test_what_was_used_within_an_hour_stays_whatever_its_size(folder: Path) -> None:
    made(folder, "large", 0.5, size_bytes=9 * MIB)
    pruning.make_room(folder, max_bytes=1)
    assert left(folder) == ["build-4", "large"]


def test_a_use_is_noted(folder: Path) -> None:
    pruning.note_use(folder / "build-0")
    pruning.note_use(folder / "gone")
    pruning.make_room(folder, max_bytes=2 * EACH_BYTES)
    assert left(folder) == ["build-0", "build-4"]


def test_what_is_used_while_a_cache_is_looked_through_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To look at all builds takes seconds on a cold disk; times of use are read then, and files are removed later."""
    size, looked = pruning._size, list[str]()

    def used_meanwhile(place: str) -> pruning._Size:
        looked.append(place)
        if len(looked) == 5:  # the last one
            pruning.note_use(folder / "build-0")
        return size(place)

    monkeypatch.setattr(pruning, "_size", used_meanwhile)
    pruning.make_room(folder, max_bytes=3 * EACH_BYTES)
    assert left(folder) == ["build-0", "build-3", "build-4"]


def test_what_is_made_anew_while_it_is_removed_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def made_meanwhile(path: Path, target: Path) -> Path:
        found = rename(path, target)
        if path.name == "build-0":
            made(folder, "build-0", 0)
            os.utime(target)
        return found

    monkeypatch.setattr(Path, "rename", made_meanwhile)
    pruning.make_room(folder, max_bytes=3 * EACH_BYTES)
    assert left(folder) == ["build-0", "build-2", "build-3", "build-4"]


@pytest.fixture
def failures(tmp_path: Path) -> Path:
    """Builds that failed are kept as well: a folder and a record of two hundred bytes."""
    for number in range(300):
        build = tmp_path / f"{number:064x}"
        build.mkdir()
        (build / "build.json").write_text('{"exit_code": 1, "log": "module.py:1:1: error: invalid syntax\\n"}')
        os.utime(build, (time.time() - (2 + number) * HOUR_S, time.time() - (2 + number) * HOUR_S))
    return tmp_path


def test_what_counts_is_what_files_take_of_the_disk(failures: Path) -> None:
    """Small files and folders take much more than their content."""
    max_bytes = 300 * 1000
    pruning.make_room(failures, max_bytes=max_bytes)
    taken_bytes = sum(path.stat().st_blocks * 512 for path in failures.rglob("*"))
    assert taken_bytes <= max_bytes


def test_a_cache_has_so_many_files_and_no_more(failures: Path) -> None:
    pruning.make_room(failures, max_files=101)
    assert left(failures) == [f"{number:064x}" for number in range(50)]


def test_a_disk_that_counts_no_files_has_room_for_them(failures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimpleNamespace(f_blocks=1 << 40, f_frsize=4096, f_files=0)
    monkeypatch.setattr(os, "statvfs", lambda _: disk)
    pruning.make_room(failures)
    assert len(left(failures)) == 300
    disk.f_files = 1200
    os.utime(failures / ".looked", (0, 0))
    pruning.make_room(failures)
    assert len(left(failures)) == 150


def test_it_looks_once_a_minute(folder: Path) -> None:
    pruning.make_room(folder, max_bytes=5 * EACH_BYTES)
    pruning.make_room(folder, max_bytes=1)
    assert len(left(folder)) == 5
    long_ago_s = time.time() - 2 * pruning.LOOK_EVERY_S
    os.utime(folder / ".looked", (long_ago_s, long_ago_s))
    pruning.make_room(folder, max_bytes=1)
    assert left(folder) == ["build-4"]


def test_links_are_not_followed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    made(elsewhere, "kept", 9, size_bytes=9 * MIB)
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
