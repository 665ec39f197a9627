"""Under what conditions a score was measured: which revision of the judge's timing, and which machine and libraries.

A revision is raised when the judge gives the same kernel another score. Not covered: what follows for a leaderboard.
"""

from collections.abc import Mapping
from typing import Any

# On GPUs: 1 since an empty call, whose time is subtracted, is measured before the submission is loaded (2026-11-29).
_REVISIONS = {"cuda": 1}
_MACHINE = (("gpu",), ("driver",), ("torch",), ("nvcc", "compiler"), ("cpu",))  # of each the first that is known


def timing_revision(device_class: str) -> int:
    """The revision that judges have now, 0 until the timing changes first. A report that names none has revision 0."""
    return _REVISIONS.get(device_class, 0)


def conditions_of(environment: Mapping[str, Any]) -> str:
    """What two judgings on GPUs must share for their scores to agree; empty if a part of it is not known.

    Machine, driver, torch and compiler, which is not nvcc for a Python submission.
    """
    known = [str(next(filter(None, map(environment.get, names)), "")) for names in _MACHINE]
    return ", ".join(known)[:200] if all(known) else ""
