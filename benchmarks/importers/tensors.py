"""Tensors that a workload takes from a file in the safetensors format, small ones, as texts that a task can carry.

The path is below the folder of the suite; links and paths that leave it are refused, and so is everything that is too
large. Kept compressed, so that a task stays one text that any worker can judge. Not covered: tensors of megabytes.
"""

import base64
import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import safetensors

from ..harness import DTYPES, NotTaken, TooMuch, read_file
from .records import Unreadable

_FILE_BYTES_MAX = 64 << 20
_TENSOR_BYTES_MAX = 4 << 20
_READ_BYTES_MAX = 1 << 30  # of all files that the workloads of a task name, each as often as it is read
_TEXT_MAX = 64 << 10  # of all tensors of a task: they are part of its reference, which pages and agents show
_PIECE_BYTES = 64 << 10
_LFS = b"version https://git-lfs"
_NAMES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}
Packed = tuple[str, tuple[int, ...], str]  # dtype, shape, compressed bytes in base 64


@dataclass(frozen=True)
class TensorForm:
    """What a definition says that an input is."""

    dtype: str
    shape: tuple[int, ...]


class TensorFiles:
    """The tensors of one task: `packed` has each once, under a name that its content gives it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[tuple[str, str], tuple[str, Packed] | Unreadable] = {}
        self._left_bytes = _READ_BYTES_MAX
        self.packed: dict[str, Packed] = {}

    def take(self, entry: Mapping[str, Any], wanted: TensorForm) -> str:
        """The name of the tensor that a workload means. Raises Unreadable with what is wrong with its file."""
        path, key = (entry.get(name) for name in ("path", "tensor_key"))
        if not isinstance(path, str) or not isinstance(key, str):
            raise Unreadable("it names no path and tensor_key")
        name, packed = self._tensor(str(PurePosixPath(path)), key)
        if packed[:2] != (wanted.dtype, wanted.shape):
            told = f"{packed[0]} {list(packed[1])}, the definition says {wanted.dtype} {list(wanted.shape)}"
            raise Unreadable(f"{_shown(path)}: {key[:80]} is {told}")
        if name not in self.packed and len(packed[2]) + sum(len(item[2]) for item in self.packed.values()) > _TEXT_MAX:
            raise Unreadable(
                f"{_shown(path)}: with {key[:80]} its tensors take more than {_TEXT_MAX >> 10} KiB compressed"
            )
        self.packed[name] = packed
        return name

    def _tensor(self, path: str, key: str) -> tuple[str, Packed]:
        """What is read of a file is read once, and so is what cannot be."""
        if (path, key) not in self._known:
            try:
                self._known[path, key] = self._read(path, key)
            except Unreadable as error:
                self._known[path, key] = error
        found = self._known[path, key]
        if isinstance(found, Unreadable):
            raise found
        return found

    def _read(self, path: str, key: str) -> tuple[str, Packed]:
        if PurePosixPath(path).is_absolute():
            raise Unreadable(f"{_shown(path)} is not a path below the folder")
        if self._left_bytes < 0:
            raise Unreadable(f"{_shown(path)} is not read: others took {_READ_BYTES_MAX >> 20} MiB already")
        try:
            data = read_file(self._folder, path, _FILE_BYTES_MAX)
        except TooMuch as error:
            raise Unreadable(f"{_shown(path)} has more than {_FILE_BYTES_MAX >> 20} MiB") from error
        except NotTaken as error:
            raise Unreadable(f"{_shown(path)} cannot be read: {error}") from error
        self._left_bytes -= len(data)
        if data.startswith(_LFS):
            raise Unreadable(f"{_shown(path)} is a pointer of Git LFS, not the file: fetch it with git lfs pull")
        try:
            tensors = dict(safetensors.deserialize(data))  # type: ignore[no-untyped-call]
        except safetensors.SafetensorError as error:
            raise Unreadable(f"{_shown(path)} is not a safetensors file: {error}") from error
        if key not in tensors:
            raise Unreadable(f"{_shown(path)} has no tensor {key[:80]!r}")
        return _packed(tensors[key], f"{_shown(path)}: {key[:80]}")


def _packed(tensor: Mapping[str, Any], place: str) -> tuple[str, Packed]:
    dtype, shape, data = _NAMES.get(tensor["dtype"]), tuple(tensor["shape"]), bytes(tensor["data"])
    if dtype is None:
        raise Unreadable(f"{place}: the dtype {tensor['dtype']} is not judged here: use one of {', '.join(DTYPES)}")
    if len(data) > _TENSOR_BYTES_MAX:
        raise Unreadable(f"{place} has {len(data)} bytes, at most {_TENSOR_BYTES_MAX} are read")
    if dtype == "bool" and set(data) - {0, 1}:
        raise Unreadable(f"{place} has values that are not bool")
    name = hashlib.sha256(repr((dtype, shape)).encode() + data).hexdigest()[:16]
    return name, (dtype, shape, base64.b64encode(_compressed(data, place)).decode())


def _compressed(data: bytes, place: str) -> bytes:
    """As `zlib.compress` does it, which takes 12 s for 4 MiB of some data; given up as soon as it is too much."""
    packer, packed = zlib.compressobj(9), b""
    for start in range(0, len(data), _PIECE_BYTES):
        packed += packer.compress(data[start : start + _PIECE_BYTES])
        if len(packed) > _TEXT_MAX:
            raise Unreadable(f"{place} takes more than {_TEXT_MAX >> 10} KiB compressed")
    return packed + packer.flush()


def _shown(path: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in path[:100])
