"""Operations whose products are left to a library; the genes are about what lies around it."""

from dataclasses import replace

from ..base import Gene, Space, Template, Value
from .genes import FOLDER, LOADS, STORES


def _own_gate(name: str, note: str, *values: Value) -> Gene:
    return Gene(name, values, note, only=("GATE", ("own",)))


def _own_epilogue(name: str, note: str, *values: Value) -> Gene:
    return Gene(name, values, note, only=("EPILOGUE", ("own",)))


GATED_FORWARD = Template(
    name="cuda-gated-forward",
    language="cuda",
    summary="products by cuBLAS, the gate between them by a kernel of our own",
    path=FOLDER / "gated_forward.cu",
    tasks={"llama_ffw/forward": {}},
    space=Space(
        (
            Gene("GATE", ("library", "own"), "who makes silu(gate) * up", ordinal=False, structural=True),
            Gene("CHUNKS", (1, 2, 4), "of the up features", structural=True),
            _own_gate("THREADS", "of a block", 64, 128, 256, 512),
            _own_gate("WIDTH", "floats at a time", 1, 2, 4),
            _own_gate("STEPS", "per thread", 1, 2, 4),
            _own_gate("IN_PLACE", "over the gate", 0, 1),
            _own_gate("FAST", "exponentials by the special units", 0, 1),
        )
    ),
    naive={"GATE": "library", "CHUNKS": 1, "THREADS": 64, "WIDTH": 1, "STEPS": 1, "IN_PLACE": 0, "FAST": 0},
    default={"GATE": "own", "CHUNKS": 1, "THREADS": 256, "WIDTH": 4, "STEPS": 1, "IN_PLACE": 1, "FAST": 0},
    library=lambda _genome: "cuBLAS makes the three products",
)
RESIDUAL_FORWARD = Template(
    name="cuda-residual-forward",
    language="cuda",
    summary="convolutions by cuDNN with the norms folded in; offset, shortcut and relu fused or by our own kernel",
    path=FOLDER / "residual_forward.cu",
    tasks={"resnet_block/forward": {}},
    space=Space(
        (
            Gene("NORMS", ("library", "folded"), "batch norms", ordinal=False, structural=True),
            Gene("TRIALS", (0, 1), "cuDNN times its algorithms", structural=True),
            Gene("FOLD_THREADS", (64, 128, 256), "of a block that folds", only=("NORMS", ("folded",))),
            Gene("EPILOGUE", ("fused", "own"), "", ordinal=False, structural=True, only=("NORMS", ("folded",))),
            _own_epilogue("THREADS", "of a block", 128, 256, 512),
            _own_epilogue("WIDTH", "floats at a time", 1, 4),
            _own_epilogue("STEPS", "per thread", 1, 2, 4),
            replace(LOADS, only=("EPILOGUE", ("own",))),
            replace(STORES, only=("EPILOGUE", ("own",))),
        )
    ),
    naive={
        "NORMS": "library",
        "TRIALS": 0,
        "FOLD_THREADS": 64,
        "EPILOGUE": "fused",
        "THREADS": 128,
        "WIDTH": 1,
        "STEPS": 1,
        "LOADS": "plain",
        "STORES": "plain",
    },
    default={
        "NORMS": "folded",
        "TRIALS": 1,
        "FOLD_THREADS": 128,
        "EPILOGUE": "fused",
        "THREADS": 128,
        "WIDTH": 1,
        "STEPS": 1,
        "LOADS": "plain",
        "STORES": "plain",
    },
    library=lambda _genome: "cuDNN makes the convolutions",
)
TEMPLATES = (GATED_FORWARD, RESIDUAL_FORWARD)
