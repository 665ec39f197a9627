"""Convolutions and the blocks around them."""

from ..base import Constraint, Gene, Genome, Space, Template
from .genes import FOLDER, lanes

_LANES = ("PATH", ("lanes",))


def _taps() -> Gene:
    return Gene("TAPS_AT_ONCE", (1, 3, 9), "of the 3 x 3 window", only=_LANES)


def _vectors() -> Gene:
    return Gene("VECTORS", (1, 2, 3, 4), "vectors of output channels of a tile", only=_LANES)


def _tile_fits(genome: Genome) -> bool:
    return int(genome["TILE_ROWS"]) * int(genome["COLUMNS"]) * int(genome["VECTORS"]) <= 28


def _windows_fit(genome: Genome) -> bool:
    return 4 * int(genome["WINDOWS"]) * int(genome["VECTORS"]) <= 32


def _convolution(genome: Genome) -> str | None:
    return "the convolutions" if genome["PATH"] == "library" else None


def _tiled_space(*more: Gene) -> Space:
    return Space(
        (
            Gene("PATH", ("naive", "lanes", "library"), ordinal=False, structural=True),
            lanes(4, 8, 16, only=_LANES),
            Gene("TILE_ROWS", (1, 2), "rows of positions of a tile", only=_LANES),
            Gene("COLUMNS", (2, 3, 4, 6, 8, 12), "columns of positions of a tile", only=_LANES),
            _vectors(),
            _taps(),
            Gene("BAND", (4, 16, 64), "rows of positions in one go", only=_LANES),
            *more,
        ),
        (Constraint("TILE_ROWS x COLUMNS x VECTORS sums do not fit the registers", _tile_fits),),
    )


_NAIVE: Genome = {
    "PATH": "naive",
    "LANES": 4,
    "TILE_ROWS": 1,
    "COLUMNS": 2,
    "VECTORS": 1,
    "TAPS_AT_ONCE": 1,
    "BAND": 4,
}
_DEFAULT: Genome = {
    "PATH": "lanes",
    "LANES": 16,
    "TILE_ROWS": 1,
    "COLUMNS": 8,
    "VECTORS": 2,
    "TAPS_AT_ONCE": 3,
    "BAND": 16,
}

CONV_FORWARD = Template(
    name="cpp-conv-forward",
    language="cpp",
    summary="output channels in the lanes and a tile of positions in registers, or the library",
    path=FOLDER / "conv_forward.cpp.tmpl",
    tasks={"unet_conv2d/forward": {}},
    space=_tiled_space(),
    naive=_NAIVE,
    default=_DEFAULT,
    library=_convolution,
)

RESNET_BLOCK = Template(
    name="cpp-resnet-block",
    language="cpp",
    summary="norms folded into tiled convolutions, the shortcut added where the second one ends, or the library",
    path=FOLDER / "resnet_block.cpp.tmpl",
    tasks={"resnet_block/forward": {}},
    space=_tiled_space(
        Gene("GRAIN", (4096, 16384), "elements of the last sum that are worth a thread", only=("PATH", ("library",)))
    ),
    naive={**_NAIVE, "GRAIN": 4096},
    default={**_DEFAULT, "GRAIN": 4096},
    library=_convolution,
)

CONV_RELU_POOL_FORWARD = Template(
    name="cpp-conv-relu-pool-forward",
    language="cpp",
    summary="windows of the pool summed in registers for many output channels at once",
    path=FOLDER / "conv_relu_pool_forward.cpp.tmpl",
    tasks={"mnist_conv_relu_pool/forward": {}},
    space=Space(
        (
            Gene("PATH", ("naive", "lanes"), ordinal=False, structural=True),
            lanes(4, 8, 16, only=_LANES),
            Gene("WINDOWS", (1, 2, 3, 4, 6), "windows of a tile", only=_LANES),
            _vectors(),
            _taps(),
        ),
        (Constraint("4 x WINDOWS x VECTORS sums do not fit the registers", _windows_fit),),
    ),
    naive={"PATH": "naive", "LANES": 4, "WINDOWS": 1, "VECTORS": 1, "TAPS_AT_ONCE": 1},
    default={"PATH": "lanes", "LANES": 16, "WINDOWS": 2, "VECTORS": 2, "TAPS_AT_ONCE": 9},
)

CONV_RELU_POOL_BACKWARD = Template(
    name="cpp-conv-relu-pool-backward",
    language="cpp",
    summary="the convolution again for the places of the maxima, then only those places",
    path=FOLDER / "conv_relu_pool_backward.cpp.tmpl",
    tasks={"mnist_conv_relu_pool/backward": {}},
    space=Space(
        (
            Gene("PATH", ("naive", "lanes"), ordinal=False, structural=True),
            lanes(4, 8, 16, only=_LANES),
            Gene("WINDOWS", (1, 2, 3, 4, 6), "windows at a time", only=_LANES),
            _taps(),
            Gene("SKIP", (0, 1), "places without a gradient", ordinal=False, structural=True, only=_LANES),
        )
    ),
    naive={"PATH": "naive", "LANES": 4, "WINDOWS": 1, "TAPS_AT_ONCE": 1, "SKIP": 0},
    default={"PATH": "lanes", "LANES": 16, "WINDOWS": 2, "TAPS_AT_ONCE": 9, "SKIP": 1},
)
