"""Binaries that a hostile build can leave: every field of their tables forged, cut anywhere, sections over each other.

Whatever they are, device code is found or the calls are not replayed. That is the submission's affair: an error of
another kind would be the judge's. Work is counted in bytes, not in time.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.harness.gpu import device_code as device_code_module
from benchmarks.harness.gpu.device_code import device_code, fat_binaries
from benchmarks.harness.gpu.record import NotReplayable

HEADER, ROW = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQIIQQ")
NAMES = b"\0.nv_fatbin\0.shstrtab\0"


def fat(body: bytes) -> bytes:
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def library(section: bytes, sections: int = 1) -> bytes:
    """A shared library with `sections` sections of device code, all of them the same bytes of the file."""
    names_at, table = HEADER.size + len(section), HEADER.size + len(section) + len(NAMES)
    rows = [(0,) * 10, (11, 3, 0, 0, names_at, len(NAMES), 0, 0, 1, 0)]
    rows += [(1, 1, 2, 0, HEADER.size, len(section), 0, 0, 8, 0)] * sections
    header = HEADER.pack(b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 0, table, 0, 64, 0, 0, ROW.size, len(rows), 1)
    return header + section + NAMES + b"".join(ROW.pack(*row) for row in rows)


WHOLE = library(fat(b"a" * 24) + fat(b"b" * 8))


def forged() -> Iterator[bytes]:
    """WHOLE with each field of each table at its limits, and cut behind each byte."""
    yield from (WHOLE[:length] for length in range(len(WHOLE)))
    places = [(at, size) for size in (2, 4, 8) for at in range(0, len(WHOLE) - size + 1, size)]
    places += [(at, 8) for at in range(HEADER.size + 8, len(WHOLE) - 8, 24)]  # of the second image, and unaligned
    for at, size in places:
        top = 1 << (8 * size)
        own = int.from_bytes(WHOLE[at : at + size], "little")
        for value in {0, 1, own + 1, len(WHOLE) - 1, len(WHOLE), len(WHOLE) + 1, top // 2 - 1, top // 2, top - 1}:
            yield WHOLE[:at] + (value % top).to_bytes(size, "little") + WHOLE[at + size :]


def test_the_whole_library_is_read(tmp_path: Path) -> None:
    path = tmp_path / "k.so"
    path.write_bytes(WHOLE)
    assert device_code(path, tmp_path) == [fat(b"a" * 24), fat(b"b" * 8)]


def test_a_forged_library_holds_parts_of_itself_or_nothing() -> None:
    for data in forged():
        images = list(fat_binaries(data))
        assert sum(map(len, images)) <= len(data)
        assert all(image in data for image in images)


@pytest.mark.parametrize(("image_bytes", "reason"), [(0, 1024), (1 << 20, 256)])
def test_sections_over_each_other_are_read_until_it_is_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image_bytes: int, reason: int
) -> None:
    """Sixty thousand sections over the same megabyte would be sixty gigabytes."""
    taken = []
    real = device_code_module.fat_binaries
    monkeypatch.setattr(device_code_module, "fat_binaries", lambda data: (taken.append(it) or it for it in real(data)))
    path = tmp_path / "k.so"
    path.write_bytes(library(fat(b"x" * image_bytes), 60_000))
    with pytest.raises(NotReplayable, match="more device code"):
        device_code(path, tmp_path)
    assert len(taken) <= reason + 1


def test_sections_without_images_are_looked_at_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs one header, however large it claims to be."""
    looked = []

    class Counting:
        size = device_code_module._FATBIN.size

        def unpack_from(self, data: memoryview, at: int) -> tuple[int, ...]:
            looked.append(at)
            return struct.unpack_from("<IHHQ", data, at)

    monkeypatch.setattr(device_code_module, "_FATBIN", Counting())
    for sections in (30_000, 60_000):
        looked.clear()
        assert list(fat_binaries(library(b"\0" * (1 << 16), sections))) == []
        assert len(looked) == sections
