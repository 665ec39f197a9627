"""RMS norm and layer norm, forward and backward."""

from ..base import Gene, Space, Template
from .genes import FOLDER, grain, lanes

_LANES = ("PATH", ("lanes",))
_BLOCKS = ("PATH", ("blocks",))


def _accumulators(path: tuple[str, tuple[str, ...]]) -> Gene:
    return Gene("ACCUMULATORS", (1, 2, 4, 8), "vectors of partial sums", only=path)


def _blocks() -> tuple[Gene, ...]:
    pivot = Gene("PIVOT", ("mean", "first"), "what sums go around", ordinal=False, structural=True, only=_BLOCKS)
    return (pivot, lanes(only=_BLOCKS), _accumulators(_BLOCKS))


RMSNORM_FORWARD = Template(
    name="cpp-rmsnorm-forward",
    language="cpp",
    summary="sums of squares in vectors, some rows ahead of what is written",
    path=FOLDER / "rmsnorm_forward.cpp.tmpl",
    tasks={"llama_rmsnorm/forward": {}},
    space=Space(
        (
            Gene("PATH", ("naive", "lanes"), ordinal=False, structural=True),
            lanes(only=_LANES),
            _accumulators(_LANES),
            Gene("ROWS", (1, 2, 4), "rows whose scales are known before the first is written", only=_LANES),
            Gene("UNROLL", (1, 2, 4), "vectors written side by side", only=_LANES),
            grain(8192, 32768),
        )
    ),
    naive={"PATH": "naive", "LANES": 4, "ACCUMULATORS": 1, "ROWS": 1, "UNROLL": 1, "GRAIN": 32768},
    default={"PATH": "lanes", "LANES": 16, "ACCUMULATORS": 4, "ROWS": 1, "UNROLL": 1, "GRAIN": 32768},
)

RMSNORM_BACKWARD = Template(
    name="cpp-rmsnorm-backward",
    language="cpp",
    summary="two sums per row in vectors, several rows sharing a visit of the weights' gradient",
    path=FOLDER / "rmsnorm_backward.cpp.tmpl",
    tasks={"llama_rmsnorm/backward": {}},
    space=Space(
        (
            Gene("PATH", ("naive", "lanes"), ordinal=False, structural=True),
            lanes(only=_LANES),
            _accumulators(_LANES),
            Gene("ROWS", (1, 2, 4, 8), "rows that share a visit", only=_LANES),
            Gene("FLUSH", (16, 64), "rows that add up in float"),
            grain(8192, 32768),
        )
    ),
    naive={"PATH": "naive", "LANES": 4, "ACCUMULATORS": 1, "ROWS": 1, "FLUSH": 64, "GRAIN": 32768},
    default={"PATH": "lanes", "LANES": 16, "ACCUMULATORS": 2, "ROWS": 2, "FLUSH": 64, "GRAIN": 32768},
)

LAYERNORM_FORWARD = Template(
    name="cpp-layernorm-forward",
    language="cpp",
    summary="moments of blocks merged in double, the row written from either end",
    path=FOLDER / "layernorm_forward.cpp.tmpl",
    tasks={"layernorm/forward": {}},
    space=Space(
        (
            Gene("PATH", ("naive", "blocks"), ordinal=False, structural=True),
            *_blocks(),
            Gene("BLOCK", (512, 1024, 2048, 4096, 8192), "values of a block"),
            Gene("REVERSE", (0, 1), "rows are written from their end", ordinal=False),
        )
    ),
    naive={"PATH": "naive", "PIVOT": "mean", "LANES": 4, "ACCUMULATORS": 1, "BLOCK": 4096, "REVERSE": 0},
    default={"PATH": "blocks", "PIVOT": "mean", "LANES": 16, "ACCUMULATORS": 4, "BLOCK": 4096, "REVERSE": 0},
)

LAYERNORM_BACKWARD = Template(
    name="cpp-layernorm-backward",
    language="cpp",
    summary="four sums of a row in one visit of its blocks, then all rows of a block of columns",
    path=FOLDER / "layernorm_backward.cpp.tmpl",
    tasks={"layernorm/backward": {}},
    space=Space(
        (
            Gene("PATH", ("naive", "blocks"), ordinal=False, structural=True),
            *_blocks(),
            Gene("BLOCK", (512, 2048, 8192), "values of a block", only=_BLOCKS),
            Gene("COLUMNS", (256, 1024, 4096, 16384), "values whose gradients all rows visit together"),
        )
    ),
    naive={"PATH": "naive", "PIVOT": "mean", "LANES": 4, "ACCUMULATORS": 1, "BLOCK": 512, "COLUMNS": 16384},
    default={"PATH": "blocks", "PIVOT": "mean", "LANES": 16, "ACCUMULATORS": 2, "BLOCK": 2048, "COLUMNS": 4096},
)
