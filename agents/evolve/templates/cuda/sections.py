"""CUDA templates whose texts leave out what a genome has no use for.

Lines between `// @only GENE VALUE ...@` and `// @end@` are kept where the gene has one of the values, so that what is
rendered holds no code that it does not run. Not covered: everything else about templates (`base.py`).
"""

import re
from dataclasses import dataclass

from benchmarks.harness import TaskSpec

from ..base import Genome, Template

_SECTION = re.compile(r"^// @only (\w+)((?: \w+)+)@\n(.*?)^// @end@\n", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class SectionedTemplate(Template):
    """A template with sections."""

    def render(self, genome: Genome, task: TaskSpec) -> str:
        def kept(section: re.Match[str]) -> str:
            return section[3] if str(genome[section[1]]) in section[2].split() else ""

        return _SECTION.sub(kept, super().render(genome, task))
