"""A run with all its candidates, for one page: as it is now, or as it was at an earlier event.

The present comes from the tables, in a fixed number of queries; the past, and a recorded run, are folded from the log.
Does NOT load the long columns of candidates (`whole` does, for the few that are shown).
"""

from collections.abc import Sequence
from functools import cached_property

from ..models import Candidate, Opinion, Run
from ..states import IN_FLIGHT, CandidateState
from . import kept, log
from .projection import Picture

LONG = ("thought", "configs", "resources", "drop_text", "verdict_text", "probabilities", "params", "hint")


class Scene:
    """The data of the parts of a page. `at` is None for the current state."""

    def __init__(self, run: Run, rows: Sequence[Candidate], at: int | None = None) -> None:
        self.run, self.rows, self.at = run, list(rows), at

    @cached_property
    def by_key(self) -> dict[str, Candidate]:
        return {row.key: row for row in self.rows}

    @cached_property
    def judged(self) -> list[Candidate]:
        """The judged candidates in the order of their judgings."""
        return sorted((row for row in self.rows if row.judged_as), key=lambda row: row.judged_as or 0)

    @cached_property
    def improvements(self) -> list[Candidate]:
        return [row for row in self.judged if row.improved and row.score is not None]

    @property
    def in_flight(self) -> list[Candidate]:
        return [row for row in self.rows if row.state in IN_FLIGHT]

    @property
    def best(self) -> Candidate | None:
        return self.by_key.get(self.run.best_key)

    @cached_property
    def path_to_best(self) -> set[str]:
        """The best candidate and all its ancestors."""
        found: set[str] = set()
        wanted = [self.run.best_key] if self.best else []
        while wanted:
            key = wanted.pop()
            if key in self.by_key and key not in found:
                found.add(key)
                wanted.extend(self.by_key[key].parents)
        return found


def present(run: Run) -> Scene:
    if run.kept:
        return Scene(run, list(kept.picture_of(run).candidates.values()))
    return Scene(run, list(Candidate.objects.filter(run=run).defer(*LONG).order_by("position")))


def past(run: Run, at: int) -> Scene:
    """As of event `at`."""
    if run.kept:
        told = kept.picture_of(run, at)
        return Scene(told.run, list(told.candidates.values()), told.run.last_seq)
    before = Run(
        pk=run.pk,
        code=run.code,
        task_version=run.task_version,
        device_kind=run.device_kind,
        method=run.method,
        owner=run.owner,
        language=run.language,
        proposer=run.proposer,
        seed=run.seed,
        config=run.config,
        created=run.created,
    )
    picture = Picture(before)
    for event in log.read(run.pk, until=at):
        picture.apply(event)
    return Scene(before, list(picture.candidates.values()), min(at, before.last_seq))


def whole(rows: Sequence[Candidate]) -> list[Candidate]:
    """The same rows with their long columns."""
    stored = Candidate.objects.in_bulk([row.pk for row in rows if row.pk])
    return [stored.get(row.pk, row) for row in rows]


def opinions_of(row: Candidate) -> list[Opinion]:
    if row.run.kept:
        return kept.picture_of(row.run).opinions.get(row.key, [])
    return list(Opinion.objects.filter(candidate=row).order_by("pk"))


def outcome_counts(scene: Scene) -> list[tuple[str, int]]:
    """How candidates ended that were not accepted, by verdict or by why they were not judged; the frequent first."""
    counts: dict[str, int] = {}
    for row in scene.rows:
        if row.state == CandidateState.DROPPED:
            counts[row.drop_reason] = counts.get(row.drop_reason, 0) + 1
        elif row.state == CandidateState.DONE and row.score is None:
            counts[row.verdict] = counts.get(row.verdict, 0) + 1
    return sorted(counts.items(), key=lambda item: -item[1])
