"""A stranger's reference speaks in the process of the baselines: all that it says has one limit of time, and one form.

Not covered: whether what it says is true.
"""

import ast
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.harness import Paths, default_rules, default_suites, find_task
from benchmarks.harness.errors import RefereeError
from benchmarks.harness.gpu.session import GpuSession
from benchmarks.harness.hosts.machine import Cores
from benchmarks.harness.measuring import baselines, session
from benchmarks.harness.measuring.baselines import CpuPreparation
from benchmarks.harness.measuring.contestants import Actor, WholeLimit
from benchmarks.harness.measuring.session import CpuSession
from benchmarks.harness.sandbox.crowd import TreeWork
from benchmarks.harness.source import Watcher
from benchmarks.harness.tasks.spec import TaskSpec

HARNESS = Path(baselines.__file__).parents[1]
TOML = """
op = "doubled"
title = "Doubled"
formula = "y = 2 x"
summary = "For the tests."
family = "test"
[forward]
version = 1
arguments = [{ name = "x", shape = ["n"], draw = "input" }]
results = [{ name = "y", shape = ["n"], tolerance = 1e-5, rms_tolerance = 1e-5 }]
flops = "n"
[forward.cpu.single]
input = [{ n = 64 }]
"""
# says the messages, and the last one again and again; in the process of the baselines alone
REFERENCE = """
import json, sys, time
def forward(x):
    return 2 * x
frame = sys._getframe()
while frame and not (frame.f_globals.get("__name__", "").endswith("child.baseline") and "link" in frame.f_locals):
    frame = frame.f_back
if frame:
    messages = json.loads(MESSAGES)
    while True:
        frame.f_locals["link"].send(**messages[0])
        messages = messages[1:] or messages
        time.sleep(0.2)
"""
LIMIT_S = 4.0


class Talking(Actor):
    """A child of which `says` is all that is heard; the last message comes again and again."""

    def __init__(self, *says: dict[str, Any]) -> None:
        self._says = list(says)
        self._child = cast(
            Any,
            SimpleNamespace(
                work=lambda: TreeWork(0.0, is_ready=False),
                log_tail=lambda _: "",
                wait=lambda _: None,
                kill=lambda: None,
            ),
        )

    def receive(self, timeout_s: float) -> dict[str, Any]:
        time.sleep(min(0.01, timeout_s))
        return self._says.pop(0) if len(self._says) > 1 else self._says[0]

    def kill(self) -> None:
        pass


class PreparedOnce(CpuPreparation):
    """Of one configuration, by children that all talk in the same way."""

    says: tuple[dict[str, Any], ...] = ()

    @contextmanager
    def _child(self, *_: Any, **__: Any) -> Iterator[Actor]:
        try:
            yield Talking(*self.says)
        except TimeoutError as error:
            raise RefereeError("preparing baselines did not answer") from error


def prepared(*says: dict[str, Any], own_time_s: float = 0.5) -> dict[int, str | None]:
    rules, task = default_rules(), find_task(default_suites(), "mnist_linear_relu/forward")
    rules = replace(rules, score=replace(rules.score, baseline_compile_timeout_s=own_time_s))
    how = {"rules": rules, "watcher": Watcher(), "cores": Cores((0,), (1,))}
    made = PreparedOnce(task=task, configs=task.configs_for("cpu")[:2], **how)  # type: ignore[arg-type]
    made.says = says
    made._compile(Path(), Path())
    return made.problems


def ends_in_time(run: Callable[[], object], most_s: float) -> BaseException | None:
    """What it raises. Fails if it goes on for longer."""
    raised: list[BaseException | None] = []

    def tried() -> None:
        try:
            run()
            raised.append(None)
        except Exception as error:  # noqa: BLE001 - any is looked at
            raised.append(error)

    thread = threading.Thread(target=tried, daemon=True)
    thread.start()
    thread.join(most_s)
    assert raised, f"it goes on after {most_s:g} s"
    return raised[0]


@pytest.fixture
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_OWN_TIME_S", "_BETWEEN_S"):
        monkeypatch.setattr(baselines, name, 0.5)


Said = dict[str, Any]
START: Said = {"started": True}
OTHER: Said = {"x": 1}
FIRST: Said = {"compiling": 0}
DONE: Said = {"compiled": 0, "problem": None}
WHOLE: Said = {"prepared": True}


@pytest.mark.parametrize(
    "says",
    [
        pytest.param([OTHER], id="nothing of the form"),
        pytest.param([START, FIRST, DONE, OTHER], id="nothing of the form, later"),
        pytest.param([START, FIRST, DONE, FIRST], id="one configuration again and again"),
        pytest.param([START, {"compiling": 7}], id="a configuration that there is not"),
        pytest.param([START, {"compiling": "nan"}], id="no number"),
        pytest.param([START, {"compiling": [1e999]}], id="a list"),
        pytest.param([START, WHOLE], id="ready before anything is compiled"),
        pytest.param([START, FIRST, WHOLE], id="ready in the middle"),
        pytest.param([START, FIRST, {"compiled": 1, "problem": None}], id="another one"),
        pytest.param([START, FIRST, {"compiled": 0}], id="no word of a problem"),
        pytest.param([START, FIRST, {"compiled": 0, "problem": {"a": 1}}], id="a problem that is no text"),
        pytest.param([START, FIRST, {"compiled": 0, "problem": ""}], id="a problem without a word"),
    ],
)
@pytest.mark.usefixtures("_short")
def test_a_baseline_that_says_something_else_is_an_error_of_the_task_and_soon(says: list[dict[str, Any]]) -> None:
    assert isinstance(ends_in_time(lambda: prepared(*says), 10.0), RefereeError)


@pytest.mark.usefixtures("_short")
def test_what_a_baseline_says_in_between_is_passed_over() -> None:
    second: list[Said] = [{"compiling": 1}, {"compiled": 1, "problem": "ValueError: no"}]
    assert prepared(START, FIRST, OTHER, DONE, OTHER, *second, OTHER, WHOLE) == {0: None, 1: "ValueError: no"}


@pytest.mark.usefixtures("_short")
def test_a_configuration_that_chats_is_given_up_as_a_silent_one_is() -> None:
    """And the process that goes on with the next one must not begin with it again."""
    error = ends_in_time(lambda: prepared(START, FIRST, OTHER), 10.0)
    assert isinstance(error, RefereeError)
    assert "something else" in error.reason


@pytest.mark.parametrize(("word", "kind"), [("serving", CpuSession), ("loaded", GpuSession), ("reserved", GpuSession)])
def test_a_judging_does_not_wait_for_a_baseline_for_ever(
    monkeypatch: pytest.MonkeyPatch, word: str, kind: type[CpuSession]
) -> None:
    """While it holds the lock of the device, beside which nobody builds anything."""
    monkeypatch.setattr(session, "REFEREE_TIMEOUT_S", 0.5)
    own: Any = object.__new__(kind)
    assert isinstance(ends_in_time(lambda: own._await_baseline(Talking(OTHER), word), 10.0), RefereeError)


def test_nobody_hears_messages_in_a_loop_without_a_limit_of_all_of_them() -> None:
    loops = [
        (path.name, node.lineno, ast.unparse(node.test))
        for path in HARNESS.rglob("*.py")
        if "child" not in path.relative_to(HARNESS).parts
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.While) and ".receive(" in ast.unparse(node)
    ]
    assert [loop for loop in loops if "monotonic" not in loop[2] and "is_over" not in loop[2]] == []
    assert len(loops) > 2


@pytest.fixture
def task(tmp_path: Path) -> Callable[[str], TaskSpec]:
    def made(messages: str) -> TaskSpec:
        (tmp_path / "suite" / "doubled").mkdir(parents=True)
        (tmp_path / "suite" / "doubled" / "task.toml").write_text(TOML)
        reference = REFERENCE.replace("MESSAGES", repr(messages))
        (tmp_path / "suite" / "doubled" / "reference.py").write_text(reference)
        return find_task(tmp_path, "suite/doubled/forward")

    return made


@pytest.mark.sandbox
@pytest.mark.parametrize(("messages", "ends_as"), [([OTHER], RefereeError), ([FIRST, OTHER], type(None))])
def test_preparing_the_baselines_of_a_reference_that_speaks_itself_ends(
    tmp_path: Path,
    task: Callable[[str], TaskSpec],
    monkeypatch: pytest.MonkeyPatch,
    messages: list[dict[str, Any]],
    ends_as: type[object],
) -> None:
    """A configuration that takes too long has no torch.compile, as ever."""
    monkeypatch.setattr(baselines, "_OWN_TIME_S", LIMIT_S)
    monkeypatch.setattr(baselines, "_BETWEEN_S", LIMIT_S)
    monkeypatch.setattr(CpuPreparation, "begin", lambda _, __, cache: cache.mkdir())
    rules, over = default_rules(), threading.Event()
    rules = replace(rules, score=replace(rules.score, baseline_compile_timeout_s=LIMIT_S))
    spec = task(json.dumps(messages))
    preparation = CpuPreparation(
        task=spec,
        configs=spec.configs_for("cpu"),
        rules=rules,
        watcher=Watcher(cancelled=over.is_set),
        cores=Cores((0,), (1,)),
    )
    try:
        error = ends_in_time(lambda: preparation.compiled(Paths(tmp_path / "data")), 12 * LIMIT_S)
    finally:
        over.set()
    assert type(error) is ends_as, error


def test_who_waits_for_a_turn_keeps_the_patience_of_who_waits_for_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that is over by the clock, but not for who had no processor, is not over after a wait for the GPU."""
    now_s = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    limit = WholeLimit(lambda: TreeWork(0.0, is_ready=True), 100)
    now_s[0] = 150.0
    assert not limit.is_over()
    with limit.interrupted():
        now_s[0] = 10_000.0
    assert not limit.is_over()
    now_s[0] += 249.0
    assert not limit.is_over()
    now_s[0] += 2.0
    assert limit.is_over()
