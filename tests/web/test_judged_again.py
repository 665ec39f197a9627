"""What pages choose as the best once an entry has been judged again by a later revision of the timing."""

from typing import Any

import pytest

from benchmarks import services
from benchmarks.contests import finals
from benchmarks.harness import Report
from benchmarks.judgings import moves
from benchmarks.models import Evaluation
from benchmarks.requests import lists
from benchmarks.submissions.selectors import comparable, side_for
from tests.asking import examined, posted, version_of

from . import contests, factories
from .test_bounds import enter, found, replayed
from .test_timing_revisions import SAME, by, earlier


def again(entry: Evaluation, report: Report) -> None:
    board = {name: getattr(entry, name) for name in ("device_kind", "ruleset")}
    services.evaluation_create(entry.submission, version=entry.task_version, reason="rejudge", priority=20, **board)
    moves.record_report(factories.claimed_for_judging(factories.GPU), report)


def test_the_compare_page_shows_what_counts() -> None:
    entry = enter("olga", earlier(replayed(1.80)), SAME)
    again(entry, replayed(1.60))
    shown = side_for(entry.submission.owner, entry.submission.code)[1]
    assert shown.score == pytest.approx(1.60)


@pytest.mark.parametrize("avoids", [(1.98, 1.45, 2.00, "bounded"), (1.98, 1.90, 2.00, "audited")])
def test_a_replayed_judging_counts_until_there_is_a_later_one(avoids: Any) -> None:
    entry = enter("olga", earlier(replayed(1.50)), SAME)
    again(entry, found(*avoids))
    assert side_for(entry.submission.owner, entry.submission.code)[1] == entry == by("olga").evaluation


def test_the_compare_page_shows_the_better_of_several_boards() -> None:
    entry = enter("olga", replayed(1.50), SAME)
    on_another = services.evaluation_create(entry.submission)
    Evaluation.objects.filter(pk=on_another.pk).update(
        state="done", verdict="PASS", reason_text="Accepted.", finished=entry.finished, score=3, score_lo=2, score_hi=4
    )
    assert side_for(entry.submission.owner, entry.submission.code)[1] == on_another


def test_the_compare_page_shows_the_newest_if_none_has_a_score() -> None:
    entry = factories.judged(factories.failing(), owner=factories.user("olga"))
    newest = services.evaluation_create(entry.submission)
    assert side_for(entry.submission.owner, entry.submission.code)[1] == newest


@pytest.mark.parametrize("submitted_again", [True, False])
def test_your_best_is_what_stands(*, submitted_again: bool) -> None:
    enter("record", replayed(5.00))
    first = enter("olga", earlier(replayed(1.80)), "int a;\n")
    if submitted_again:
        enter("olga", replayed(1.50), "int a; // again\n")
    else:
        again(first, replayed(1.50))
    best = enter("olga", replayed(1.70), "// b\n")
    now = enter("olga", replayed(1.20), "// c\n")
    assert by("olga").evaluation == best
    offered = {item.title: item.code for item in comparable(now.submission.owner, now)}
    assert offered["your best"] == best.submission.code


def test_contests_compare_what_counts() -> None:
    olga = factories.user("olga")
    contest = contests.running_with(olga, device_kinds=[factories.gpu_kind()])
    first = enter("olga", earlier(replayed(1.80)), "// a\n")
    best = enter("olga", replayed(1.70), "// b\n")
    again(first, replayed(1.50))
    assert [leader.evaluation for leader in finals.leaders(contest)] == [best]
    assert [round(row.score or 0.0, 2) for *_, row in finals.best_entries(contest, 2)] == [1.70, 1.50]


def test_the_answer_of_a_request_is_what_counts() -> None:
    request = examined(posted(factories.user("asks")), labels=("small-output",))
    olga, version = factories.user("olga"), version_of(request)
    first = factories.judged_on_gpu(earlier(replayed(1.80)), owner=olga, version=version, text="// a\n")
    best = factories.judged_on_gpu(replayed(1.70), owner=olga, version=version, text="// b\n")
    again(first, replayed(1.50))
    assert [answer.evaluation for answer in lists.answers_of(request)] == [best]
