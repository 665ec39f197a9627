"""Notes that the workers of a machine share: what has lately lacked memory of a GPU."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.harness.errors import SupervisorError
from benchmarks.harness.gpu import marks
from benchmarks.harness.gpu.marks import COUNT_MAX, forget, note, noted

pytestmark = pytest.mark.usefixtures("own_marks")


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
