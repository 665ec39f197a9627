"""Linear layers, forward and backward, with and without a relu."""

from ..base import Gene, Genome, Space, Template, Value
from .genes import FOLDER, TILE_CONSTRAINTS, TILE_GENES
from .sections import SectionedTemplate

_FIXED = {"PAD": 4, "UNROLL": 8, "FILL": 1, "LINE_UNROLL": 2}


def _tile(name: str, note: str, *values: Value) -> Gene:
    return Gene(name, values, note, only=("PATH", ("tiles", "both")))


def _line(name: str, note: str, *values: Value) -> Gene:
    return Gene(name, values, note, only=("PATH", ("lines", "both", "mixed")))


def _tensor(name: str, note: str, *values: Value) -> Gene:
    return Gene(name, values, note, only=("PATH", ("tensor", "mixed")))


_PATH = Gene(
    "PATH",
    ("lines", "tiles", "tensor", "both", "mixed"),
    "both, mixed: lines for few rows or columns, else tiles or tensor",
    ordinal=False,
    structural=True,
)


_FORWARD_SPACE = Space(
    (
        _PATH,
        _line("LINE_ROWS", "results of a block", 1, 2, 4, 8),
        _line("LINE_COLUMNS", "results of a block", 1, 2, 4),
        _line("LINE_WARPS", "that share the terms", 1, 4, 8),
        _line("LINE_WIDTH", "floats at a time", 1, 4),
        _tile("TILE_M", "rows of a tile", 16, 32, 64),
        _tile("TILE_N", "columns of a tile", 16, 32, 64),
        _tile("TILE_K", "terms at a time", 16, 32),
        _tile("THREAD_M", "rows of a thread", 2, 4, 8),
        _tile("THREAD_N", "columns of a thread", 2, 4),
        _tile("BUFFERS", "one filled while the other is used", 1, 2),
        _tensor("TENSOR_COLUMNS", "of a tile", 64, 128),
        _tensor("STAGES", "copies under way", 2, 3, 4),
        Gene(
            "MAX_PARTS",
            (1, 4, 16),
            "blocks that share a tile's terms",
            only=("PATH", ("tiles", "tensor", "both", "mixed")),
        ),
    ),
    TILE_CONSTRAINTS,
)
_FORWARD_NAIVE: Genome = {
    "PATH": "lines",
    "LINE_ROWS": 1,
    "LINE_COLUMNS": 1,
    "LINE_WARPS": 1,
    "LINE_WIDTH": 1,
    "TILE_M": 16,
    "TILE_N": 16,
    "TILE_K": 16,
    "THREAD_M": 2,
    "THREAD_N": 2,
    "BUFFERS": 1,
    "TENSOR_COLUMNS": 64,
    "STAGES": 2,
    "MAX_PARTS": 1,
}
_FORWARD_DEFAULT: Genome = {
    "PATH": "both",
    "LINE_ROWS": 4,
    "LINE_COLUMNS": 1,
    "LINE_WARPS": 4,
    "LINE_WIDTH": 4,
    "TILE_M": 64,
    "TILE_N": 32,
    "TILE_K": 32,
    "THREAD_M": 4,
    "THREAD_N": 4,
    "BUFFERS": 2,
    "TENSOR_COLUMNS": 64,
    "STAGES": 2,
    "MAX_PARTS": 4,
}

LINEAR_FORWARD = SectionedTemplate(
    name="cuda-linear-forward",
    language="cuda",
    summary="a block per few results, or tiles through shared memory whose terms several blocks share",
    path=FOLDER / "linear_forward.cu",
    tasks={
        "mnist_linear/forward": {"RELU": 0, **_FIXED},
        "mnist_linear_relu/forward": {"RELU": 1, **_FIXED},
        "unet_linear/forward": {"RELU": 0, **_FIXED},
    },
    space=_FORWARD_SPACE,
    naive=_FORWARD_NAIVE,
    default=_FORWARD_DEFAULT,
)
LINEAR_BACKWARD = Template(
    name="cuda-linear-backward",
    language="cuda",
    summary="all products in tiles through shared memory, both gradients in one launch or two",
    path=FOLDER / "linear_backward.cu",
    tasks={
        "mnist_linear/backward": {"RELU": 0, **_FIXED},
        "mnist_linear_relu/backward": {"RELU": 1, **_FIXED},
        "unet_linear/backward": {"RELU": 0, **_FIXED},
    },
    space=Space(
        (
            *TILE_GENES,
            Gene("MAX_PARTS", (1, 2, 4, 8, 16), "blocks that share a tile's terms"),
            Gene("FUSED", (0, 1), "both gradients in one launch", structural=True),
        ),
        TILE_CONSTRAINTS,
    ),
    naive={
        "TILE_M": 16,
        "TILE_N": 16,
        "TILE_K": 16,
        "THREAD_M": 1,
        "THREAD_N": 1,
        "BUFFERS": 1,
        "MAX_PARTS": 1,
        "FUSED": 0,
    },
    default={
        "TILE_M": 32,
        "TILE_N": 64,
        "TILE_K": 32,
        "THREAD_M": 4,
        "THREAD_N": 4,
        "BUFFERS": 2,
        "MAX_PARTS": 8,
        "FUSED": 1,
    },
)
TEMPLATES = (LINEAR_FORWARD, LINEAR_BACKWARD)
