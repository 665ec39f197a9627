"""What one kernel file of a package does on this GPU: `python -m lab.gpu.dsl_probe FILE`, one JSON line per fact.

Without a sandbox and a judge: the file's `forward` is called, compared with torch, captured and described as the
recorder does it, and the device code that was seen is loaded again as an executor does. Says where each kernel's code
was found, which handle was launched and whether its parameters can be read. For rows of the RMS norm alone.
"""

import argparse
import ctypes
import hashlib
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness.child.gpu import capture as captures
from benchmarks.harness.child.gpu.driver import Driver, KernelNode, pointer
from benchmarks.harness.child.gpu.loaded import LoadedCode
from benchmarks.harness.child.gpu.packages import wake
from benchmarks.harness.child.gpu.recorder import _triton_codes
from benchmarks.harness.child.shell import load_file

_SHAPES = ((16, 1024, 4096, 1e-8), (3, 701, 4093, 1e-5), (1, 1, 4093, 1e-5), (16, 64, 2048, 1e-8))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    started = time.monotonic()
    tell(woke=list(wake(str(options.file))), seconds=round(time.monotonic() - started, 1))
    loaded = LoadedCode(Driver())
    loaded.listen()
    tell(cupti="listening" if not loaded.unknown else loaded.unknown)
    module = load_file(str(options.file))
    failures = 0
    for shape in _SHAPES:
        try:
            probe(module.forward, shape, loaded)
        except Exception:  # noqa: BLE001 - what one shape does says nothing of the others
            failures += 1
            tell(shape=shape, failed=traceback.format_exc())
    for name in ("TILELANG_CACHE_DIR", "CUTE_DSL_DUMP_DIR", "CUTE_DSL_CACHE_DIR", "TRITON_CACHE_DIR"):
        folder = Path(os.environ.get(name, "/nonexistent"))
        found = sorted(path for path in folder.rglob("*.cubin")) if folder.is_dir() else []
        tell(cache=name, cubins=[[path.name[-60:], _digest(path.read_bytes())[:12]] for path in found[:20]])
    return 1 if failures else 0


def probe(forward: Any, shape: tuple[int, int, int, float], loaded: LoadedCode) -> None:
    *sizes, features, eps = shape
    x, w = torch.randn(*sizes, features, device="cuda"), torch.rand(features, device="cuda") + 0.5
    started = time.monotonic()
    found = forward(x, w, eps)
    torch.cuda.synchronize()
    first_s = time.monotonic() - started
    wanted = (x.double() * w.double() / torch.sqrt((x.double() ** 2).mean(-1, keepdim=True) + eps)).float()
    error = ((found - wanted).abs() / (1 + wanted.abs())).max().item()
    tell(shape=shape, first_call_s=round(first_s, 2), max_error=error)
    recording = captures.Capture(Driver())
    nodes, _ = recording.record(forward, (x, w, eps))
    codes = _triton_codes()
    for node in nodes:
        told = {key: value for key, value in node.items() if key not in ("function", "parameters", "after")}
        if "function" in node:
            digest = codes.get(node["function"], "") or loaded.digest_of(node["function"])
            told["parameter_bytes"] = len(node["parameters"]) // 2
            told["parameters"] = node["parameters"][:200]
            told["code"] = digest[:12] or "UNKNOWN"
            told["code_from"] = "triton" if node["function"] in codes else "cupti" if digest else "nowhere"
            told["loads_again"] = [
                _again(image, node["name"], bytes.fromhex(node["parameters"])) for image in loaded.images([digest])
            ]
            told["pointers_seen"] = [
                name
                for name, item in (("x", x), ("w", w))
                if item.data_ptr().to_bytes(8, "little").hex() in node["parameters"]
            ]
        tell(node=told)
    tell(
        images=[
            [len(image), image[:4].hex(), _digest(image)[:12]]
            for image in {*loaded._modules.values(), *loaded._libraries.values()}
        ],
        modules=len(loaded._modules),
        libraries=len(loaded._libraries),
    )


def _again(image: bytes, name: str, parameters: bytes) -> dict[str, Any]:
    """As an executor does it: whether the kernel is in the image and takes as many bytes."""
    driver, library, kernel, function = Driver(), pointer(), pointer(), pointer()
    nothing, none = pointer(None), ctypes.c_uint(0)
    options = (nothing, nothing, none, nothing, nothing, none)
    try:
        driver.call("cuLibraryLoadData", ctypes.byref(library), ctypes.c_char_p(image), *options)
        driver.call("cuLibraryGetKernel", ctypes.byref(kernel), library, ctypes.c_char_p(name.encode()))
        driver.call("cuKernelGetFunction", ctypes.byref(function), kernel)
    except Exception as error:  # noqa: BLE001 - it is what is asked
        return {"error": str(error)}
    places = driver.parameter_places(function)
    return {"parameters": len(places), "fits": max((at + size for at, size in places), default=0) == len(parameters)}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _told_handles() -> None:
    """Says of each captured kernel whether it was launched by CUfunction or by CUkernel."""
    real = captures._kernel

    def told(driver: Driver, handle: Any) -> dict[str, Any]:
        node = KernelNode()
        driver.call("cuGraphKernelNodeGetParams_v2", handle, ctypes.byref(node))
        handles = {"function": bool(node.function), "kernel": bool(node.kernel), "extra": bool(node.extra)}
        return {**real(driver, handle), "handles": handles}

    captures._kernel = told


def tell(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    _told_handles()
    sys.exit(main())
