"""The difficulty of tasks: what it counts, the grades of the shipped tasks, and references that cannot be read."""

from dataclasses import replace
from typing import Any

import pytest
from django.test import Client

from benchmarks.catalogue.difficulty import SOURCE_MAX_CHARS, difficulty_of
from benchmarks.harness import default_suites, find_task, load_suite
from benchmarks.models import Task
from tests.rows import synced

SHIPPED = {
    "easy": "layernorm/forward llama_rmsnorm/forward mnist_cross_entropy/forward mnist_linear/forward "
    "mnist_linear_relu/forward mnist_pool/forward unet_linear/forward",
    "hard": "mnist_conv_relu_pool/backward mnist_linear_relu/backward resnet_block/forward",
}


def counted(source: str, direction: str = "forward") -> dict[str, Any]:
    spec = find_task(default_suites(), "mnist_pool/forward")
    return difficulty_of(replace(spec, reference_source=source, direction=direction))[1]


def test_the_grades_of_the_shipped_tasks() -> None:
    grades = {task.name: difficulty_of(task)[0].value for task in load_suite(default_suites() / "robust_kbench")}
    for grade, names in SHIPPED.items():
        assert sorted(name for name, found in grades.items() if found == grade) == sorted(names.split())
    assert list(grades.values()).count("medium") == 9


def test_only_what_the_judged_function_uses_counts() -> None:
    source = """
def _helper(x): return x.softmax(-1)
def _other(x): return x @ x
def forward(x):
    for _ in range(3):
        x = _helper(x) * 2
    return x.view(-1)
def backward(x): return _other(x) @ x
"""
    figures = {name: value for name, value in counted(source).items() if name in ("products", "loops")}
    assert figures == {"products": 0, "loops": 1}
    assert (counted(source)["reductions"], counted(source)["operations"]) == (1, 1)
    assert counted(source, "backward")["products"] == 2


def test_a_module_counts_as_a_whole() -> None:
    source = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.LayerNorm(8)
    def forward(self, x):
        return torch.relu_(self.norm(self.conv(x)))
"""
    assert (counted(source)["products"], counted(source)["reductions"]) == (1, 1)


@pytest.mark.parametrize(
    "source",
    ["def forward(:", "x = " + "(" * 5_000, "\x00", "x = " + "-" * 100_000 + "1", "a" * (SOURCE_MAX_CHARS + 1)],
)
def test_what_cannot_be_read_counts_for_nothing(source: str) -> None:
    found = counted(source)
    assert [found[name] for name in ("products", "reductions", "operations", "loops")] == [0, 0, 0, 0]


@pytest.mark.django_db
def test_tasks_are_filtered_by_it() -> None:
    synced()
    page = Client().get("/tasks/?difficulty=hard").content.decode()
    assert "resnet_block/forward" in page
    assert "mnist_pool/forward" not in page
    rows = Client().get("/api/v1/tasks?difficulty=hard").json()
    assert {row["name"] for row in rows} == set(SHIPPED["hard"].split())
    assert Client().get("/api/v1/tasks?difficulty=nasty").status_code == 422
    task = Client().get("/api/v1/tasks/robust-kbench/resnet_block/forward").json()
    assert (task["difficulty"], task["difficulty_facts"]["products"]) == ("hard", 3)
    shown = Client().get("/tasks/robust-kbench/resnet_block/forward/").content.decode()
    assert "3 matrix products and convolutions" in shown
    assert not Task.objects.filter(listed=True, difficulty="").exists()
