"""What may leave a sandbox: an answer by descriptor, copies of plain files, and nothing else that a stranger leaves."""

import io
import mmap
import os
import socket
import tarfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.harness.sandbox import outbox
from benchmarks.harness.sandbox.outbox import (
    AnswerFile,
    Bounds,
    NotTaken,
    TooMuch,
    discard,
    log_end,
    read_file,
    take_folder,
    unpack_into,
)

BOUNDS = Bounds(files=20, total_bytes=4096, depth=4)
Leave = Callable[[Path], object]


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """Where a sandbox could write."""
    folder = tmp_path / "left"
    folder.mkdir()
    (folder / "kept.txt").write_text("plain")
    return folder


def _deep(folder: Path) -> None:
    (folder / "/".join("abcdefg")).mkdir(parents=True)


def _socket(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(folder / "socket"))


def _sparse(folder: Path) -> None:
    with (folder / "giant").open("wb") as file:
        file.truncate(1 << 40)


def _loop(folder: Path) -> None:
    (folder / "one").symlink_to("two")
    (folder / "two").symlink_to("one")


def _thousand(folder: Path) -> None:
    for number in range(1000):
        (folder / str(number)).touch()


def _hard_link_below(folder: Path) -> None:
    (folder / "below").mkdir()
    (folder / "below/second").hardlink_to(folder / "kept.txt")


HOSTILE: dict[str, tuple[Leave, str]] = {
    "link to a file": (lambda folder: (folder / "a").symlink_to("/etc/passwd"), "a link"),
    "link to a folder": (lambda folder: (folder / "a").symlink_to("/etc"), "a link"),
    "link to a plain file beside it": (lambda folder: (folder / "a").symlink_to("kept.txt"), "a link"),
    "dangling link": (lambda folder: (folder / "a").symlink_to("nowhere"), "a link"),
    "links in a loop": (_loop, "a link"),
    "pipe": (lambda folder: os.mkfifo(folder / "a"), "a pipe"),
    "socket": (_socket, "a socket"),
    "second name of a file": (lambda folder: (folder / "a").hardlink_to(folder / "kept.txt"), "a second name"),
    "second name further down": (_hard_link_below, "a second name"),
    "name with a line break": (lambda folder: (folder / "a\nb").touch(), "characters that are not allowed"),
    "name that is no text": (lambda folder: (folder / os.fsdecode(b"\xff")).touch(), "characters that are not allowed"),
    "name that writes backwards": (lambda folder: (folder / "\u202etxt").touch(), "characters that are not allowed"),
    "name of 250 bytes": (lambda folder: (folder / ("a" * 250)).touch(), "characters that are not allowed"),
    "more bytes than allowed": (lambda folder: (folder / "a").write_bytes(b"x" * 4097), "more bytes"),
    "a file of a terabyte without content": (_sparse, "more bytes"),
    "a thousand files": (_thousand, "more files"),
    "folders in folders": (_deep, "too deep"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_folder_with_anything_but_plain_files_is_not_taken(left: Path, tmp_path: Path, name: str) -> None:
    leave, words = HOSTILE[name]
    leave(left)
    with pytest.raises(NotTaken, match=words):
        take_folder(left, tmp_path / "taken", BOUNDS)
    assert not (tmp_path / "taken").exists()


def test_a_folder_that_is_itself_a_link_is_not_taken(left: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(left)
    with pytest.raises(NotTaken, match="cannot be read"):
        take_folder(tmp_path / "link", tmp_path / "taken", BOUNDS)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices and files of others")
def test_devices_and_files_of_others_are_not_taken(left: Path, tmp_path: Path) -> None:
    os.mknod(left / "null", 0o20666, os.makedev(1, 3))
    with pytest.raises(NotTaken, match="a device"):
        take_folder(left, tmp_path / "taken", BOUNDS)
    (left / "null").unlink()
    os.chown(left / "kept.txt", 12345, 12345)
    with pytest.raises(NotTaken, match="belongs to somebody else"):
        take_folder(left, tmp_path / "taken", BOUNDS)


@pytest.mark.parametrize("more", [1, 1 << 21])
def test_a_file_that_grows_while_it_is_read_is_not_taken(
    left: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    real_read = os.read

    def read(fd: int, size: int) -> bytes:
        with (left / "kept.txt").open("ab") as file:
            file.write(b"y" * more)
        return real_read(fd, size)

    monkeypatch.setattr(outbox.os, "read", read)
    with pytest.raises(NotTaken, match="changed while it was read"):
        take_folder(left, tmp_path / "taken", BOUNDS)


def test_a_file_that_becomes_a_link_while_it_is_looked_at_is_not_taken(
    left: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_open = os.open

    def exchange(path: object, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == "kept.txt":
            (left / "kept.txt").unlink()
            (left / "kept.txt").symlink_to("/etc/passwd")
        return real_open(path, flags, mode, dir_fd=dir_fd)  # type: ignore[arg-type]

    monkeypatch.setattr(outbox.os, "open", exchange)
    with pytest.raises(NotTaken, match="cannot be read"):
        take_folder(left, tmp_path / "taken", BOUNDS)


def test_plain_files_are_taken_without_the_rights_that_a_sandbox_gave_them(left: Path, tmp_path: Path) -> None:
    (left / "below").mkdir()
    (left / "below/program").write_text("run")
    (left / "below/program").chmod(0o6777)
    (left / "kept.txt").chmod(0o666)
    take_folder(left, tmp_path / "taken", BOUNDS)
    found = {str(path.relative_to(tmp_path / "taken")): path for path in (tmp_path / "taken").rglob("*")}
    assert sorted(found) == ["below", "below/program", "kept.txt"]
    assert found["below/program"].read_text() == "run"
    assert [found[name].stat().st_mode & 0o7777 for name in ("below/program", "kept.txt")] == [0o755, 0o644]
    (left / "kept.txt").write_text("changed later")
    assert found["kept.txt"].read_text() == "plain"


def test_nothing_is_copied_over_what_is_there(left: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(FileExistsError):
        take_folder(left, tmp_path / "taken", BOUNDS)


def test_an_answer_is_what_was_left_in_it(tmp_path: Path) -> None:
    with AnswerFile(100) as answer:
        Path(answer.path).write_bytes(b"said")
        assert answer.read() == b"said"
        answer.save(tmp_path / "made")
    assert (tmp_path / "made").read_bytes() == b"said"


def test_an_answer_that_is_closed_again_closes_nothing() -> None:
    """A crew can be ended twice, and by then its number is that of another file."""
    answer = AnswerFile(100)
    answer.close()
    assert answer.fd == -1  # closing this number raises
    answer.close()


def test_an_answer_is_never_saved_over_a_file_or_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "host").write_text("mine")
    (tmp_path / "link").symlink_to("host")
    for name in ("host", "link"):
        with AnswerFile(100) as answer:
            os.write(answer.fd, b"said")
            with pytest.raises(FileExistsError):
                answer.save(tmp_path / name)
    assert (tmp_path / "host").read_text() == "mine"


def test_an_answer_without_content_or_past_its_limit_is_not_taken() -> None:
    with AnswerFile(100) as answer, pytest.raises(NotTaken, match="no answer"):
        answer.read()
    for size_bytes in (101, 1 << 40):
        with AnswerFile(100) as answer:
            os.ftruncate(answer.fd, size_bytes)
            with pytest.raises(TooMuch, match="of which 100 are allowed"):
                answer.read()


def test_an_answer_that_is_not_taken_leaves_no_file(tmp_path: Path) -> None:
    """Else the next attempt of a compilation with other headers would find one in its place."""
    for left, error in ((b"", NotTaken), (b"x" * 101, TooMuch)):
        with AnswerFile(100) as answer:
            os.write(answer.fd, left)
            with pytest.raises(error):
                answer.save(tmp_path / "saved")
        assert not (tmp_path / "saved").exists()


def test_an_answer_that_somebody_could_still_write_is_not_taken() -> None:
    with AnswerFile(100) as answer:
        os.write(answer.fd, b"said")
        with mmap.mmap(answer.fd, 4), pytest.raises(NotTaken, match="still being written"):
            answer.read()
        assert answer.read() == b"said"
        with pytest.raises(OSError, match="not permitted"):
            os.pwrite(answer.fd, b"else", 0)


def test_rights_that_a_sandbox_takes_from_its_answer_do_not_matter() -> None:
    with AnswerFile(100) as answer:
        os.write(answer.fd, b"said")
        os.fchmod(answer.fd, 0)
        assert answer.read() == b"said"


def _tar(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for member, content in members:
            member.size = member.size or len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _member(name: str, kind: bytes = tarfile.REGTYPE, **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type = kind
    for field, value in fields.items():
        setattr(info, field, value)
    return info, b"text" if kind == tarfile.REGTYPE else b""


ARCHIVES = {
    "a way up": _tar(_member("../out")),
    "a way up in the middle": _tar(_member("a", tarfile.DIRTYPE), _member("a/../../out")),
    "an absolute name": _tar(_member("/srv/out")),
    "an empty part": _tar(_member("a", tarfile.DIRTYPE), _member("a//b")),
    "a line break": _tar(_member("a\nb")),
    "a link": _tar(_member("a", tarfile.SYMTYPE, linkname="/etc"), _member("a/passwd")),
    "a hard link": _tar(_member("a"), _member("b", tarfile.LNKTYPE, linkname="a")),
    "a pipe": _tar(_member("a", tarfile.FIFOTYPE)),
    "a device": _tar(_member("a", tarfile.CHRTYPE, devmajor=1, devminor=3)),
    "a sparse file": _tar(_member("a", tarfile.GNUTYPE_SPARSE)),
    "the same name twice": _tar(_member("a"), _member("a")),
    "a file below a file": _tar(_member("a"), _member("a/b")),
    "too deep": _tar(*(_member("/".join("a" * n), tarfile.DIRTYPE) for n in range(1, 6))),
    "too many": _tar(*(_member(str(n)) for n in range(21))),
    "too large": _tar((_member("a")[0], b"x" * 4097)),
    "larger than it is": _tar(_member("a"))[:512],
    "no archive": b"x" * 2048,
    "nothing at all": b"",
    "a name that is no text": _tar(_member("a\udcff")),
    "a name of more than is read": _tar(_member("a" * 5000)),
    "a size of which half is no number": _tar(_member("a")).replace(b"00000000004\0", b"0000000+004\0"),
    "a folder with content": _tar((_member("a", tarfile.DIRTYPE)[0], b"text")),
    "no end": _tar(_member("a"))[:1024],
    "headers of headers": _tar(*((_member("a", tarfile.XHDTYPE)[0], b"6 a=b\n") for _ in range(3000))),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_with_anything_but_plain_files_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "place").mkdir()
    with pytest.raises(NotTaken):
        unpack_into(ARCHIVES[name], tmp_path / "place", BOUNDS)
    assert [path.name for path in tmp_path.iterdir()] == ["place"]
    assert not any(path.is_symlink() for path in (tmp_path / "place").rglob("*"))


def _sized(kind: bytes, size: int) -> bytes:
    """An archive whose only member says that it has `size` bytes, in the way of those beyond eight gigabytes."""
    header = bytearray(_tar(_member("a"))[:512])
    header[124:136] = (b"\x80" if size >= 0 else b"\xff") + (size % (1 << 88)).to_bytes(11, "big")
    header[148:156], header[156:157] = b" " * 8, kind
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + bytes(1024)


@pytest.mark.parametrize("kind", [b"0", b"L", b"K", b"x", b"g", b"X"])
@pytest.mark.parametrize("size", [1 << 80, 1 << 63, -1, -512, -(1 << 70)])
def test_no_size_of_a_member_is_more_than_a_refusal(tmp_path: Path, kind: bytes, size: int) -> None:
    """Python's reader of archives raises OverflowError for some of them, which was booked as the judge's fault."""
    with pytest.raises(NotTaken):
        unpack_into(_sized(kind, size), tmp_path, BOUNDS)


def test_no_header_of_an_archive_takes_longer_than_its_length(tmp_path: Path) -> None:
    """Python's reader searches the digits of such a header in a time that grows with their square."""
    digits = b"1" * (1 << 20)
    member = _member("a", tarfile.XHDTYPE)[0]
    started_s = time.process_time()
    with pytest.raises(NotTaken):
        unpack_into(_tar((member, digits)), tmp_path, replace(BOUNDS, total_bytes=1 << 30))
    assert time.process_time() - started_s < 5


def test_an_archive_of_plain_files_is_unpacked(tmp_path: Path) -> None:
    members = _member("below", tarfile.DIRTYPE), _member("below/program", mode=0o6777), _member("kept", mode=0o600)
    unpack_into(_tar(*members), tmp_path, BOUNDS)
    assert (tmp_path / "below/program").read_text() == "text"
    assert [(tmp_path / name).stat().st_mode & 0o7777 for name in ("below/program", "kept")] == [0o755, 0o644]


def test_a_name_that_no_header_holds_is_kept(tmp_path: Path) -> None:
    name = "é" * 60 + "x" * 79
    unpack_into(_tar(_member(name), _member("short")), tmp_path, BOUNDS)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "short"])


def test_a_file_is_read_in_its_folder_alone(left: Path, tmp_path: Path) -> None:
    (left / "below").mkdir()
    (left / "below/inner").write_text("inner")
    (left / "way").symlink_to(tmp_path)
    (left / "link").symlink_to("kept.txt")
    os.mkfifo(left / "pipe")
    assert read_file(left, "kept.txt", 5) == b"plain"
    assert read_file(left, "below/inner", 100) == b"inner"
    for name in ("way/left/kept.txt", "link", "pipe", "below", "../left/kept.txt", "absent", "", "/etc/passwd"):
        with pytest.raises(NotTaken):
            read_file(left, name, 100)
    with pytest.raises(TooMuch):
        read_file(left, "kept.txt", 4)
    _sparse(left)
    with pytest.raises(TooMuch):
        read_file(left, "giant", 100)


def test_the_end_of_a_log_is_read_whatever_was_done_to_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert log_end(log, 4) == b""
    log.write_bytes(b"begin" + b"end!")
    log.chmod(0o4000)
    assert log_end(log, 4) == b"end!"
    assert log.stat().st_mode & 0o7777 == 0o600
    os.truncate(log, 1 << 40)
    assert log_end(log, 4) == b"\0" * 4


def test_folders_are_removed_however_deep_and_whatever_rights_they_lack(left: Path, tmp_path: Path) -> None:
    (tmp_path / "host").mkdir()
    (tmp_path / "host/file").write_text("mine")
    (left / "link").symlink_to(tmp_path / "host")
    (left / "locked").mkdir()
    (left / "locked/file").touch()
    (left / "locked").chmod(0)
    here = os.getcwd()
    try:
        os.chdir(left)
        for _ in range(3000):
            os.mkdir("a")
            os.chdir("a")
    finally:
        os.chdir(here)
    discard(left)
    assert not left.exists()
    assert (tmp_path / "host/file").read_text() == "mine"
    assert (tmp_path / "host").stat().st_mode & 0o777 == 0o755
