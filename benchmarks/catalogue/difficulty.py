"""How difficult a task is: a grade that follows from its definition alone, with what it was derived from.

The reference is read as a syntax tree and never run: matrix products, reductions, further operations and loops of the
function that is judged, with the functions and modules that it uses. A backward task, several results and much
arithmetic for each byte add to that. What people reached on the task plays no part, so a grade does not change with
the board. Does NOT claim to know how long anybody will need.
"""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from ..harness import TaskSpec
from ..states import Difficulty

SOURCE_MAX_CHARS = 200_000
MUCH_FLOPS_PER_BYTE = 100.0
MEDIUM_FROM, HARD_FROM = 3, 7  # points
_PRODUCTS = {
    "linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "tensordot", "bilinear", "outer",
    "scaled_dot_product_attention", "multiheadattention", "multi_head_attention_forward", "lstm", "gru", "rnn",
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convtranspose1d",
    "convtranspose2d", "convtranspose3d", "convolution", "convolution_backward", "conv2d_input", "conv2d_weight",
}  # fmt: skip
_REDUCTIONS = {
    "sum", "mean", "var", "std", "var_mean", "std_mean", "norm", "vector_norm", "prod", "max", "min", "amax", "amin",
    "argmax", "argmin", "any", "all", "cumsum", "cumprod", "logcumsumexp", "softmax", "log_softmax", "logsoftmax",
    "logsumexp", "layer_norm", "layernorm", "rms_norm", "rmsnorm", "group_norm", "groupnorm", "instance_norm",
    "instancenorm2d", "cross_entropy", "crossentropyloss", "nll_loss", "mse_loss", "kl_div", "sort", "topk", "median",
    "max_pool1d", "max_pool2d", "max_pool3d", "maxpool1d", "maxpool2d", "maxpool3d", "avg_pool1d", "avg_pool2d",
    "avg_pool3d", "avgpool1d", "avgpool2d", "avgpool3d", "adaptive_avg_pool2d", "adaptiveavgpool2d", "normalize",
    "cosine_similarity", "max_pool2d_with_indices", "max_pool2d_with_indices_backward", "native_layer_norm_backward",
    "scatter_add", "index_add", "bincount", "histc", "unique", "cdist",
}  # fmt: skip
_MOVES_DATA = {  # what makes no kernel of its own
    "size", "dim", "view", "reshape", "flatten", "squeeze", "unsqueeze", "transpose", "permute", "t", "to",
    "contiguous", "float", "double", "half", "bfloat16", "detach", "clone", "expand", "expand_as", "item", "numel",
    "len", "range", "int", "tuple", "list", "isinstance", "super", "__init__", "parameter", "type_as", "zip",
    "is_floating_point", "enumerate", "modulelist", "sequential", "identity", "dropout", "chunk", "split", "unbind",
    "register_buffer",
}  # fmt: skip


def difficulty_of(spec: TaskSpec) -> tuple[Difficulty, dict[str, Any]]:
    """The grade, and the figures behind it. A reference that cannot be read counts for nothing."""
    counted = _counted(spec.reference_source, spec.direction)
    intensity = max(
        (config.flops / config.bytes_moved for configs in spec.configs.values() for config in configs
         if not config.hidden and config.bytes_moved),
        default=0.0,
    )  # fmt: skip
    facts = {
        **counted,
        "backward": spec.direction == "backward",
        "results": len(spec.result_names),
        "flops_per_byte": round(intensity, 1),
    }
    points = _points(facts)
    grade = Difficulty.HARD if points >= HARD_FROM else Difficulty.MEDIUM if points >= MEDIUM_FROM else Difficulty.EASY
    return grade, {**facts, "points": points}


def _points(facts: Mapping[str, Any]) -> int:
    others = facts["reductions"] + facts["operations"]
    return int(
        bool(facts["products"])
        + min(facts["products"], 3)
        + min(facts["reductions"], 2)
        + (others >= 5)
        + (others >= 10)
        + bool(facts["loops"])
        + facts["backward"]
        + (facts["results"] > 1)
        + (facts["flops_per_byte"] >= MUCH_FLOPS_PER_BYTE)
    )


def _counted(source: str, direction: str) -> dict[str, int]:
    counts: Counter[str] = Counter()
    try:
        tree = ast.parse(source if len(source) <= SOURCE_MAX_CHARS else "")
        named = {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        for node in _judged(tree, named, direction):
            counts.update(_kind(node, named))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        counts.clear()
    return {name: counts[name] for name in ("products", "reductions", "operations", "loops")}


def _judged(tree: ast.Module, named: Mapping[str, ast.AST], direction: str) -> Iterator[ast.AST]:
    """All nodes of the function that is judged and of what it names in the file; of the whole file without one."""
    if direction not in named:
        yield from ast.walk(tree)
        return
    waiting, seen = [direction], {direction}
    while waiting:
        for node in ast.walk(named[waiting.pop()]):
            yield node
            if isinstance(node, ast.Name) and node.id in named and node.id not in seen:
                seen.add(node.id)
                waiting.append(node.id)


def _kind(node: ast.AST, named: Mapping[str, ast.AST]) -> list[str]:
    """What a node counts as. Calls of what the file itself defines count nothing: their bodies do."""
    if isinstance(node, (ast.For, ast.While)):
        return ["loops"]
    if isinstance(node, ast.BinOp):
        return ["products" if isinstance(node.op, ast.MatMult) else "operations"]
    if not isinstance(node, ast.Call):
        return []
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    owner = getattr(getattr(node.func, "value", None), "id", "")
    name = str(called).lower().rstrip("_")
    if called in named or owner == "self" or name in _MOVES_DATA:
        return []
    return ["products" if name in _PRODUCTS else "reductions" if name in _REDUCTIONS else "operations"]
