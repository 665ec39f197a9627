"""Convolutions: with relu and max-pool around them, and alone."""

from ..base import Constraint, Gene, Genome, Space, Template
from .genes import FOLDER, LOADS, MAX_THREADS, REGISTERS, number


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
            Gene("FEWER", (0, 1), "channels per thread where blocks are few", structural=True),
            Gene("STAGED", (1, 8, 16, 32), "input channels in shared memory"),
            Gene("UNROLL", (1, 2, 4), "input channels side by side"),
            Gene("MIN_BLOCKS", (1, 4, 8, 12, 16), "that the registers of a processor must hold"),
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
TEMPLATES = (CONV_POOL_FORWARD,)
