"""Parses the report of a submission's process on its runs.

The report is hostile: one unexpected line invalidates all of it.

A report is, for each run in the order of the plan, `begin`, then findings, then `done`. Each line has a fixed number of
fields between tabs. Not covered: the verdict that follows from the records (`checking.py`).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..harness import clean_text

_LINES_MAX, _TEXT_CHARS, _KIND_CHARS = 2000, 700, 60
_NUMBER = re.compile(r"-?\d{1,20}")


@dataclass(frozen=True)
class ReportedFinding:
    """One `finding` line. `run` is None before the first run; sites are places in the binary; -1 stands for none."""

    run: int | None
    kind: str
    text: str
    place: str
    kernel: str
    launch_line: int
    site: int
    other_site: int
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    other_block: int
    other_thread: int
    line: int


@dataclass(frozen=True)
class ReportedProblem:
    """Why a run gave no results: the host code raised, or what it returned is not what the task wants."""

    run: int | None
    kind: str  # "raised" or "wrong result"
    text: str


@dataclass
class SubmissionReport:
    """All records of a report. A malformed one holds nothing else."""

    findings: list[ReportedFinding | ReportedProblem] = field(default_factory=list)
    abstention: tuple[str, int | None] | None = None  # text and line
    returned: list[int] = field(default_factory=list)  # the runs that began, ended and gave results to compare
    malformed: bool = False


class _Malformed(Exception):
    """A line that the emulator's own code never writes there."""


def submission_report(data: bytes, planned: Sequence[int]) -> SubmissionReport:
    """The records of `data`, where `planned` are the numbers of the runs in their order."""
    try:
        return _Reader(planned).read(data)
    except _Malformed:
        return SubmissionReport(malformed=True)


class _Reader:
    """Goes through the lines once."""

    def __init__(self, planned: Sequence[int]) -> None:
        self._waiting = list(reversed(planned))
        self._run: int | None = None  # the last one that began
        self._open = self._spoilt = False
        self._found = SubmissionReport()

    def read(self, data: bytes) -> SubmissionReport:
        lines = data.decode(errors="replace").split("\n", _LINES_MAX)
        if lines.pop():  # the last line has no end, or there are too many
            raise _Malformed
        for line in lines:
            word, *fields = line.split("\t", max(_FIELDS.values()) + 1)
            if self._found.abstention is not None or _FIELDS.get(word) != len(fields):
                raise _Malformed
            _READ[word](self, fields)
        return self._found

    def begin(self, fields: list[str]) -> None:
        if self._open or not self._waiting or fields[0] != str(self._waiting[-1]):
            raise _Malformed
        self._run, self._open, self._spoilt = self._waiting.pop(), True, False

    def done(self, fields: list[str]) -> None:
        if not self._open or self._run is None or fields[0] != str(self._run):
            raise _Malformed
        self._open = False
        if not self._spoilt:
            self._found.returned.append(self._run)

    def raised(self, fields: list[str]) -> None:
        self._problem("raised", fields[0])

    def result(self, fields: list[str]) -> None:
        self._problem("wrong result", fields[0])

    def finding(self, fields: list[str]) -> None:
        self._may_speak()
        kind, text, place, kernel, *rest = fields
        numbers = [_number(part) for part in rest]
        self._found.findings.append(
            ReportedFinding(
                run=self._run,
                kind=_clean(kind)[:_KIND_CHARS],
                text=_clean(text),
                place=_clean(place),
                kernel=_clean(kernel),
                launch_line=numbers[0],
                site=numbers[1],
                other_site=numbers[2],
                block=(numbers[3], numbers[4], numbers[5]),
                thread=(numbers[6], numbers[7], numbers[8]),
                other_block=numbers[9],
                other_thread=numbers[10],
                line=numbers[11],
            )
        )

    def abstain(self, fields: list[str]) -> None:
        line = _number(fields[0])
        self._found.abstention = (_clean(fields[1]), line if line > 0 else None)

    def _problem(self, kind: str, text: str) -> None:
        self._may_speak()
        if self._spoilt:
            raise _Malformed
        self._spoilt = True
        self._found.findings.append(ReportedProblem(self._run, kind, _clean(text)))

    def _may_speak(self) -> None:
        """Of a run while it is open, or before the first one."""
        if not self._open and self._run is not None:
            raise _Malformed


_FIELDS = {"begin": 1, "done": 1, "raised": 1, "result": 1, "finding": 16, "abstain": 2}
_READ: dict[str, Callable[[_Reader, list[str]], None]] = {
    "begin": _Reader.begin,
    "done": _Reader.done,
    "raised": _Reader.raised,
    "result": _Reader.result,
    "finding": _Reader.finding,
    "abstain": _Reader.abstain,
}


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise _Malformed
    return int(text)


def _clean(text: str) -> str:
    return clean_text(text[:_TEXT_CHARS])
