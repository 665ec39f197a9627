"""Judging without a site: problems of other suites as their authors publish them, one file or a folder of solutions.

Problems are examined as by an import, and solutions are judged by the harness. This package adds the assignment of
files to problems, the results that are kept between runs, and the figures over all solutions. Does NOT import Django,
and ranks nothing.
"""

from .evaporation import WHY_TEXTS, Evaporation, Why
from .outcomes import NOT_JUDGED, Loss, Outcome, Summary, loss, summary
from .problems import demand_device, examined, language_for, paths_outside, source_for, task_at
from .running import EvalSettings, evaluate
from .solutions import Pairing, Solution, paired

__all__ = [
    "NOT_JUDGED",
    "WHY_TEXTS",
    "EvalSettings",
    "Evaporation",
    "Loss",
    "Outcome",
    "Pairing",
    "Solution",
    "Summary",
    "Why",
    "demand_device",
    "evaluate",
    "examined",
    "language_for",
    "loss",
    "paired",
    "paths_outside",
    "source_for",
    "summary",
    "task_at",
]
