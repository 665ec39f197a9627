"""RMS norm and layer norm, forward and backward."""

from ..base import Constraint, Gene, Genome, Space, Template
from .genes import FOLDER, LOADS, MAX_THREADS, REGISTERS, STORES, number, threads

_WALKING = ("BLOCKS_PER_SM", (1, 2, 4, 8))
_ROW_FLOATS = 4096  # that are to stay in registers


def _live_floats(genome: Genome) -> int:
    rows = 1 + (genome["WEIGHTS"] == "early") + number(genome, "AHEAD")
    return rows * max(1, _ROW_FLOATS // number(genome, "ROW_THREADS"))


def _block(genome: Genome) -> int:
    return number(genome, "ROW_THREADS") * number(genome, "ROWS")


RMSNORM_FORWARD = Template(
    name="cuda-rmsnorm-forward",
    language="cuda",
    summary="rows in registers or read twice, one block or a few threads each, the next row ahead",
    path=FOLDER / "rmsnorm_forward.cu",
    tasks={"llama_rmsnorm/forward": {}},
    space=Space(
        (
            Gene("ROW_THREADS", (32, 64, 128, 256, 512, 1024), "that share a row"),
            Gene("ROWS", (1, 2, 4), "side by side in a block"),
            Gene("WIDTH", (1, 2, 4), "floats at a time"),
            Gene("KEEP", ("registers", "caches"), "where a row waits", ordinal=False, structural=True),
            Gene("WEIGHTS", ("late", "early"), "when they are asked for", ordinal=False, structural=True),
            Gene("BLOCKS_PER_SM", (0, 1, 2, 4, 8), "that walk over the rows; 0: as many as there are rows"),
            Gene("AHEAD", (0, 1), "rows on their way", structural=True, only=_WALKING),
            Gene("MIN_BLOCKS", (1, 2, 4, 8), "that the registers of a processor must hold"),
            LOADS,
            STORES,
        ),
        (
            Constraint("a block has at most 1024 threads", lambda g: _block(g) <= MAX_THREADS),
            Constraint("a thread holds at most 160 floats of its rows", lambda g: _live_floats(g) <= 160),
            Constraint(
                "the blocks asked for fit the registers",
                lambda g: (
                    (24 + _live_floats(g)) * _block(g) * number(g, "MIN_BLOCKS") <= REGISTERS
                    and _block(g) * number(g, "MIN_BLOCKS") <= 2 * MAX_THREADS
                ),
            ),
        ),
    ),
    naive={
        "ROW_THREADS": 64,
        "ROWS": 1,
        "WIDTH": 1,
        "KEEP": "caches",
        "WEIGHTS": "late",
        "BLOCKS_PER_SM": 0,
        "AHEAD": 0,
        "MIN_BLOCKS": 1,
        "LOADS": "plain",
        "STORES": "plain",
    },
    default={
        "ROW_THREADS": 512,
        "ROWS": 1,
        "WIDTH": 4,
        "KEEP": "registers",
        "WEIGHTS": "early",
        "BLOCKS_PER_SM": 0,
        "AHEAD": 0,
        "MIN_BLOCKS": 2,
        "LOADS": "stream",
        "STORES": "plain",
    },
)

LAYERNORM_FORWARD = Template(
    name="cuda-layernorm-forward",
    language="cuda",
    summary="slices of a row measured by one kernel and normalised by the next, which may begin early",
    path=FOLDER / "layernorm_forward.cu",
    tasks={"layernorm/forward": {}},
    space=Space(
        (
            threads(),
            Gene("PACKS", (1, 2, 4, 8), "of a slice, per thread"),
            Gene("WIDTH", (1, 4), "floats at a time"),
            Gene("EARLY", (0, 1), "read before the statistics are known", structural=True),
            Gene("REVERSED", (0, 1), "begin with what was read last", structural=True),
            Gene("OVERLAP", (0, 1), "start the second kernel while the first runs", structural=True),
            LOADS,
            STORES,
        ),
    ),
    naive={
        "THREADS": 64,
        "PACKS": 1,
        "WIDTH": 1,
        "EARLY": 0,
        "REVERSED": 0,
        "OVERLAP": 0,
        "LOADS": "plain",
        "STORES": "plain",
    },
    default={
        "THREADS": 256,
        "PACKS": 4,
        "WIDTH": 4,
        "EARLY": 1,
        "REVERSED": 1,
        "OVERLAP": 1,
        "LOADS": "plain",
        "STORES": "stream",
    },
)


def _held_floats(genome: Genome) -> int:
    rows = 4 + 2 * number(genome, "AHEAD")
    return rows * max(1, _ROW_FLOATS // number(genome, "THREADS"))


RMSNORM_BACKWARD = Template(
    name="cuda-rmsnorm-backward",
    language="cuda",
    summary="blocks walk over the rows with their share of the weights' gradient in registers",
    path=FOLDER / "rmsnorm_backward.cu",
    tasks={"llama_rmsnorm/backward": {}},
    space=Space(
        (
            Gene("THREADS", (128, 256, 512, 1024), "of a block"),
            Gene("WIDTH", (1, 2, 4), "floats at a time"),
            Gene("BLOCKS_PER_SM", (1, 2, 3, 4, 8), "that walk over the rows"),
            Gene("AHEAD", (0, 1), "rows on their way", structural=True),
            Gene("WEIGHTS", ("anew", "kept"), "in registers or read for each row", ordinal=False, structural=True),
            Gene("FOLD_ROWS", (8, 32), "threads that add up a column"),
            LOADS,
            STORES,
        ),
        (
            Constraint("a thread holds at most 160 floats of its rows", lambda g: _held_floats(g) <= 160),
            Constraint(
                "the blocks asked for fit the registers",
                lambda g: (
                    (24 + _held_floats(g)) * number(g, "THREADS") * number(g, "BLOCKS_PER_SM") <= REGISTERS
                    and number(g, "THREADS") * number(g, "BLOCKS_PER_SM") <= 2 * MAX_THREADS
                ),
            ),
        ),
    ),
    naive={
        "THREADS": 128,
        "WIDTH": 1,
        "BLOCKS_PER_SM": 1,
        "AHEAD": 0,
        "WEIGHTS": "anew",
        "FOLD_ROWS": 8,
        "LOADS": "plain",
        "STORES": "plain",
    },
    default={
        "THREADS": 512,
        "WIDTH": 4,
        "BLOCKS_PER_SM": 1,
        "AHEAD": 1,
        "WEIGHTS": "kept",
        "FOLD_ROWS": 32,
        "LOADS": "stream",
        "STORES": "plain",
    },
)
LAYERNORM_BACKWARD = Template(
    name="cuda-layernorm-backward",
    language="cuda",
    summary="sums of tiles, merged per row, then gradients with a tile's columns in registers",
    path=FOLDER / "layernorm_backward.cu",
    tasks={"layernorm/backward": {}},
    space=Space(
        (
            Gene("SUM_THREADS", (128, 256, 512), "of a block that sums"),
            Gene("SUM_PACKS", (1, 2, 4), "per thread that sums"),
            Gene("SUM_BLOCKS", (2, 8, 16), "per processor, as far as rows allow"),
            Gene("THREADS", (64, 128, 256, 512), "of a block that writes"),
            Gene("PACKS", (1, 2), "per thread that writes"),
            Gene("AT_ONCE", (1, 2, 4), "rows on their way"),
            Gene("WIDTH", (1, 4), "floats at a time"),
            Gene("REVERSED", (0, 1), "begin with what was read last", structural=True),
            LOADS,
            STORES,
        ),
    ),
    naive={
        "SUM_THREADS": 128,
        "SUM_PACKS": 1,
        "SUM_BLOCKS": 2,
        "THREADS": 64,
        "PACKS": 1,
        "AT_ONCE": 1,
        "WIDTH": 1,
        "REVERSED": 0,
        "LOADS": "plain",
        "STORES": "plain",
    },
    default={
        "SUM_THREADS": 256,
        "SUM_PACKS": 2,
        "SUM_BLOCKS": 8,
        "THREADS": 256,
        "PACKS": 2,
        "AT_ONCE": 2,
        "WIDTH": 4,
        "REVERSED": 1,
        "LOADS": "stream",
        "STORES": "plain",
    },
)
TEMPLATES = (RMSNORM_FORWARD, LAYERNORM_FORWARD, RMSNORM_BACKWARD, LAYERNORM_BACKWARD)
