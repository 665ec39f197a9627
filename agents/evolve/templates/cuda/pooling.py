"""Max-pool over 2 × 2 windows."""

from ..base import Constraint, Gene, Genome, Space, Template
from .genes import FOLDER, LOADS, REGISTERS, STORES, number, threads


def _forward_registers(genome: Genome) -> int:
    return 24 + 5 * number(genome, "WINDOWS") * number(genome, "STEPS")


def _backward_registers(genome: Genome) -> int:
    return 24 + (6 * number(genome, "WINDOWS") + 4) * number(genome, "STEPS")


POOL_FORWARD = Template(
    name="cuda-pool-forward",
    language="cuda",
    summary="neighbouring windows per thread, several steps in flight",
    path=FOLDER / "pool_forward.cu",
    tasks={"mnist_pool/forward": {}},
    space=Space(
        (
            threads(),
            Gene("WINDOWS", (1, 2, 3, 7), "neighbours per step"),
            Gene("STEPS", (1, 2, 3, 4), "per thread, all in flight"),
            Gene("BLOCKS_PER_SM", (0, 1, 2, 4, 8), "that walk over the work; 0: as many as there is work"),
            Gene("DIVIDE_BY_MULTIPLYING", (0, 1), "where an item lies", structural=True),
            LOADS,
            STORES,
        ),
        (
            Constraint(
                "the registers of a block suffice",
                lambda g: _forward_registers(g) * number(g, "THREADS") <= REGISTERS,
            ),
        ),
    ),
    naive={
        "THREADS": 64,
        "WINDOWS": 1,
        "STEPS": 1,
        "BLOCKS_PER_SM": 1,
        "DIVIDE_BY_MULTIPLYING": 0,
        "LOADS": "plain",
        "STORES": "plain",
    },
    default={
        "THREADS": 256,
        "WINDOWS": 2,
        "STEPS": 2,
        "BLOCKS_PER_SM": 0,
        "DIVIDE_BY_MULTIPLYING": 1,
        "LOADS": "stream",
        "STORES": "plain",
    },
)
POOL_BACKWARD = Template(
    name="cuda-pool-backward",
    language="cuda",
    summary="neighbouring windows per thread, every gradient written once",
    path=FOLDER / "pool_backward.cu",
    tasks={"mnist_pool/backward": {}},
    space=Space(
        (
            threads(),
            Gene("WINDOWS", (1, 2, 3, 7), "neighbours per step"),
            Gene("STEPS", (1, 2, 4), "per thread, all in flight"),
            Gene("BLOCKS_PER_SM", (0, 1, 2, 4, 8), "that walk over the work; 0: as many as there is work"),
            LOADS,
            STORES,
        ),
        (
            Constraint(
                "the registers of a block suffice",
                lambda g: _backward_registers(g) * number(g, "THREADS") <= REGISTERS,
            ),
        ),
    ),
    naive={"THREADS": 64, "WINDOWS": 1, "STEPS": 1, "BLOCKS_PER_SM": 1, "LOADS": "plain", "STORES": "plain"},
    default={"THREADS": 256, "WINDOWS": 2, "STEPS": 1, "BLOCKS_PER_SM": 0, "LOADS": "plain", "STORES": "plain"},
)
TEMPLATES = (POOL_FORWARD, POOL_BACKWARD)
