"""Linear layers and what is made of them."""

from ..base import Constraint, Gene, Genome, Space, Template
from .genes import FOLDER, grain, lanes

_DOTS = ("PATH", ("dots", "dispatch"))
_PACKED = ("PATH", ("packed", "dispatch"))
_OWN = ("PATH", ("dots", "packed", "dispatch"))


def _tile_fits(genome: Genome) -> bool:
    return int(genome["ROWS"]) * int(genome["VECTORS"]) <= 28


def _dot_tile_fits(genome: Genome) -> bool:
    return int(genome["DOT_ROWS"]) * int(genome["DOT_OUTPUTS"]) <= 24


_FITS = (
    Constraint("ROWS x VECTORS sums do not fit the registers", _tile_fits),
    Constraint("DOT_ROWS x DOT_OUTPUTS sums do not fit the registers", _dot_tile_fits),
)

LINEAR_FORWARD = Template(
    name="cpp-linear-forward",
    language="cpp",
    summary="tiles of dot products, or weights packed into panels",
    path=FOLDER / "linear_forward.cpp.tmpl",
    tasks={
        "mnist_linear/forward": {"RELU": 0},
        "mnist_linear_relu/forward": {"RELU": 1},
        "unet_linear/forward": {"RELU": 0},
    },
    space=Space(
        (
            Gene("PATH", ("naive", "dots", "packed", "dispatch"), ordinal=False, structural=True),
            lanes(4, 8, 16, only=_OWN),
            Gene("DOT_ROWS", (1, 2, 4, 6), "rows of a tile of dot products", only=_DOTS),
            Gene("DOT_OUTPUTS", (1, 2, 4), "outputs of such a tile", only=_DOTS),
            Gene("ROWS", (1, 2, 4, 6, 8, 12), "rows of a tile of a packed product", only=_PACKED),
            Gene("VECTORS", (1, 2, 3, 4), "vectors of columns of such a tile", only=_PACKED),
            Gene("UNROLL", (1, 2, 4), "steps along the summed axis at a time", only=_PACKED),
            Gene("ROW_BLOCK", (24, 4096), "rows that pass by all panels together", only=_PACKED),
            Gene("PACK_DEPTH", (16, 4096), "depth that is transposed at a time", only=_PACKED),
            Gene("SWITCH_ROWS", (8, 32), "rows from which packing pays", only=("PATH", ("dispatch",))),
            grain(16384, 262144),
        ),
        _FITS,
    ),
    naive={
        "PATH": "naive",
        "LANES": 4,
        "DOT_ROWS": 1,
        "DOT_OUTPUTS": 1,
        "ROWS": 1,
        "VECTORS": 1,
        "UNROLL": 1,
        "ROW_BLOCK": 24,
        "PACK_DEPTH": 16,
        "SWITCH_ROWS": 8,
        "GRAIN": 16384,
    },
    default={
        "PATH": "dispatch",
        "LANES": 16,
        "DOT_ROWS": 4,
        "DOT_OUTPUTS": 4,
        "ROWS": 8,
        "VECTORS": 2,
        "UNROLL": 2,
        "ROW_BLOCK": 24,
        "PACK_DEPTH": 16,
        "SWITCH_ROWS": 32,
        "GRAIN": 16384,
    },
)


def _backward_space(*more: Gene) -> Space:
    tiles = ("PATH", ("tiles",))
    return Space(
        (
            Gene("PATH", ("naive", "tiles"), ordinal=False, structural=True),
            lanes(4, 8, 16, only=tiles),
            *more,
            Gene("ROWS", (1, 2, 4, 6, 8), "rows of a tile", only=tiles),
            Gene("VECTORS", (1, 2, 3, 4), "vectors of columns of a tile", only=tiles),
            Gene("UNROLL", (1, 2, 4), "steps along the summed axis at a time", only=tiles),
            Gene("ROW_BLOCK", (24, 4096), "rows that pass by all panels together", only=tiles),
            Gene(
                "COPY", ("never", "always"), "the right factor into panels", ordinal=False, structural=True, only=tiles
            ),
            Gene("GRAIN", (16384, 262144), "multiply-adds that are worth a thread", only=tiles),
        ),
        _FITS if more else _FITS[:1],
    )


_BACKWARD_NAIVE: Genome = {
    "PATH": "naive",
    "LANES": 4,
    "ROWS": 1,
    "VECTORS": 1,
    "UNROLL": 1,
    "ROW_BLOCK": 24,
    "COPY": "never",
    "GRAIN": 16384,
}
_BACKWARD_DEFAULT: Genome = {
    "PATH": "tiles",
    "LANES": 16,
    "ROWS": 6,
    "VECTORS": 4,
    "UNROLL": 1,
    "ROW_BLOCK": 4096,
    "COPY": "never",
    "GRAIN": 16384,
}

LINEAR_BACKWARD = Template(
    name="cpp-linear-backward",
    language="cpp",
    summary="both products in tiles of registers, the right factor as it stands or copied",
    path=FOLDER / "linear_backward.cpp.tmpl",
    tasks={"mnist_linear/backward": {"RELU": 0}, "unet_linear/backward": {"RELU": 0}},
    space=_backward_space(),
    naive=_BACKWARD_NAIVE,
    default=_BACKWARD_DEFAULT,
)

LINEAR_RELU_BACKWARD = Template(
    name="cpp-linear-relu-backward",
    language="cpp",
    summary="tiles of dot products for the signs, then both products in tiles of registers",
    path=FOLDER / "linear_backward.cpp.tmpl",
    tasks={"mnist_linear_relu/backward": {"RELU": 1}},
    space=_backward_space(
        Gene("DOT_ROWS", (1, 2, 4, 6), "rows of a tile of dot products", only=("PATH", ("tiles",))),
        Gene("DOT_OUTPUTS", (1, 2, 4), "outputs of such a tile", only=("PATH", ("tiles",))),
    ),
    naive={**_BACKWARD_NAIVE, "DOT_ROWS": 1, "DOT_OUTPUTS": 1},
    default={**_BACKWARD_DEFAULT, "DOT_ROWS": 4, "DOT_OUTPUTS": 4},
)

GATED_FFW = Template(
    name="cpp-gated-ffw",
    language="cpp",
    summary="three linear layers of our own with the gate where the second one ends, or the library's products",
    path=FOLDER / "gated_ffw.cpp.tmpl",
    tasks={"llama_ffw/forward": {}},
    space=Space(
        (
            Gene("PATH", ("naive", "dots", "packed", "library"), ordinal=False, structural=True),
            lanes(4, 8, 16, only=_OWN),
            Gene("FUSE", (0, 1), "the gate where the second product ends", ordinal=False, structural=True, only=_OWN),
            Gene("DOT_ROWS", (1, 2, 3, 4, 6), "rows of a tile of dot products", only=_DOTS),
            Gene("DOT_OUTPUTS", (1, 2, 3, 4, 6), "outputs of such a tile", only=_DOTS),
            Gene("ROWS", (1, 2, 4, 6, 8, 12), "rows of a tile of a packed product", only=_PACKED),
            Gene("VECTORS", (1, 2, 3, 4), "vectors of columns of such a tile", only=_PACKED),
            Gene("UNROLL", (1, 2, 4), "steps along the summed axis at a time", only=_PACKED),
            Gene("ROW_BLOCK", (24, 4096), "rows that pass by all panels together", only=_PACKED),
            Gene("PACK_DEPTH", (16, 4096), "depth that is transposed at a time", only=_PACKED),
            Gene("GRAIN", (16384, 262144), "multiply-adds that are worth a thread", only=_OWN),
        ),
        _FITS,
    ),
    naive={
        "PATH": "naive",
        "LANES": 4,
        "FUSE": 0,
        "DOT_ROWS": 1,
        "DOT_OUTPUTS": 1,
        "ROWS": 1,
        "VECTORS": 1,
        "UNROLL": 1,
        "ROW_BLOCK": 24,
        "PACK_DEPTH": 16,
        "GRAIN": 16384,
    },
    default={
        "PATH": "dots",
        "LANES": 16,
        "FUSE": 0,
        "DOT_ROWS": 4,
        "DOT_OUTPUTS": 4,
        "ROWS": 1,
        "VECTORS": 1,
        "UNROLL": 1,
        "ROW_BLOCK": 24,
        "PACK_DEPTH": 16,
        "GRAIN": 16384,
    },
    library=lambda genome: "the three products" if genome["PATH"] == "library" else None,
)
