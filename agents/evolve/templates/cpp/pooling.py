"""Max-pool over 2 × 2 windows."""

from ..base import Gene, Space, Template
from .genes import FOLDER, grain, lanes

_VECTORS = ("PATH", ("shuffle",))

POOL_FORWARD = Template(
    name="cpp-pool-forward",
    language="cpp",
    summary="windows one by one, or vectors split into even and odd columns",
    path=FOLDER / "pool_forward.cpp.tmpl",
    tasks={"mnist_pool/forward": {}},
    space=Space(
        (
            Gene("PATH", ("scalar", "shuffle"), ordinal=False, structural=True),
            lanes(only=_VECTORS),
            Gene("UNROLL", (1, 2, 4), "vectors side by side", only=_VECTORS),
            Gene("TAIL", ("scalar", "overlap"), "the end of a row", ordinal=False, structural=True, only=_VECTORS),
            Gene("PREFETCH", (0, 1, 4), "how far ahead, in 4 KiB"),
            grain(),
        )
    ),
    naive={"PATH": "scalar", "LANES": 4, "UNROLL": 1, "TAIL": "scalar", "PREFETCH": 0, "GRAIN": 16384},
    default={"PATH": "shuffle", "LANES": 8, "UNROLL": 1, "TAIL": "overlap", "PREFETCH": 0, "GRAIN": 16384},
)

_VECTORS_OR_LOOP = ("PATH", ("loop", "shuffle"))

POOL_BACKWARD = Template(
    name="cpp-pool-backward",
    language="cpp",
    summary="both rows of a window filled in one sweep, by choices instead of branches",
    path=FOLDER / "pool_backward.cpp.tmpl",
    tasks={"mnist_pool/backward": {}},
    space=Space(
        (
            Gene("PATH", ("naive", "loop", "shuffle"), ordinal=False, structural=True),
            lanes(only=_VECTORS_OR_LOOP),
            Gene(
                "TAIL", ("scalar", "loop", "overlap"), "the end of a row", ordinal=False, structural=True, only=_VECTORS
            ),
            Gene("PREFETCH", (0, 1, 4), "how far ahead, in 4 KiB"),
            grain(),
        )
    ),
    naive={"PATH": "naive", "LANES": 4, "TAIL": "scalar", "PREFETCH": 0, "GRAIN": 16384},
    default={"PATH": "shuffle", "LANES": 8, "TAIL": "loop", "PREFETCH": 0, "GRAIN": 16384},
)
