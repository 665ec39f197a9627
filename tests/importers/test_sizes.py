"""How large a task is, found before a value is drawn."""

import pytest

from benchmarks.harness import GPU_TASK, examine
from benchmarks.harness.child.admitting.sizes import declared_bytes

from .conftest import foreign

HEAD = "import torch\nfrom torch import nn\nN = 60000\n"
MODEL = HEAD + "class Model(nn.Module):\n    def forward(self, x, y):\n        return {result}\n"
INPUTS = "def get_inputs():\n    return [{inputs}]\n"


def declared(source: str, form: str = "model") -> int | None:
    names: dict = {}
    exec(source, names)  # noqa: S102 - a source of this test
    return declared_bytes(form, names, {})


@pytest.mark.parametrize(
    ("inputs", "result", "size_bytes"),
    [
        ("torch.rand(N, N), torch.rand(N, N)", "x + y", 3 * 4 * 60000**2),
        ("torch.rand(N, 1), torch.rand(1, N)", "x @ y", 4 * 60000**2 + 2 * 4 * 60000),
        ("torch.rand(N, N).softmax(-1), torch.randint(0, 5, (N,))", "x.sum(-1)", 4 * 60000**2 + 12 * 60000),
        ("torch.rand(N, N), torch.rand(3)", "x if y.sum().item() > 1 else y", 4 * 60000**2 + 12),
    ],
)
def test_tensors_of_gigabytes_are_counted_without_memory(inputs: str, result: str, size_bytes: int) -> None:
    assert declared(MODEL.format(result=result) + INPUTS.format(inputs=inputs)) == size_bytes


def test_state_counts_too() -> None:
    source = HEAD + (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.linear = nn.Linear(N, N, bias=False)\n    def forward(self, x):\n        return self.linear(x)\n"
    )
    assert declared(source + INPUTS.format(inputs="torch.rand(1, N)")) == 4 * 60000**2 + 2 * 4 * 60000


def test_a_function_is_counted_as_it_is_called() -> None:
    source = HEAD + (
        "def forward_fn(x, y):\n    return x + y\n"
        "class Model(nn.Module):\n    def forward(self, x, fn=forward_fn):\n        return fn(x, x)\n"
        "def get_inputs():\n    return [torch.rand(N)]\n"
    )
    assert declared(source, "function") == 3 * 4 * 60000


def test_what_needs_values_to_be_drawn_is_not_known() -> None:
    inputs = "torch.rand(int(torch.rand(1).item() * 10) + 1)"
    assert declared(MODEL.format(result="x") + INPUTS.format(inputs=inputs)) is None


@pytest.mark.sandbox
def test_what_is_too_large_is_refused_before_it_is_drawn(paths) -> None:
    """Drawing it would end as an error of memory, and with another reason."""
    source = MODEL.format(result="x + y") + INPUTS.format(inputs="torch.rand(N, N), torch.rand(N, N)")
    found = examine(foreign(source), paths)
    assert found.task is None
    assert found.problem.startswith(f"{GPU_TASK}. Its arguments and results take at least 43.20 GB; at most 1.07 GB")
