"""Judges the plain and the default setting of every C++ template once on every task that it serves, and prints a table.

`python -m lab.sweeps.judge_templates [TASK ...] [--data FOLDER]`. A quick look: few steps, without torch.compile. The
exit code is 0 if every verdict is PASS.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from agents.evolve.templates import Genome, Template, find_template
from agents.evolve.templates.cpp import TEMPLATES
from benchmarks.harness import Paths, Report, Source, Verdict, default_rules, default_suites, find_task, judge


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--setting", choices=("naive", "default"), help="only this one")
    parser.add_argument("--data", type=Path, default=Path("var"), help="where builds and baselines are kept")
    options = parser.parse_args()
    paths, all_pass = Paths(options.data), True
    print("| task | setting | verdict | score | kernel µs per configuration |\n|---|---|---|---|---|")
    for name in options.tasks or sorted(task for template in TEMPLATES for task in template.tasks):
        for label, template, genome in settings(name):
            if options.setting not in (None, label):
                continue
            report = judged(name, template, genome, paths)
            all_pass = all_pass and report.verdict is Verdict.PASS
            print(row(name, label, report), flush=True)
    return 0 if all_pass else 1


def settings(task: str) -> Iterator[tuple[str, Template, Genome]]:
    template = find_template(task, "cpp")
    if template is None:
        raise SystemExit(f"no C++ template serves {task}")
    yield "naive", template, template.naive
    yield "default", template, template.default


def judged(name: str, template: Template, genome: Genome, paths: Paths) -> Report:
    task = find_task(default_suites(), name)
    return judge(Source(template.render(genome, task), "cpp"), task, default_rules(), paths, quick=True)


def row(name: str, label: str, report: Report) -> str:
    score = f"{report.score.speedup:.2f}" if report.score else report.reason
    times = " ".join(f"{config.kernel_us:.0f}" for config in report.configs if config.kernel_us is not None)
    return f"| `{name}` | {label} | {report.verdict.value} | {score} | {times} |"


if __name__ == "__main__":
    sys.exit(main())
