"""An author's file runs in the process that examines it, so it can answer in its place. Nothing of that stops anybody.

What such a file can reach is its own task: it says what is right there, with or without a forged answer.
"""

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness import ForeignConfig, Paths, TaskError, examine, spec_from_json, spec_to_json
from benchmarks.harness.foreign.examine import _adjusted, _findings, made_task
from benchmarks.harness.foreign.facts import facts_of
from benchmarks.harness.protocol import ProtocolError, _parse

from .conftest import foreign

FACTS = {
    "arguments": [
        {"name": "x", "shape": [8, 8], "dtype": "float32", "options": {}, "packed": False},
        {"name": "n", "value": 3},
        {"name": "w", "shape": [8], "dtype": "int64", "options": {"low": 1, "high": 3}, "packed": False, "state": "w"},
    ],
    "results": [{"shape": [8, 8], "dtype": "float32"}, {"shape": [8], "dtype": "float32"}],
    "result_names": ["a", "b"],
    "flops": 10,
    "seconds": 0.01,
    "changed": ["w"],
    "init": "[1, 2]",
    "plan": "((1, 2), {'a': 1})",
}
FINDINGS = {"tolerances": [[1e-4, 1e-5], [1e-4, 1e-5]], "labels": ["x"], "notes": ["a note"], "dropped": []}
NUMBERS = [-1, 0, 2**70, 10**400, 1e308, float("inf"), float("-inf"), float("nan")]
TEXTS = [
    "",
    "a b",
    "9" * 4000,
    "(" * 500,
    "-" * 9000 + "1",
    "[1]",
    "{1: 2}",
    "([1], 2)",
    "(1, 2, 3)",
    "(1, 0x" + "f" * 5000 + ")",
    "[0x" + "f" * 1900 + "]",
    "\ud800",
    "1e999",
]
VALUES = [None, True, *NUMBERS, *TEXTS, [], [1], [[1]], {}, {"a": 1}, [None] * 3]
FORMS = ("model", "gradients", "case", "definition", "function")


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield place
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*place, key))


def variants(answer: Any) -> Iterator[Any]:
    """`answer` with each of VALUES at each place of it, and with each part left out."""
    for place in places(answer):
        for value in VALUES:
            changed: Any = {"": copy.deepcopy(answer)}
            inner, last = changed, ""
            for key in place:
                inner, last = inner[last], key
            inner[last] = value
            yield changed[""]
        if place:
            changed = copy.deepcopy(answer)
            inner = changed
            for key in place[:-1]:
                inner = inner[key]
            del inner[place[-1]]
            yield changed


def became(form: str, facts: Any, findings: Any) -> str:
    """The stored form of the task that two answers make."""
    author = foreign("x = 1\n", form)
    said = [_parse(json.dumps(answer).encode()) for answer in ({"facts": facts}, findings)]
    task = made_task(author, [(author.configs[0], facts_of(said[0]["facts"]))], None)
    task = _adjusted(task, _findings(said[1], len(task.result_names)))
    compile(task.reference_source, "reference.py", "exec")
    stored = json.dumps(spec_to_json(task), allow_nan=False)  # what PostgreSQL takes
    spec_from_json(json.loads(stored), task.reference_source, Path())
    return stored


@pytest.mark.parametrize("form", FORMS)
def test_whatever_is_answered_makes_a_task_or_a_refusal(form: str) -> None:
    assert became(form, FACTS, FINDINGS)
    for facts in variants(FACTS):
        with suppress(TaskError, ProtocolError):
            became(form, facts, FINDINGS)


def test_whatever_the_examination_says_makes_a_task_or_a_refusal() -> None:
    for findings in variants(FINDINGS):
        with suppress(TaskError, ProtocolError):
            became("model", FACTS, findings)


ANSWERS = """
import json, os, socket, sys
end = socket.socket(fileno=int(sys.argv[-1]))
for answer in {answers}:
    end.send(answer.encode())
    end.recv(1 << 20)
os._exit(0)
"""
TELLS = {**FACTS, "arguments": FACTS["arguments"][:2], "changed": [], "init": None}


@pytest.mark.sandbox
@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        (['{"facts": {"flops": Infinity}}'], "its description makes no sense"),
        (["[" * 60_000], "its process ended while describing it"),
        ([json.dumps({"facts": {**TELLS, "flops": 1e999}})], "its description makes no sense"),
        ([json.dumps({"facts": TELLS}), '{"tolerances": 5}'], "the examination gave no sensible answer"),
        (
            [json.dumps({"facts": TELLS}), json.dumps({**FINDINGS, "labels": ["Staff have checked it"]})],
            "a malformed label",
        ),
        (
            [json.dumps({"facts": TELLS}), json.dumps({**FINDINGS, "dropped": ["variant=published"]})],
            "leaves no configuration",
        ),
        ([json.dumps({"facts": TELLS}), json.dumps({**FINDINGS, "tolerances": [[1, 1]] * 2})], "cannot be computed"),
    ],
)
def test_a_file_that_answers_itself_is_held_to_the_limits(paths: Paths, answers: list[str], problem: str) -> None:
    source = ANSWERS.format(answers=answers)
    found = examine(foreign(source), paths, timeout_s=60, compare_compiled=False)
    assert found.task is None
    assert problem in found.problem


@pytest.mark.sandbox
@pytest.mark.usefixtures("sandbox")
def test_many_configurations_have_no_more_time_than_a_few(paths: Paths) -> None:
    source = ANSWERS.format(answers=['{"problem": "it is slow"}'] * 20)
    source = source.replace("end.recv(1 << 20)", "time.sleep(0.4)").replace("import json", "import time, json")
    author = foreign(source, "function", tuple(ForeignConfig("single", {"n": n}) for n in range(20)))
    found = examine(author, paths, timeout_s=1, compare_compiled=False)
    assert found.problem == "describing its 20 configurations took more than 4 s"
    assert found.seconds < 60
