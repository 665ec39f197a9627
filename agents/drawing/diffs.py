"""The differences between two genomes, setting by setting.

Does NOT compare sources: that is `benchmarks.submissions.diffs`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class GeneChange:
    """A setting that differs; None where one side has none."""

    name: str
    before: Any
    after: Any


def gene_diff(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[GeneChange]:
    old, new = before or {}, after or {}
    names = dict.fromkeys([*old, *new])
    return [GeneChange(name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)]
