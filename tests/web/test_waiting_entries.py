"""Below a new leaderboard: entries of the one before that wait for being judged again."""

from dataclasses import replace

from django.test import Client

from benchmarks.catalogue.folders import spec_of, task_sync
from benchmarks.models import DeviceKind
from benchmarks.moderation import review

from . import factories
from .test_bounds import enter, key, replayed
from .test_connected import wrong
from .test_timing_revisions import SAME, by


def renewed() -> None:
    """The task gets a second version, as by a changed reference or tolerance."""
    spec = spec_of(factories.version())
    assert task_sync(replace(spec, reference_source=spec.reference_source + "\n# changed\n")) == "renewed"


def test_what_is_under_review_does_not_wait() -> None:
    honest = enter("olga", replayed(1.8))
    enter("eve", wrong(), SAME)
    enter("eve", replayed(90.0), SAME)
    assert by("eve").under_review
    renewed()
    waiting = review.awaiting_on(key())
    assert ([row.evaluation for row in waiting.rows], waiting.count) == ([honest], 1)


def test_the_page_of_a_new_board_counts_all_and_shows_the_first(visitor: Client) -> None:
    factories.many_entries(review.PAGE_ROWS + 70)
    renewed()
    kind = DeviceKind.objects.get(standings__rank=1)
    html = visitor.get(f"/leaderboards/robust-kbench/mnist_linear_relu/forward/{kind.slug}/").content.decode()
    assert html.count('<th scope="row">') < review.PAGE_ROWS + 20
    assert f"{review.PAGE_ROWS + 70} entries waiting" in html
    assert f"The first {review.PAGE_ROWS} are shown." in html
