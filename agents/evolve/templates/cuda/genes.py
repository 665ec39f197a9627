"""Genes and limits that many CUDA templates share."""

from pathlib import Path

from ..base import Constraint, Gene, Genome, Value

FOLDER = Path(__file__).parent
MAX_THREADS, REGISTERS, STATIC_SHARED_BYTES, SHARED_BYTES = 1024, 65536, 48 * 1024, 227 * 1024

LOADS = Gene("LOADS", ("plain", "readonly", "stream"), "how inputs are read", ordinal=False)
STORES = Gene("STORES", ("plain", "stream"), "how results are written", ordinal=False)


def threads(*values: Value) -> Gene:
    return Gene("THREADS", values or (64, 128, 256, 512, 1024), "of a block")


def number(genome: Genome, name: str) -> int:
    return int(genome[name])


def tile_threads(genome: Genome) -> int:
    """Threads of a block that makes a tile of a product."""
    return (number(genome, "TILE_M") // number(genome, "THREAD_M")) * (
        number(genome, "TILE_N") // number(genome, "THREAD_N")
    )


def tile_shared_bytes(genome: Genome, pad: int = 4) -> int:
    places = number(genome, "TILE_M") + number(genome, "TILE_N") + 2 * pad
    return 4 * number(genome, "BUFFERS") * number(genome, "TILE_K") * places


TILE_GENES = (
    Gene("TILE_M", (16, 32, 64, 128), "rows of a tile"),
    Gene("TILE_N", (16, 32, 64, 128), "columns of a tile"),
    Gene("TILE_K", (8, 16, 32), "terms at a time"),
    Gene("THREAD_M", (1, 2, 4, 8), "rows of a thread"),
    Gene("THREAD_N", (1, 2, 4, 8), "columns of a thread"),
    Gene("BUFFERS", (1, 2), "tiles in shared memory, one filled while the other is used"),
)
TILE_CONSTRAINTS = (
    Constraint("a tile needs 32 to 512 threads", lambda g: 32 <= tile_threads(g) <= 512),
    Constraint("a tile's threads are whole warps", lambda g: tile_threads(g) % 32 == 0),
    Constraint("tiles fit 48 KiB of shared memory", lambda g: tile_shared_bytes(g) <= STATIC_SHARED_BYTES),
)
