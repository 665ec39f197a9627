"""Cross entropy, forward and backward."""

from ..base import Gene, Space, Template
from .genes import FOLDER, LOADS, STORES, threads

_SHARED = (
    threads(64, 128, 256, 512),
    Gene("LANES", (2, 4, 8, 16, 32), "that share a row"),
    Gene("ITEMS", (1, 2, 4, 8, 16), "classes of a lane at a time"),
    Gene("ROWS", (1, 2, 4), "of a group of lanes, one after the other"),
    Gene("FAST", (0, 1), "exponentials by the special units"),
    LOADS,
)

CROSS_ENTROPY_FORWARD = Template(
    name="cuda-cross-entropy-forward",
    language="cuda",
    summary="a few lanes per row, rows in registers, sums by one block or by a second kernel that starts early",
    path=FOLDER / "cross_entropy_forward.cu",
    tasks={"mnist_cross_entropy/forward": {}},
    space=Space(
        (
            *_SHARED,
            Gene("PICK", ("registers", "memory"), "the target's score", ordinal=False, structural=True),
            Gene("ENDING", ("kernel", "block"), "who adds up the rows", ordinal=False, structural=True),
            Gene("OVERLAP", (0, 1), "start it while the first runs", structural=True, only=("ENDING", ("kernel",))),
        )
    ),
    naive={
        "THREADS": 64,
        "LANES": 2,
        "ITEMS": 1,
        "ROWS": 1,
        "FAST": 0,
        "LOADS": "plain",
        "PICK": "memory",
        "ENDING": "block",
        "OVERLAP": 0,
    },
    default={
        "THREADS": 256,
        "LANES": 32,
        "ITEMS": 4,
        "ROWS": 1,
        "FAST": 0,
        "LOADS": "plain",
        "PICK": "registers",
        "ENDING": "kernel",
        "OVERLAP": 1,
    },
)
CROSS_ENTROPY_BACKWARD = Template(
    name="cuda-cross-entropy-backward",
    language="cuda",
    summary="a few lanes per row, rows in registers from load to store",
    path=FOLDER / "cross_entropy_backward.cu",
    tasks={"mnist_cross_entropy/backward": {}},
    space=Space((*_SHARED, STORES)),
    naive={
        "THREADS": 64,
        "LANES": 2,
        "ITEMS": 1,
        "ROWS": 1,
        "FAST": 0,
        "LOADS": "plain",
        "STORES": "plain",
    },
    default={
        "THREADS": 256,
        "LANES": 32,
        "ITEMS": 4,
        "ROWS": 1,
        "FAST": 0,
        "LOADS": "plain",
        "STORES": "plain",
    },
)
TEMPLATES = (CROSS_ENTROPY_FORWARD, CROSS_ENTROPY_BACKWARD)
