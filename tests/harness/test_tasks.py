"""The tasks that ship: names, signatures, sizes, and references that run in every way they must."""

import inspect
from typing import Any

import pytest
import torch

from benchmarks.harness import default_suites
from benchmarks.harness.child.admitting.filters import tensors_of
from benchmarks.harness.child.check import as_tuple, load_reference
from benchmarks.harness.child.inputs import call_arguments, draw
from benchmarks.harness.tasks.spec import Config, TaskSpec, load_suite, weight_of, weight_of_key

TASKS = load_suite(default_suites() / "robust_kbench")
every_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)

# The order of arguments is a contract with published kernels.
SIGNATURES = {
    "layernorm/forward": "x weight bias eps",
    "layernorm/backward": "grad_output x weight bias eps normalized_shape",
    "llama_ffw/forward": "x gate_proj up_proj down_proj",
    "llama_rmsnorm/forward": "x w eps",
    "llama_rmsnorm/backward": "grad_output x w eps",
    "mnist_conv_relu_pool/forward": "x weights biases",
    "mnist_conv_relu_pool/backward": "x weights biases grad_output",
    "mnist_cross_entropy/forward": "predictions targets",
    "mnist_cross_entropy/backward": "grad_output predictions targets",
    "mnist_linear/forward": "x weights biases",
    "mnist_linear/backward": "grad_output x weights",
    "mnist_linear_relu/forward": "x weights biases",
    "mnist_linear_relu/backward": "grad_output x weights biases",
    "mnist_pool/forward": "x",
    "mnist_pool/backward": "x grad_output",
    "resnet_block/forward": (
        "x conv1_weight conv1_bias bn1_weight bn1_bias bn1_mean bn1_var conv2_weight conv2_bias bn2_weight bn2_bias "
        "bn2_mean bn2_var downsample_weight downsample_bias downsample_bn_weight downsample_bn_bias "
        "downsample_bn_mean downsample_bn_var stride eps"
    ),
    "unet_conv2d/forward": "x weights biases stride padding",
    "unet_linear/forward": "x weights biases",
    "unet_linear/backward": "grad_output x weights",
}
INPUT_BYTES_MAX = 16_000_000


def _smallest(task: TaskSpec) -> Config:
    return min(task.configs_for("cpu"), key=lambda config: config.bytes_moved)


def _arguments(config: Config) -> list[object]:
    tensors = tensors_of(config)
    draw(config, bytes(32), tensors, "published")
    return call_arguments(config, tensors)


def test_all_operations_are_there_with_their_signatures():
    assert {task.name: " ".join(task.argument_names) for task in TASKS} == SIGNATURES


@every_task
def test_a_reference_takes_the_arguments_of_a_submission(task):
    parameters = inspect.signature(getattr(load_reference(task.folder), task.direction)).parameters
    assert len(parameters) == len(task.argument_names)


@every_task
def test_the_cpu_sizes_are_small_odd_and_hidden_ones_too(task):
    configs = task.configs_for("cpu")
    hidden = [config for config in configs if config.hidden]
    assert 2 <= len(hidden) <= 4
    assert len(configs) - len(hidden) <= 6
    assert all(sum(item.nbytes for item in config.tensors) <= INPUT_BYTES_MAX for config in configs)
    assert any(value == 1 for config in hidden for name, value in config.values.items() if name == "batch_size")
    assert any(isinstance(value, int) and value % 8 for config in hidden for value in config.values.values())


@every_task
def test_hidden_sizes_are_never_shown_ones(task):
    for device in ("cpu", "cuda"):
        groups = [(config.hidden, [item.shape for item in config.tensors]) for config in task.configs_for(device)]
        hidden = [shapes for is_hidden, shapes in groups if is_hidden]
        assert len(hidden) >= 2
        assert not any((False, shapes) in groups for shapes in hidden)


@every_task
def test_no_more_bytes_are_counted_than_there_are(task):
    for config in (*task.configs_for("cpu"), *task.configs_for("cuda")):
        assert 0 < config.bytes_moved <= sum(item.nbytes for item in (*config.tensors, *config.results))
        assert config.flops > 0


@every_task
def test_results_have_the_declared_shapes_and_dtypes(task):
    function = getattr(load_reference(task.folder), task.direction)
    for config in task.configs_for("cpu"):
        results = as_tuple(function(*_arguments(config)))
        found = [(tuple(result.shape), str(result.dtype)) for result in results]
        assert found == [(item.shape, f"torch.{item.dtype}") for item in config.results]


@every_task
def test_a_reference_compiles_without_graph_breaks(task):
    function = getattr(load_reference(task.folder), task.direction)
    arguments = _arguments(_smallest(task))
    torch.compiler.reset()
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True, dynamic=False)
    with torch.no_grad():
        pairs = zip(as_tuple(compiled(*arguments)), as_tuple(function(*arguments)), strict=True)
        assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in pairs)


def test_a_shortcut_without_convolution_has_no_downsample_arguments():
    (task,) = (task for task in TASKS if task.op == "resnet_block")
    plain, downsampled, *_ = task.configs_for("cuda")
    names = {item.name for item in plain.tensors}
    assert not any(name.startswith("downsample") for name in names)
    assert {"downsample_weight", "downsample_bn_var"} <= {item.name for item in downsampled.tensors}


def test_the_tensor_of_a_pool_gradient_arrives_as_a_tuple():
    (task,) = (task for task in TASKS if task.name == "mnist_pool/backward")
    packed, grad = _arguments(_smallest(task))
    assert isinstance(packed, tuple)
    assert isinstance(grad, torch.Tensor)


def test_the_first_of_equal_maxima_gets_the_gradient():
    (task,) = (task for task in TASKS if task.name == "mnist_pool/backward")
    backward = load_reference(task.folder).backward
    grad = backward((torch.ones(1, 1, 2, 3),), torch.full((1, 1, 1, 1), 5.0))
    assert grad.flatten().tolist() == [5, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("calls", "weight"),
    [(3, 3.0), (2.5, 2.5), (0, 1.0), (-1, 1.0), (10**400, 1.0), (float("nan"), 1.0), ("many", 1.0), (True, 1.0)],
)
def test_what_counts_as_no_number_of_calls_counts_once(calls: Any, weight: float) -> None:
    """An author may call any value `calls`: weights of zero would have divided by zero in the judge."""
    assert weight_of(calls) == weight
    assert weight_of_key(f"n=4,calls={calls},m=2") == weight
    assert weight_of_key("n=4,recalls=3") == 1.0
