"""Values as real work has them, from `values.safetensors` beside a task's reference.

A configuration with the value `recorded = "NAME"` takes the tensors that the file has for it: `NAME/ARGUMENT` holds
several tensors for that argument, one below the other, of which the seed picks one (the same place for all arguments),
and `NAME/ARGUMENT.quantiles` describes how values are distributed, from the least to the largest in equal steps; then
they are drawn anew for every call. Other arguments are drawn as ever; one at least must be new in every call. Only the
referee has the file. Not covered: whether what was recorded is typical.
"""

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Generator, Tensor

FILE = "values.safetensors"
FILE_BYTES_MAX = 16 << 20
_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
}

RecordedTensors = Mapping[str, Tensor]


def read(path: Path) -> RecordedTensors:
    """Every tensor of the file by its name. Raises ValueError for a file that is not whole."""
    data = path.read_bytes()
    if not 8 <= len(data) <= FILE_BYTES_MAX:
        raise ValueError(f"{path.name} has {len(data)} bytes; at most {FILE_BYTES_MAX} are read")
    [size] = struct.unpack_from("<Q", data)
    if size > len(data) - 8:
        raise ValueError(f"{path.name} is cut off")
    header, body = json.loads(data[8 : 8 + size]), bytearray(data[8 + size :])
    return {name: _tensor(name, item, body) for name, item in header.items() if name != "__metadata__"}


def _tensor(name: str, item: Mapping[str, object], body: bytearray) -> Tensor:
    dtype, shape, offsets = _DTYPES.get(str(item["dtype"])), item["shape"], item["data_offsets"]
    if dtype is None or not isinstance(shape, list) or not isinstance(offsets, list):
        raise ValueError(f"{name} has a dtype or shape that is not read: {item}")
    start, end = offsets
    count = 1
    for length in shape:
        count *= length
    if not 0 <= start <= end <= len(body) or end - start != count * dtype.itemsize or count == 0:
        raise ValueError(f"{name} lies at {start} to {end}, which does not fit its shape {shape}")
    return torch.frombuffer(body, dtype=dtype, count=count, offset=start).view(shape)


def demand_some_fresh(tensors: RecordedTensors, record: str, arguments: Sequence[str]) -> None:
    """Raises ValueError where nothing is recorded, and where a kernel could keep the results of all calls there are."""
    names = [f"{record}/{argument}" for argument in arguments]
    if not any(name in tensors or f"{name}.quantiles" in tensors for name in names):
        raise ValueError(f"there are no values for {record!r} in {FILE}")
    if all(name in tensors for name in names):
        raise ValueError(f"with the values for {record!r} in {FILE} no argument of a call is drawn anew")


def fill(tensors: RecordedTensors, name: str, seed: bytes, out: Tensor, generator: Generator) -> bool:
    """Fills `out` with values of `name`, RECORD/ARGUMENT; False if there are none.

    Raises ValueError where what was recorded does not fit the argument.
    """
    stored, quantiles = tensors.get(name), tensors.get(f"{name}.quantiles")
    if stored is not None:
        if stored.shape[1:] != out.shape or stored.dtype != out.dtype:
            raise ValueError(f"{name} holds {tuple(stored.shape[1:])}, the argument is {tuple(out.shape)}")
        record = name.split("/", maxsplit=1)[0]
        place = int.from_bytes(hashlib.sha256(seed + f"recorded {record}".encode()).digest()[:8], "little")
        out.copy_(stored[place % len(stored)])
        return True
    if quantiles is None:
        return False
    if quantiles.dim() != 1 or len(quantiles) < 2:
        raise ValueError(f"{name}.quantiles is not a list of at least two values")
    known = quantiles.double().to(out.device)
    places = torch.rand(out.shape, generator=generator, device=out.device, dtype=torch.float64) * (len(known) - 1)
    below = places.long().clamp_(max=len(known) - 2)
    out.copy_(torch.lerp(known[below], known[below + 1], places - below))
    return True
