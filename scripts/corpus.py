"""The cases of tests/corpus: a kernel and its required verdicts, read from `case.toml`.

A case is a folder `TASK/NAME` with one `kernel.*` and a `case.toml`. Lines `#include "parts/FILE"` and
`from parts.NAME import *` are replaced by that file of `tests/corpus/parts`, so that a kernel stands alone when it is
judged. Not covered: judging (`tests/harness/test_corpus.py`, `scripts/redteam.py`, `lab/gpu/corpus.py`).
"""

import re
import tomllib
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from benchmarks.harness import Report, Rules, Source, Verdict

CORPUS = Path(__file__).parents[1] / "tests" / "corpus"
KINDS = ("attack", "failure", "honest")
CLASSES = {  # of attacks
    "E01": "reuse of memory",
    "E02": "search for the reference",
    "E04": "constant result",
    "E07": "wrong shape",
    "E08": "NaN and infinity",
    "E09": "lower precision",
    "E10": "partial work",
    "E11": "skipped tiles",
    "E12": "changed inputs",
    "E13": "input as result",
    "E14": "guessed seed",
    "E17": "cache by address",
    "E18": "cache by shape or fingerprint",
    "E19": "cached weights",
    "E20": "stale CUDA graph",
    "E21": "work in some calls only",
    "E22": "leftovers of others",
    "E23": "right while checked",
    "E24": "detects the mode",
    "E26": "public shapes only",
    "E28": "other stream",
    "E29": "deferred work",
    "E30": "lazy tensor",
    "E31": "lying tensor",
    "E32": "patched timer in Python",
    "E33": "patched timer, native",
    "E34": "moved events",
    "E35": "work on the host",
    "E36": "work elsewhere",
    "E37": "steered L2 cache",
    "E39": "swallowed error",
    "E40": "clocks and power",
    "E41": "sabotaged baseline",
    "E45": "work before the call",
    "E46": "forged messages",
    "E47": "hostile data",
    "E49": "work at load",
    "E50": "patched shell",
    "E51": "undone freeze",
    "E53": "bypassed shell",
    "E55": "late result",
    "E56": "exhausted machine",
    "E57": "death at an odd moment",
    "E58": "hostile build",
    "E59": "synthetic inputs",
}
_PART = re.compile(r'^#include "parts/([\w.]+)"$|^from parts\.(\w+) import \*$', re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """One kernel and what must become of it."""

    folder: Path
    task: str
    about: str
    expect: tuple[str, ...]
    language: str = "cpp"
    device: str = "cpu"  # the class: cpu or cuda
    kind: str = ""  # attack, failure or honest
    exploit: str = ""  # of an attack: its class, such as E17
    control: str = ""  # of an attack: the honest case beside it with the same arithmetic
    in_tests: bool = True  # judged by the test suite as well; `make redteam` judges all
    reason_contains: str = ""
    max_speedup: float = float("inf")
    timing: str = ""  # the timing trust that a score must have
    flags: tuple[str, ...] = ()
    judgings: int = 1  # how often in a row
    rules: dict[str, dict[str, Any]] = field(default_factory=dict)  # numbers that replace those of the rule set

    @property
    def name(self) -> str:
        return f"{self.folder.parent.name}/{self.folder.name}"

    @property
    def class_title(self) -> str:
        """Of an attack its class by number and name, of any other case its kind."""
        return f"{self.exploit} {CLASSES[self.exploit]}" if self.exploit else self.kind

    @property
    def kernel(self) -> Path:
        return next(self.folder.glob("kernel.*"))

    def source(self) -> Source:
        text = self.kernel.read_bytes().decode(errors="replace")
        return Source(_PART.sub(lambda found: _part(found[1] or f"{found[2]}.py"), text), self.language)

    def changed(self, rules: Rules) -> Rules:
        return replace(
            rules, **{name: replace(getattr(rules, name), **numbers) for name, numbers in self.rules.items()}
        )

    def objection(self, report: Report) -> str:
        """What in `report` is not as the rules demand; empty if nothing is."""
        if report.verdict not in self.expect:
            return f"{report.verdict} instead of {' or '.join(self.expect)}"
        if self.reason_contains not in report.reason:
            return f"the reason does not contain {self.reason_contains!r}"
        if report.verdict is Verdict.PASS and report.score is not None and report.score.speedup > self.max_speedup:
            return f"a score of {report.score.speedup:.2f}, more than {self.max_speedup:g}"
        if self.timing and report.score is not None and report.score.timing_trust != self.timing:
            return f"its times are {report.score.timing_trust}, not {self.timing}"
        missing = set(self.flags) - {flag.code for flag in report.flags}
        return f"flags are missing: {', '.join(sorted(missing))}" if missing else ""


def read_case(folder: Path) -> Case:
    """The case in `folder`. Raises ValueError for a field that does not exist."""
    data = tomllib.loads((folder / "case.toml").read_text())
    unknown = data.keys() - {item.name for item in fields(Case)}
    if unknown:
        raise ValueError(f"{folder.name}/case.toml has unknown fields: {', '.join(sorted(unknown))}")
    expect = (data["expect"],) if isinstance(data["expect"], str) else tuple(data["expect"])
    return Case(folder, **{**data, "expect": expect, "flags": tuple(data.get("flags", ()))})


def read_cases(device: str) -> list[Case]:
    """Every case for a class of devices, by name."""
    folders = sorted(path.parent for path in CORPUS.glob("*/*/case.toml"))
    return [case for case in map(read_case, folders) if case.device == device]


def _part(name: str) -> str:
    return (CORPUS / "parts" / name).read_text().rstrip("\n")
