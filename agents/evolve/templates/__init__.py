"""The templates that come with kbench, and which of them serves a task.

Every template is real code in `cpp/` or `cuda/`; `base.py` says what one is. Not covered: choosing genomes (`search/`).
"""

from . import cpp, cuda
from .base import Constraint, Gene, Genome, Space, Template, Value, describe, difference
from .constants import constants_of, template_of_constants

__all__ = [
    "TEMPLATES",
    "Constraint",
    "Gene",
    "Genome",
    "Space",
    "Template",
    "Value",
    "constants_of",
    "describe",
    "difference",
    "find_template",
    "template_of_constants",
]

TEMPLATES: tuple[Template, ...] = (*cpp.TEMPLATES, *cuda.TEMPLATES)
_BY_TASK = {(task, template.language): template for template in TEMPLATES for task in template.tasks}


def find_template(task: str, language: str) -> Template | None:
    """The template for the task called `OP/DIRECTION`, or None where there is none."""
    return _BY_TASK.get((task, language))
