"""Inputs out of safetensors files: what is taken, what is left out by name, and one task examined for real."""

import base64
import json
import random
import struct
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.harness import examine, read_file
from benchmarks.importers import READERS, tensors

DEFINITION = {
    "name": "gather",
    "op_type": "gather",
    "axes": {"rows": {"type": "var"}, "picked": {"type": "var"}, "width": {"type": "const", "value": 24}},
    "inputs": {
        "x": {"shape": ["rows", "width"], "dtype": "float32"},
        "index": {"shape": ["picked"], "dtype": "int32"},
    },
    "outputs": {"y": {"shape": ["picked", "width"], "dtype": "float32"}},
    "reference": "import torch\n\n\ndef run(x, index):\n    return torch.softmax(x[index.long()], -1)\n",
}
STORED = {"type": "safetensors", "path": "blob/index.safetensors", "tensor_key": "index"}
INDEX = struct.pack("<8i", 3, 1, 30, 30, 7, 0, 12, 5)


def safetensors_of(tensors: dict) -> bytes:
    """A file of the format: the length of a header in JSON, the header, and the values one after the other."""
    header, values = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(values), len(values) + len(data)]}
        values += data
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + values


def suite(folder: Path, lines: list[dict], tensors: dict | None = None) -> Path:
    (folder / "definitions").mkdir()
    (folder / "definitions/gather.json").write_text(json.dumps(DEFINITION))
    (folder / "workloads").mkdir()
    (folder / "workloads/gather.jsonl").write_text("\n".join(json.dumps({"workload": line}) for line in lines))
    (folder / "blob").mkdir()
    stored = {"index": ("I32", [8], INDEX)} if tensors is None else tensors
    (folder / "blob/index.safetensors").write_bytes(safetensors_of(stored))
    return folder


def workload(index: dict | None = None, x: dict | None = None, **axes: int) -> dict:
    sizes = {"rows": 32, "picked": 8} | axes
    return {"axes": sizes, "inputs": {"x": x or {"type": "random"}, "index": index or STORED}}


def read(folder: Path):
    [found] = READERS["flashinfer-trace"](folder, "flashinfer-trace")
    return found


def test_a_small_tensor_becomes_part_of_the_task(tmp_path: Path) -> None:
    task = read(suite(tmp_path, [workload(), workload(rows=64)])).task
    assert task.labels == ("fixed-inputs",)
    [name] = {item.values["index"] for item in task.configs}
    assert [dict(item.values) for item in task.configs] == [
        {"rows": 32, "picked": 8, "index": name},
        {"rows": 64, "picked": 8, "index": name},
    ]
    assert name in task.source


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"path": "../outside.safetensors"}, "cannot be read: its name"),
        ({"path": "/etc/passwd"}, "is not a path below the folder"),
        ({"path": "blob/link.safetensors"}, "is a link"),
        ({"path": "blob/folder.safetensors"}, "is a folder"),
        ({"path": "blob/missing.safetensors"}, "cannot be read: it cannot be read: No such file"),
        ({"path": "blob/pointer.safetensors"}, "is a pointer of Git LFS"),
        ({"path": "blob/text.safetensors"}, "is not a safetensors file"),
        ({"path": None}, "it names no path"),
        ({"tensor_key": "other"}, "has no tensor 'other'"),
    ],
)
def test_a_file_that_cannot_be_used_leaves_the_workload_out_by_line(tmp_path: Path, entry: dict, words: str) -> None:
    suite(tmp_path, [workload(STORED | entry)])
    (tmp_path / "blob/link.safetensors").symlink_to(tmp_path / "blob/index.safetensors")
    (tmp_path / "blob/folder.safetensors").mkdir()
    (tmp_path / "blob/pointer.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n")
    (tmp_path / "blob/text.safetensors").write_text("no tensors at all")
    problem = read(tmp_path).problem
    assert problem.startswith("all 1 workloads are left out; gather.jsonl:1: input index: ")
    assert words in problem


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (("I32", [2, 4], INDEX), "is int32 [2, 4], the definition says int32 [8]"),
        (("I64", [4], INDEX), "is int64 [4], the definition says int32 [8]"),
        (("U16", [16], INDEX), "the dtype U16 is not judged here"),
        (("U8", [5 << 20], bytes(5 << 20)), "has 5242880 bytes, at most 4194304 are read"),
    ],
)
def test_a_tensor_that_does_not_fit_leaves_the_workload_out(tmp_path: Path, tensor: tuple, words: str) -> None:
    assert words in read(suite(tmp_path, [workload()], {"index": tensor})).problem


def test_tensors_of_a_task_are_limited_together(tmp_path: Path) -> None:
    noise = random.Random(2).randbytes(1 << 17)
    stored = {"index": ("I32", [7500], noise[:30_000]), "other": ("I32", [7500], noise[30_000:60_000])}
    lines = [workload(STORED | {"tensor_key": key}, picked=7500) for key in stored]
    task = read(suite(tmp_path, lines, stored)).task
    assert "other its tensors take more than 64 KiB compressed" in task.summary
    assert len(task.configs) == 1


def test_a_tensor_that_is_too_much_for_a_task_is_left_out(tmp_path: Path) -> None:
    tensor = ("I32", [1 << 15], random.Random(2).randbytes(1 << 17))
    problem = read(suite(tmp_path, [workload(picked=1 << 15)], {"index": tensor})).problem
    assert "index takes more than 64 KiB compressed" in problem


def test_files_are_read_once_and_not_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "_READ_BYTES_MAX", 250)
    reads: list[str] = []
    monkeypatch.setattr(tensors, "read_file", lambda *given: reads.append(given[1]) or read_file(*given))
    keys = ["none", "none", "index", "index", "other", "more", "last"]
    lines = [workload(STORED | {"tensor_key": key}, rows=32 + number) for number, key in enumerate(keys)]
    task = read(suite(tmp_path, lines)).task
    assert [item.values["rows"] for item in task.configs] == [34, 35]
    assert len(reads) == 3  # of about 100 bytes each
    assert "5 workloads are left out" in task.summary


def test_a_workload_without_a_fresh_input_is_left_out(tmp_path: Path) -> None:
    found = read(suite(tmp_path, [workload(x=STORED)]))
    assert found.problem.endswith("all of its inputs are fixed, so every call would be the same")


def test_what_no_configuration_uses_is_not_kept(tmp_path: Path) -> None:
    missing = STORED | {"path": "blob/none.safetensors"}
    lines = [workload(missing), workload({"type": "random"}, rows=1024, picked=16)]
    task = read(suite(tmp_path, lines)).task
    assert task.labels == ()
    assert "blob/none.safetensors cannot be read" in task.summary


@pytest.mark.sandbox
def test_a_task_with_a_stored_index_is_judged_and_not_ranked(tmp_path: Path, paths) -> None:
    found = examine(read(suite(tmp_path, [workload()])).task, paths, compare_compiled=False)
    assert found.task is not None, found.problem
    assert found.labels[:2] == ("one-shape", "fixed-inputs")
    index = found.task.configs_for("cpu")[0].tensors[1]
    assert (index.name, index.options["low"], index.options["high"]) == ("index", 0, 30)


def test_what_compresses_slowly_is_given_up_and_not_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it is named, and in however many ways: four megabytes of this take twelve seconds."""
    slow = bytes(random.Random(1).choices(b"ab", k=1 << 20))
    suite(tmp_path, [], {"index": ("U8", [len(slow)], slow), "other": ("I32", [8], INDEX)})
    packed_bytes = []

    class Packer:
        def __init__(self, level: int) -> None:
            self._own = zlib.compressobj(level)
            self.flush = self._own.flush

        def compress(self, data: bytes) -> bytes:
            packed_bytes.append(len(data))
            return self._own.compress(data)

    monkeypatch.setattr(tensors, "zlib", SimpleNamespace(compressobj=Packer))
    files = tensors.TensorFiles(tmp_path)
    for path in ("blob/index.safetensors", "./blob/index.safetensors", "blob//./index.safetensors"):
        with pytest.raises(tensors.Unreadable, match="more than 64 KiB compressed"):
            files.take(STORED | {"path": path}, tensors.TensorForm("uint8", (len(slow),)))
    assert sum(packed_bytes) < len(slow)


@pytest.mark.parametrize("size", [1, 100, 65_536, 300_000])
def test_pieces_are_packed_as_the_whole_is(tmp_path: Path, size: int) -> None:
    """The packed text is part of a task's content."""
    data = bytes(number * number // 999 % 7 for number in range(size))
    suite(tmp_path, [], {"index": ("U8", [size], data)})
    files = tensors.TensorFiles(tmp_path)
    name = files.take(STORED, tensors.TensorForm("uint8", (size,)))
    assert base64.b64decode(files.packed[name][2]) == zlib.compress(data, 9)
