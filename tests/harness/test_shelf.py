"""Builds that travel between machines: packed, unpacked, and fetched instead of compiled."""

import io
import tarfile
import uuid
from pathlib import Path

import pytest

from benchmarks.harness import Paths, Source, default_rules
from benchmarks.harness.compilers import builds
from benchmarks.harness.shelf import pack, unpack

RULES = default_rules()
PLAIN = (
    "#include <torch/extension.h>\ntorch::Tensor forward(torch::Tensor x) { return x.clone(); }\n"
    'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "f"); }\n'
)


class Dictionary:
    """A shelf in memory."""

    def __init__(self) -> None:
        self.items: dict[str, bytes] = {}

    def put(self, key: str, packed: bytes) -> None:
        self.items[key] = packed

    def get(self, key: str) -> bytes | None:
        return self.items.get(key)


def test_what_is_unpacked_is_what_was_packed(tmp_path: Path) -> None:
    made = tmp_path / "made"
    (made / "module").mkdir(parents=True)
    (made / "module/a.py").write_text("1")
    (made / "build.json").write_text("{}")
    (made / "build.77").write_text("on its way")
    unpack(pack(made, ("module", "build.json", "absent.so")), tmp_path / "there")
    found = sorted(str(path.relative_to(tmp_path / "there")) for path in (tmp_path / "there").rglob("*"))
    assert found == ["build.json", "module", "module/a.py"]


def test_losing_the_race_to_unpack_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "build.json").write_text("{}")
    packed = pack(tmp_path, ("build.json",))
    for _ in range(2):
        unpack(packed, tmp_path / "there")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["build.json", "there"]


@pytest.mark.parametrize("way", ["link", "second name", "way up", "no archive"])
def test_what_no_machine_of_ours_has_packed_is_as_good_as_absent(tmp_path: Path, way: str) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        member = tarfile.TarInfo("../build.json" if way == "way up" else "build.json")
        if way in ("link", "second name"):
            member.type = tarfile.SYMTYPE if way == "link" else tarfile.LNKTYPE
            member.linkname = "kbench_submission.so"
        archive.addfile(member)
    unpack(b"x" * 1024 if way == "no archive" else buffer.getvalue(), tmp_path / "there")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.sandbox
def test_one_machine_compiles_and_the_other_fetches(paths: Paths, tmp_path: Path) -> None:
    shelf, source = Dictionary(), Source(f"// {uuid.uuid4()}\n{PLAIN}", "cpp")
    made = builds.build(source, RULES, Paths(paths.data, shelf))
    fetched = builds.build(source, RULES, Paths(tmp_path / "there", shelf))
    assert made.binary is not None
    assert fetched.binary is not None
    assert (made.cached, fetched.cached) == (False, True)
    assert fetched.binary.is_relative_to(tmp_path / "there")
    assert fetched.binary.read_bytes() == made.binary.read_bytes()


@pytest.mark.sandbox
def test_a_failure_travels_with_its_log(paths: Paths, tmp_path: Path) -> None:
    shelf, source = Dictionary(), Source(f"// {uuid.uuid4()}\nint forward = ;", "cpp")
    for folder in (paths.data, tmp_path / "there"):
        result = builds.build(source, RULES, Paths(folder, shelf))
        assert (result.binary, result.exit_code) == (None, 1)
        assert "error" in result.log
    assert result.cached
