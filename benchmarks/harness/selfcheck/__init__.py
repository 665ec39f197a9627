"""Proves the machine before it is trusted: a right and a wrong kernel must get their verdicts.

A worker runs this at its start and after an internal error, and takes no work if it fails. The kernels are for
mnist_linear_relu/forward and lie beside this file. Not covered: how fast or how quiet the machine is.
"""

from dataclasses import replace
from pathlib import Path

from ..errors import SupervisorError
from ..judge import judge
from ..report import Verdict
from ..rules import RuleSet
from ..source import Paths, Source
from ..spec import find_task

_FOLDER = Path(__file__).parent
_EXPECTED = {"right.cpp": Verdict.PASS, "wrong.cpp": Verdict.INCORRECT_VALUE}


def self_test(rules: RuleSet, paths: Paths) -> None:
    """Raises SupervisorError if a verdict is not the expected one."""
    task = find_task(_FOLDER.parents[1] / "suites", "mnist_linear_relu/forward")
    short = replace(rules, time=replace(rules.time, steps_per_config=3, min_steps_per_config=3))
    for name, expected in _EXPECTED.items():
        report = judge(Source((_FOLDER / name).read_text(), "cpp"), task, short, paths, quick=True)
        if report.verdict is not expected:
            raise SupervisorError(f"the self-test got {report.verdict} for {name}, not {expected}: {report.reason}")
