"""A machine without disk, descriptors or memory fails itself when it takes a sandbox's output, and accuses nobody.

Not covered: what a sandbox can leave (`test_outbox.py`).
"""

import errno
import os
import resource
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.harness.gpu import warming
from benchmarks.harness.gpu.crew import KERNELS
from benchmarks.harness.measuring.faults import Fault
from benchmarks.harness.report import Verdict
from benchmarks.harness.sandbox import outbox
from benchmarks.harness.sandbox.outbox import NotTaken, read_file, take_folder, unpack_into
from benchmarks.harness.shelf import pack

NAME, DEEP = "kernel.cubin", 300  # folders
OURS = [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM]
WAYS: dict[str, Callable[[Path, Path, bytes], object]] = {
    "unpacked": lambda _, target, packed: unpack_into(packed, target, KERNELS),
    "copied": lambda left, target, _: take_folder(left, target / "new", KERNELS),
    "read": lambda left, *_: read_file(left, NAME, 1000),
}


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """What a sandbox has left, an ordinary file."""
    for name in ("left", "target"):
        (tmp_path / name).mkdir()
    (tmp_path / "left" / NAME).write_bytes(b"x" * 1000)
    return tmp_path / "left"


def lacking(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Opening the file fails, to read it or to write it anew."""
    real = os.open

    def fails(path: Any, *args: Any, **more: Any) -> int:
        if str(path).endswith(NAME):
            raise OSError(code, os.strerror(code))
        return real(path, *args, **more)

    monkeypatch.setattr(outbox.os, "open", fails)


@pytest.mark.parametrize("code", OURS, ids=lambda code: errno.errorcode[code])
@pytest.mark.parametrize("way", WAYS)
def test_what_the_machine_lacks_is_not_refused_to_a_sandbox(
    left: Path, monkeypatch: pytest.MonkeyPatch, way: str, code: int
) -> None:
    packed = pack(left, [NAME])
    lacking(monkeypatch, code)
    with pytest.raises(OSError, match=os.strerror(code)):
        WAYS[way](left, left.parent / "target", packed)


@pytest.mark.parametrize("way", WAYS)
def test_what_a_sandbox_left_is_refused_as_before(left: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    packed = pack(left, [NAME])
    lacking(monkeypatch, errno.EEXIST)
    with pytest.raises(NotTaken, match="File exists"):
        WAYS[way](left, left.parent / "target", packed)


@pytest.mark.parametrize(("code", "verdict"), [(errno.ENOSPC, None), (errno.EEXIST, Verdict.TAMPERING)])
def test_a_full_disk_accuses_no_kernel_of_tampering(
    left: Path, monkeypatch: pytest.MonkeyPatch, code: int, verdict: Verdict | None
) -> None:
    packed = pack(left, [NAME])
    monkeypatch.setattr(warming, "await_warm", lambda *_: {})
    lacking(monkeypatch, code)
    crew: Any = SimpleNamespace(
        warmer=lambda: (SimpleNamespace(open=lambda _: None), 0),
        end_warmer=lambda: None,
        keep_kernels=lambda _: unpack_into(packed, left.parent / "target", KERNELS),
    )
    with pytest.raises((OSError, Fault)) as caught:
        warming.warm(crew, {}, 1.0, lambda: None)
    assert getattr(caught.value, "verdict", None) is verdict


def test_a_file_may_lie_deeper_than_descriptors_are_many(tmp_path: Path) -> None:
    """Else a repository of a stranger could fail its import as if the machine had no descriptors left."""
    place = tmp_path
    for _ in range(DEEP):
        place /= "a"
        place.mkdir()
    (place / NAME).write_bytes(b"x")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(map(int, os.listdir("/proc/self/fd"))) + 20
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    try:
        assert read_file(tmp_path, f"{'a/' * DEEP}{NAME}", 10) == b"x"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
