"""A task whose labels change keeps its version; its boards follow at once, for everybody alike."""

from dataclasses import replace

from benchmarks.boards.selectors import board_rows
from benchmarks.boards.standings import standings_update
from benchmarks.catalogue.folders import spec_of, task_sync
from benchmarks.judgings.recording import boards_of_task
from benchmarks.models import Evaluation, Standing, Submission, Task
from benchmarks.states import Visibility

from . import factories
from .test_bounds import enter, key, replayed
from .test_random_histories import rows, written_anew


def flag(*labels: str) -> None:
    """As a start of the site or an import does."""
    assert task_sync(replace(spec_of(factories.version()), labels=labels)) is None, "no new version"


def test_a_task_that_is_flagged_ranks_nothing() -> None:
    enter("olga", replayed(2.0))
    enter("eve", replayed(1.5))
    flag("small-output")
    assert list(board_rows(key())) == []
    enter("olga", replayed(2.0), "int x;")
    assert rows() == {} == written_anew([factories.gpu_kind()])


def test_rows_come_back_when_a_task_is_flagged_no_longer() -> None:
    flag("small-output")
    enter("olga", replayed(2.0), "int x;")
    flag()
    enter("eve", replayed(1.5), "int y;")
    found = [(row.evaluation.submission.owner.username, row.rank) for row in Standing.objects.order_by("rank")]
    assert found == [("olga", 1), ("eve", 2)]


def test_a_remark_changes_no_row() -> None:
    enter("olga", replayed(2.0))
    before = Standing.objects.get().pk
    flag("one-shape")
    assert Standing.objects.get().pk == before


def test_a_task_that_is_flagged_while_a_report_waits_for_its_boards_gets_no_row() -> None:
    """The report has read the task before. By then its boards were written anew, and nobody looks at them again."""
    item = factories.judged(factories.passing(2.0), visibility=Visibility.UNLISTED)
    Submission.objects.update(visibility=Visibility.PUBLIC)
    item = Evaluation.objects.select_related("task_version__task").get(pk=item.pk)
    Task.objects.update(labels=["small-output"])
    boards_of_task(Task.objects.get(pk=item.task_version.task_id))
    standings_update(item)
    assert not Standing.objects.exists()
