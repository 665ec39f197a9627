"""Cross entropy, forward and backward."""

from ..base import Gene, Genome, Space, Template
from .genes import FOLDER, grain, lanes

_LANES = ("PATH", ("lanes",))

_SPACE = Space(
    (
        Gene("PATH", ("naive", "lanes"), ordinal=False, structural=True),
        lanes(only=_LANES),
        Gene("ACCUMULATORS", (1, 2, 4), "vectors of exponentials at a time", only=_LANES),
        Gene("TAIL", ("scalar", "vector"), "the end of a row", ordinal=False, structural=True, only=_LANES),
        Gene("DEGREE", (5, 6, 7), "of the polynomial", only=_LANES),
        grain(2048, 8192, 32768),
    )
)
_NAIVE: Genome = {"PATH": "naive", "LANES": 4, "ACCUMULATORS": 1, "TAIL": "scalar", "DEGREE": 5, "GRAIN": 8192}
_DEFAULT: Genome = {"PATH": "lanes", "LANES": 16, "ACCUMULATORS": 2, "TAIL": "vector", "DEGREE": 7, "GRAIN": 8192}

CROSS_ENTROPY_FORWARD = Template(
    name="cpp-cross-entropy-forward",
    language="cpp",
    summary="a maximum and a sum of polynomial exponentials per row",
    path=FOLDER / "cross_entropy_forward.cpp.tmpl",
    tasks={"mnist_cross_entropy/forward": {}},
    space=_SPACE,
    naive=_NAIVE,
    default=_DEFAULT,
)

CROSS_ENTROPY_BACKWARD = Template(
    name="cpp-cross-entropy-backward",
    language="cpp",
    summary="exponentials written into the result and scaled in place",
    path=FOLDER / "cross_entropy_backward.cpp.tmpl",
    tasks={"mnist_cross_entropy/backward": {}},
    space=_SPACE,
    naive=_NAIVE,
    default=_DEFAULT,
)
