"""Convolutions: with relu and max-pool around them, and alone."""

from ..base import Constraint, Gene, Genome, Space, Template, Value
from .genes import FOLDER, LOADS, MAX_THREADS, REGISTERS, SHARED_BYTES, number
from .sections import SectionedTemplate


def _fits(genome: Genome) -> bool:
    threads = number(genome, "THREADS") * number(genome, "MIN_BLOCKS")
    registers = 40 + 5 * number(genome, "CHANNELS")
    return threads <= 2 * MAX_THREADS and threads * registers <= REGISTERS


CONV_POOL_FORWARD = Template(
    name="cuda-conv-pool-forward",
    language="cuda",
    summary="a pooled place of several channels per thread, weights staged in shared memory",
    path=FOLDER / "conv_pool_forward.cu",
    tasks={"mnist_conv_relu_pool/forward": {}},
    space=Space(
        (
            Gene("THREADS", (32, 64, 128, 256), "of a block"),
            Gene("CHANNELS", (1, 2, 4, 8, 16), "of a thread"),
            Gene(
                "FEWER",
                (0, 1),
                "channels per thread where blocks are few",
                structural=True,
            ),
            Gene("STAGED", (1, 8, 16, 32), "input channels in shared memory"),
            Gene("UNROLL", (1, 2, 4), "input channels side by side"),
            Gene(
                "MIN_BLOCKS",
                (1, 4, 8, 12, 16),
                "that the registers of a processor must hold",
            ),
            LOADS,
        ),
        (Constraint("the blocks asked for fit the registers", _fits),),
    ),
    naive={
        "THREADS": 32,
        "CHANNELS": 1,
        "FEWER": 0,
        "STAGED": 1,
        "UNROLL": 1,
        "MIN_BLOCKS": 1,
        "LOADS": "plain",
    },
    default={
        "THREADS": 64,
        "CHANNELS": 8,
        "FEWER": 1,
        "STAGED": 32,
        "UNROLL": 1,
        "MIN_BLOCKS": 12,
        "LOADS": "plain",
    },
)


def _patch_bytes(genome: Genome, stride: int, groups: int) -> int:
    """Shared memory of a block of `conv2d_forward.cu`, all stages."""
    width = number(genome, "TILE_WIDTH")
    rows = (32 * groups // width - 1) * stride + 3
    columns = (width - 1) * stride + 3
    plane = (rows * columns + 23) // 32 * 32 + 8
    return 4 * number(genome, "STAGES") * (64 * 76 + 8 * plane)


def _tiles_fit(genome: Genome) -> bool:
    sizes = (number(genome, "SMALL"), number(genome, "LARGE"))
    return all(_patch_bytes(genome, stride, groups) <= SHARED_BYTES for stride in (1, 2) for groups in sizes)


def _whole_rows(genome: Genome) -> bool:
    width = number(genome, "TILE_WIDTH")
    return all(32 * number(genome, name) % width == 0 for name in ("SMALL", "LARGE"))


def _tensor(name: str, note: str, *values: Value) -> Gene:
    return Gene(name, values, note, only=("PATH", ("tensor",)))


CONV2D_FORWARD = SectionedTemplate(
    name="cuda-conv2d-forward",
    language="cuda",
    summary="one result per thread, or tiles of pixels and channels on tensor cores as 3xTF32",
    path=FOLDER / "conv2d_forward.cu",
    tasks={"unet_conv2d/forward": {}},
    space=Space(
        (
            Gene(
                "PATH",
                ("plain", "tensor"),
                "where products are made",
                ordinal=False,
                structural=True,
            ),
            _tensor("TILE_WIDTH", "pixels across", 8, 16, 32),
            _tensor("SMALL", "groups of 8 pixels per warp", 2, 4),
            _tensor("LARGE", "groups of 8 pixels per warp", 2, 4, 6, 8),
            _tensor("LARGE_COST", "percent of what its pixels would cost", 80, 90, 100, 120),
            _tensor("STAGES", "copies under way", 2, 3, 4),
            _tensor("MIN_BLOCKS", "that a processor must hold", 1, 2),
            _tensor("TAP_ROWS", "unrolled", 1, 3),
            Gene(
                "STORES",
                ("plain", "stream"),
                "how results are written",
                ordinal=False,
                only=("PATH", ("tensor",)),
            ),
        ),
        (
            Constraint("all stages fit the shared memory", _tiles_fit),
            Constraint("a warp's groups fill whole rows of the tile", _whole_rows),
            Constraint(
                "large tiles are not smaller",
                lambda g: number(g, "LARGE") >= number(g, "SMALL"),
            ),
        ),
    ),
    naive={
        "PATH": "plain",
        "TILE_WIDTH": 8,
        "SMALL": 2,
        "LARGE": 2,
        "LARGE_COST": 80,
        "STAGES": 2,
        "MIN_BLOCKS": 1,
        "TAP_ROWS": 1,
        "STORES": "plain",
    },
    default={
        "PATH": "tensor",
        "TILE_WIDTH": 16,
        "SMALL": 2,
        "LARGE": 4,
        "LARGE_COST": 90,
        "STAGES": 3,
        "MIN_BLOCKS": 2,
        "TAP_ROWS": 1,
        "STORES": "plain",
    },
)
CONV_POOL_BACKWARD = Template(
    name="cuda-conv-pool-backward",
    language="cuda",
    summary="one kernel finds each window's maximum, a second makes all gradients from that",
    path=FOLDER / "conv_pool_backward.cu",
    tasks={"mnist_conv_relu_pool/backward": {}},
    space=Space(
        (
            Gene("CHANNELS", (1, 2, 4, 8, 16), "of a thread that chooses"),
            Gene(
                "FEWER",
                (0, 1),
                "channels per thread where blocks are few",
                structural=True,
            ),
            Gene("X_CHANNELS", (1, 2, 4), "of a thread that makes gradients"),
            Gene("STAGED", (8, 32), "channels whose weights lie in shared memory"),
            Gene("UNROLL_X", (1, 2, 8), "channels side by side"),
            Gene("UNROLL_WINDOWS", (1, 4), "windows side by side"),
            Gene("FILL", (0, 2, 8), "blocks per processor worth cutting images for"),
            Gene(
                "MIN_BLOCKS",
                (1, 8, 12, 16),
                "that the registers of a processor must hold",
            ),
            Gene(
                "OVERLAP",
                (0, 1),
                "start the second kernel while the first runs",
                structural=True,
            ),
        ),
        (
            Constraint(
                "the blocks asked for fit the registers",
                lambda g: 64 * number(g, "MIN_BLOCKS") * (40 + 5 * number(g, "CHANNELS")) <= REGISTERS,
            ),
        ),
    ),
    naive={
        "CHANNELS": 1,
        "FEWER": 0,
        "X_CHANNELS": 1,
        "STAGED": 8,
        "UNROLL_X": 1,
        "UNROLL_WINDOWS": 1,
        "FILL": 0,
        "MIN_BLOCKS": 1,
        "OVERLAP": 0,
    },
    default={
        "CHANNELS": 8,
        "FEWER": 1,
        "X_CHANNELS": 4,
        "STAGED": 32,
        "UNROLL_X": 2,
        "UNROLL_WINDOWS": 1,
        "FILL": 2,
        "MIN_BLOCKS": 12,
        "OVERLAP": 1,
    },
)
TEMPLATES = (CONV_POOL_FORWARD, CONV_POOL_BACKWARD, CONV2D_FORWARD)
