"""The forms in which files of KernelBench and its forks come: each is described in this process, without a sandbox.

The modules are written here. Not covered: whether the checker can judge them (`test_examine.py`).
"""

import json
from dataclasses import replace
from textwrap import dedent

import pytest
import torch

from benchmarks.harness.child.admitting.filters import idle_operands
from benchmarks.harness.child.admitting.probe import _PROBES, answered
from benchmarks.harness.child.check import load_module
from benchmarks.harness.foreign.examine import ForeignConfig, made_task
from benchmarks.harness.foreign.facts import Facts, facts_of
from benchmarks.harness.tasks.spec import TaskSpec

from .conftest import foreign

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"


@pytest.fixture
def described(tmp_path):
    """What is said of a file: facts, or the reason why it cannot be judged."""

    def describe(text: str, form: str = "model") -> Facts | str:
        torch.set_grad_enabled(False)
        file = tmp_path / "task.py"
        file.write_text(HEAD + dedent(text))
        answer = answered(_PROBES[form], vars(load_module(file, "a_task")), {})
        return facts_of(json.loads(json.dumps(answer["facts"]))) if "facts" in answer else str(answer["problem"])

    yield describe
    torch.set_grad_enabled(True)


LINEAR = """
class Model(nn.Module):
    def __init__(self, size, bias=True):
        super().__init__()
        self.linear = nn.Linear(size, 3, bias=bias)

    def forward(self, x, scale=1.0):
        return self.linear(x) * scale

"""


@pytest.mark.parametrize(
    ("made", "given", "state", "inputs"),
    [
        ("[4]", "[torch.rand(2, 4)]", 2, 1),
        ("(4,)", "(torch.rand(2, 4), 0.5)", 2, 2),
        ("{'bias': False, 'size': 4}", "torch.rand(2, 4)", 1, 1),
        ("[[4], {'bias': False}]", "{'x': torch.rand(2, 4), 'scale': 2.0}", 1, 2),
        ("[[], {'size': 4}]", "[torch.rand(2, 4).cuda()]", 2, 1),
        ("[4]", "[torch.rand(2, 4, device='cuda:0', dtype=torch.float32)]", 2, 1),
    ],
)
def test_inputs_come_in_many_forms(described, made: str, given: str, state: int, inputs: int) -> None:
    text = f"def get_init_inputs():\n    return {made}\n\ndef get_inputs():\n    return {given}\n"
    facts = described(LINEAR + text)
    assert isinstance(facts, Facts), facts
    assert (facts.arguments[0].shape, facts.results[0].shape) == ((2, 4), (2, 3))
    assert len(facts.arguments) == inputs + state
    assert facts.init.startswith("[4")


@pytest.mark.parametrize("made", ["def get_init_inputs(): return None", "def get_init_inputs(): return ()", ""])
def test_a_module_that_is_made_with_nothing(described, made: str) -> None:
    text = "class Model(nn.Module):\n    def forward(self, x: torch.Tensor) -> torch.Tensor:\n        return x.relu()\n"
    facts = described(f"{text}\n{made}\ndef get_inputs(): return [torch.randn(3, 5)]\n")
    assert (facts.argument_names, facts.init) == (("x",), "[]")


MODULES = {
    "instance norm": ("nn.InstanceNorm2d(3)", "torch.rand(2, 3, 4, 4)", "float32"),
    "batch norm in training": ("nn.BatchNorm3d(3)", "torch.rand(2, 3, 2, 4, 4)", "float32"),
    "transposed": ("nn.ConvTranspose3d(2, 3, 3, stride=2, groups=1)", "torch.rand(1, 2, 3, 4, 3)", "float32"),
    "half": ("nn.Linear(4, 4, dtype=torch.float16)", "torch.rand(2, 4, device='cuda', dtype=torch.float16)", "float16"),
    "bfloat16": ("nn.Linear(4, 4).bfloat16()", "torch.rand(2, 4).to(device='cuda', dtype=torch.bfloat16)", "bfloat16"),
    "lstm": ("nn.LSTM(4, 5, num_layers=2, bidirectional=True)", "torch.rand(3, 2, 4)", "float32"),
    "argmax": ("nn.Flatten()", "torch.rand(2, 4)", "int64", "torch.argmax(self.part(x), dim=1)"),
    "cumulative": ("nn.Identity()", "torch.rand(2, 4)", "float32", "torch.cumsum(x.flip(1), 1).flip(1)"),
    "loss": ("nn.SmoothL1Loss()", "torch.rand(4)", "float32", "self.part(x, x * x)"),
    "no dropout": ("nn.Dropout(0.0)", "torch.rand(2, 4)", "float32"),
    "attention": (
        "nn.Identity()",
        "torch.rand(1, 2, 8, 4)",
        "float32",
        "F.scaled_dot_product_attention(x, x, x, is_causal=True)",
    ),
    "boolean": ("nn.Identity()", "torch.rand(4) > 0.5", "bool", "~x"),
    "dictionary": ("nn.Identity()", "torch.rand(2, 4)", "float32", "{'y': x * 2, 'parts': [x + 1, None]}"),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_of_many_kinds(described, name: str) -> None:
    part, given, dtype, *rest = MODULES[name]
    returned = rest[0] if rest else "self.part(x)"
    facts = described(
        f"""
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.part = {part}

            def forward(self, x):
                return {returned}

        def get_inputs():
            return [{given}]
        """
    )
    assert isinstance(facts, Facts), facts
    assert facts.results[0].dtype == dtype
    assert len(facts.results) == {"lstm": 3, "dictionary": 2}.get(name, 1)


MANY = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.Sequential(*(part for _ in range(40) for part in (nn.BatchNorm1d(4), nn.Tanh())))

    def forward(self, x):
        return self.parts(x)

def get_inputs():
    return [torch.rand(8, 4)]
"""


def task_of(source: str, facts: Facts) -> TaskSpec:
    return made_task(foreign(source), [(ForeignConfig("single"), replace(facts, seconds=0.0))])


def test_a_network_has_hundreds_of_tensors_of_state(described, tmp_path) -> None:
    facts = described(MANY)
    assert len(facts.arguments) == 1 + 5 * 40
    task = task_of((tmp_path / "task.py").read_text(), facts)
    assert len(task.configs["cpu"][0].tensors) == 201


def test_operands_are_exchanged_together_where_one_by_one_takes_too_long(described, tmp_path, monkeypatch) -> None:
    facts = described(MANY.replace("40", "2"))
    task = task_of((tmp_path / "task.py").read_text(), facts)
    (tmp_path / "reference.py").write_text(task.reference_source)
    module = load_module(tmp_path / "reference.py", "a_reference")
    [stirred] = [item for item in task.configs["cpu"] if item.values["variant"] == "stirred"]
    stirred = replace(stirred, results=(replace(stirred.results[0], tolerance=2e-5, rms_tolerance=5e-6),))
    state = {item.name for item in stirred.tensors} - {"x"}
    running = {name for name in state if "running" in name or "tracked" in name}
    assert set(idle_operands(task, stirred, module, state)) == running
    monkeypatch.setattr("benchmarks.harness.child.admitting.filters._SINGLY_S", 0.0)
    assert idle_operands(task, stirred, module, state) == []
    assert set(idle_operands(task, stirred, module, running)) == running


REFUSED = {
    "x += 1\n        return x": "it writes into its inputs (line 9)",
    "return F.relu(x[0], inplace=True)": "it writes into its inputs (line 9)",
    "return x + torch.rand(40)": "two calls on the same input differ; it draws at random (line 9)",
    "y = F.dropout(x, 0.5)\n        return y": "it draws at random (line 9)",
    "return x / 0": "its results are not finite",
    "return {'a': 1.0}": "it returns tuple, which is neither",
    "import urllib.request\n        urllib.request.urlopen('http://127.0.0.1:9/weights')": "URLError",
    "return x @ x": "RuntimeError",
}


@pytest.mark.parametrize("body", REFUSED)
def test_a_refusal_names_the_line(described, body: str) -> None:
    text = f"class Model(nn.Module):\n    def forward(self, x):\n        # it is refused\n        {body}\n"
    problem = described(f"{text}\ndef get_inputs():\n    return [torch.rand(30, 40)]\n")
    assert isinstance(problem, str)
    assert REFUSED[body] in problem
    if "RuntimeError" in problem or "URLError" in problem:
        assert problem.endswith(f"(line {9 + body.count(chr(10))})")


def test_what_a_function_is_given_by_name_is_among_its_arguments(described) -> None:
    facts = described(
        """
        def forward_fn(x, gain=2.0, bias=None, slope=0.1):
            return F.leaky_relu(x * gain, slope)

        class Model(nn.Module):
            def forward(self, x, fn=forward_fn):
                return fn(x, slope=0.5)

        def get_inputs():
            return [torch.rand(3, 4)]
        """,
        "function",
    )
    assert [getattr(item, "value", None) for item in facts.arguments] == [None, 2.0, None, 0.5]
