"""Every verdict and every remark says what to try next, and what it says fits what was seen."""

import ast
from functools import cache
from pathlib import Path

import pytest

from benchmarks import harness
from benchmarks.harness import DEVICE_STUCK, Verdict
from benchmarks.judgings import advice
from benchmarks.models import ConfigResult, Evaluation

APP = Path(advice.__file__).parents[1]
MAKERS = {"Flag", "_remark", "_Remark"}


@cache
def codes():
    """The codes of all remarks and gates that the sources of the app make."""
    found = {DEVICE_STUCK}
    texts = (path.read_text() for path in APP.rglob("*.py"))
    for text in (text for text in texts if any(f"{maker}(" in text for maker in MAKERS)):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MAKERS and node.args:
                first = node.args[0]
                found |= {first.value} if isinstance(first, ast.Constant) else set()
    return found


def config(key="n=1", group="single", **columns):
    return ConfigResult(key=key, group=group, **columns)


def steps(verdict, configs=(), **columns):
    return advice.next_steps(Evaluation(verdict=verdict, **columns), list(configs))


def test_the_sources_make_remarks():
    assert {"library-call", "gate-exact", "no-kernel", "late-ready"} <= codes()


@pytest.mark.parametrize("code", sorted(codes()))
def test_every_remark_says_what_to_do_about_it(code):
    assert advice.on_remark(code)


def test_no_advice_is_about_a_remark_that_nobody_makes():
    assert set(advice.FLAG_ADVICE) == codes()


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_verdict_says_what_to_try_next(verdict):
    assert verdict in advice.VERDICT_ADVICE
    assert steps(verdict)[0] == harness.VERDICT_TEXTS[verdict].next_step
    if verdict is not Verdict.PASS and verdict is not Verdict.INCORRECT_VALUE:
        assert len(steps(verdict)) > 1


def test_without_a_verdict_there_is_nothing_to_try():
    assert steps("") == []


@pytest.mark.parametrize(
    ("configs", "words"),
    [
        ([config(correct=False), config(correct=False, group="hidden")], "No configuration is correct"),
        ([config(correct=True), config(correct=False, group="hidden")], "only hidden ones fail"),
        ([config(correct=True), config("n=7", correct=False)], "compare n=7 with those"),
        ([config(correct=True), config(correct=False, max_rel_error=0.002)], "looks like rounding"),
        ([config(correct=False, failure="result 0 is nan at (0, 1)")], "A result is NaN"),
    ],
)
def test_wrong_values_are_read(configs, words):
    assert any(words in text for text in steps("INCORRECT_VALUE", configs))


def test_a_large_deviation_is_not_called_rounding():
    texts = steps("INCORRECT_VALUE", [config(correct=False, max_rel_error=0.5)])
    assert not any("rounding" in text for text in texts)


def test_an_accepted_kernel_hears_where_it_is_slow_with_the_baseline():
    texts = steps("PASS", [config(correct=True, speedup=2.0), config("n=9", correct=True, speedup=0.8)])
    assert any("n=9 (0.80× the stronger of eager and torch.compile)" in text for text in texts)


def test_an_accepted_kernel_hears_that_little_is_left():
    near = [config(correct=True, speedup=2.0, roofline_fraction=0.9)]
    assert any("little is left" in text for text in steps("PASS", near))
    assert not any("little is left" in text for text in steps("PASS", [*near, config(roofline_fraction=0.3)]))


def test_a_timeout_of_the_compiler_is_told_from_one_of_the_kernel():
    report = {"stages": [{"name": "static"}, {"name": "compile"}]}
    assert any("compiler" in text for text in steps("TIMEOUT", report=report))
    assert not any("compiler" in text for text in steps("TIMEOUT", report={"stages": [{"name": "verify"}]}))
