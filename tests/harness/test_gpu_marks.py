"""Notes that the workers of a machine share: what has lately lacked memory of a GPU."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.harness.errors import SupervisorError
from benchmarks.harness.gpu import marks
from benchmarks.harness.gpu.marks import COUNT_MAX, forget, mark_of, note, noted

pytestmark = pytest.mark.usefixtures("own_marks")


@pytest.fixture(autouse=True)
def new_worker() -> None:
    """It has not read the secret yet."""
    marks._secret.cache_clear()


def test_looking_for_a_note_and_forgetting_none_leave_no_file(tmp_path: Path) -> None:
    """Anybody can ask for the tasks of the world."""
    for number in range(9):
        assert noted(f"a/task{number}") == 0
        forget(f"a/task{number}")
    assert list(tmp_path.iterdir()) == []


def test_a_note_has_a_count_until_it_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    for count, kept in ((12, 12), (3, 3), (10**12, COUNT_MAX)):
        note("a/task", count)
        assert (noted("a/task"), noted("another/task")) == (kept, 0)
    forget("a/task")
    assert noted("a/task") == 0
    note("a/task")
    monkeypatch.setattr(marks, "CROWDED_S", 0.0)
    assert noted("a/task") == 0


@pytest.mark.parametrize("content", [b"", b"1", b"-00000001", b"\xd9\xa1" * 9, b"9" * 99])
def test_a_note_may_hold_anything(tmp_path: Path, content: bytes) -> None:
    """Any user of the machine can write it."""
    note("a/task")
    (file,) = tmp_path.iterdir()
    file.write_bytes(content)
    assert noted("a/task") == {b"1": 1, b"9" * 99: COUNT_MAX}.get(content, 0)
    note("a/task", 7)
    assert noted("a/task") == 7


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to("/etc/passwd"), os.mkfifo])
def test_what_another_user_put_in_place_of_a_note_is_our_fault(tmp_path: Path, make: Callable[[Path], None]) -> None:
    note("a/task")
    (file,) = tmp_path.iterdir()
    file.unlink()
    make(file)
    with pytest.raises(SupervisorError, match="cannot be used"):
        noted("a/task")


def test_an_author_cannot_tell_which_files_share_a_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Else a comment could be chosen so that a new file has the name of one that claimed a lack of memory."""
    files = [tmp_path / str(number) for number in range(64)]
    here = [mark_of(file) for file in files]
    marks._secret.cache_clear()
    assert [mark_of(file) for file in files] == here, "another worker of this machine"
    monkeypatch.setattr(marks, "_PREFIX", str(tmp_path / "another-machine-"))
    assert [mark_of(file) for file in files] != here
    assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("*secret*")} == {0o600}
    assert len(list(tmp_path.iterdir())) == 2, "nothing is left of making it"


def test_workers_that_start_at_once_have_one_secret(tmp_path: Path) -> None:
    path, start, found = tmp_path / "secret", threading.Barrier(8), list[bytes]()

    def works() -> None:
        start.wait()
        found.append(marks._secret.__wrapped__(path))

    threads = [threading.Thread(target=works) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


def others(path: Path) -> None:
    path.write_bytes(bytes(32))
    path.chmod(0o644)


def linked(path: Path) -> None:
    target = path.with_name("target")
    target.write_bytes(bytes(32))
    target.chmod(0o600)
    path.symlink_to(target)


def short(path: Path) -> None:
    path.touch(0o600)


@pytest.mark.parametrize("make", [others, linked, short, os.mkfifo, Path.mkdir])
def test_a_secret_that_others_know_is_none(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "secret"
    make(path)
    with pytest.raises(SupervisorError):
        marks._secret(path)
