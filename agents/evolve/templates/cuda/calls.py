"""How the plain core of a CUDA template is called, without torch around it.

The core of every template exports
    int64_t workspace_floats(SIZES)
    int launch(INPUTS, RESULTS, float* workspace, SIZES, [float eps,] void* stream)
with all tensors as pointers in the order of the task. Not covered: which core serves a task
(`find_template`), and templates that leave work to a library, which cannot be called without torch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..base import Genome, Template

MARK = "// ---- torch "  # what follows needs torch; what stands before is the plain core

Values = Mapping[str, Any]


@dataclass(frozen=True)
class CoreCall:
    """The sizes that a core is told, from the values of a configuration; `inputs` None means all of the task."""

    sizes: Callable[[Values], tuple[int, ...]]
    inputs: tuple[str, ...] | None = None
    eps: bool = False


def plain_core(template: Template, genome: Genome, task: Any) -> str:
    """The part of a rendered source that compiles without torch."""
    return template.render(genome, task).split(MARK)[0]


def _pool(v: Values) -> tuple[int, ...]:
    return v["batch_size"] * v["in_channels"], v["height"], v["width"]


def _rms_norm(v: Values) -> tuple[int, ...]:
    return v["batch_size"] * v["num_tokens"], v["num_features"]


def _layer_norm(v: Values) -> tuple[int, ...]:
    return v["batch_size"], v["num_features"] * v["dim1"] * v["dim2"]


def _linear(v: Values) -> tuple[int, ...]:
    return v["batch_size"], v["num_output_features"], v["num_input_features"]


def _linear_at_positions(v: Values) -> tuple[int, ...]:
    return v["batch_size"] * v["num_positions"], v["num_output_features"], v["num_input_features"]


def _classes(v: Values) -> tuple[int, ...]:
    return v["batch_size"], v["num_classes"]


def _conv_pool(v: Values) -> tuple[int, ...]:
    return v["batch_size"], v["in_channels"], v["out_channels"], v["height"], v["width"]


def _convolution(v: Values) -> tuple[int, ...]:
    return (*_conv_pool(v), v["stride"], v["padding"])


CALLS: Mapping[str, CoreCall] = {
    "layernorm/backward": CoreCall(_layer_norm, ("grad_output", "x", "weight"), eps=True),
    "layernorm/forward": CoreCall(_layer_norm, eps=True),
    "llama_rmsnorm/backward": CoreCall(_rms_norm, eps=True),
    "llama_rmsnorm/forward": CoreCall(_rms_norm, eps=True),
    "mnist_conv_relu_pool/backward": CoreCall(_conv_pool),
    "mnist_conv_relu_pool/forward": CoreCall(_conv_pool),
    "mnist_cross_entropy/backward": CoreCall(_classes),
    "mnist_cross_entropy/forward": CoreCall(_classes),
    "mnist_linear/backward": CoreCall(_linear),
    "mnist_linear/forward": CoreCall(_linear),
    "mnist_linear_relu/backward": CoreCall(_linear),
    "mnist_linear_relu/forward": CoreCall(_linear),
    "mnist_pool/backward": CoreCall(_pool),
    "mnist_pool/forward": CoreCall(_pool),
    "unet_conv2d/forward": CoreCall(_convolution),
    "unet_linear/backward": CoreCall(_linear),
    "unet_linear/forward": CoreCall(_linear_at_positions),
}
