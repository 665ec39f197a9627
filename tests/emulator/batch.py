"""All kernels of a folder in one module: each in a namespace of its own, with its name for a function."""

import re
from collections.abc import Iterable
from pathlib import Path

KERNELS = Path(__file__).parent / "kernels"
STYLES = Path(__file__).parent / "styles"  # of several tasks, named after them; those of this one are linear_relu_*
_MODULE = re.compile(r"^PYBIND11_MODULE\(.*\n?", re.MULTILINE)
_INCLUDE = re.compile(r"^#include.*\n", re.MULTILINE)


def names() -> list[str]:
    """`right_naive` and so on."""
    return sorted(_files())


def _files() -> dict[str, Path]:
    files = [*KERNELS.rglob("*.cu"), *STYLES.rglob("linear_relu_*.cu")]
    return {f"{path.parent.name}_{path.stem}": path for path in files}


def batched(texts: Iterable[tuple[str, str]]) -> str:
    """One source of (name, source) pairs."""
    parts, exports, includes = [], [], []
    for name, text in texts:
        includes += _INCLUDE.findall(text)
        parts.append(f"namespace {name} {{\n{_INCLUDE.sub('', _MODULE.sub('', text))}\n}}\n")
        exports.append(f'    m.def("{name}", &{name}::forward);\n')
    head, body = "".join(dict.fromkeys(includes)), "".join(parts)
    return f"{head}{body}PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{\n{''.join(exports)}}}\n"


def all_kernels() -> str:
    return batched((name, path.read_text()) for name, path in sorted(_files().items()))
