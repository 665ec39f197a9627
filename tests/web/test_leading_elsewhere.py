"""Where there is no board, in running contests and for requests whose task is flagged, what boards count leads too."""

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchmarks.contests import finals, results
from benchmarks.models import Contest, Evaluation, KernelRequest
from benchmarks.moderation import decisions
from benchmarks.requests import lists
from benchmarks.states import ActionKind

from . import contests, factories
from .test_bounds import enter, replayed
from .test_connected import wrong
from .test_judged_again import examined, posted, version_of
from .test_timing_revisions import SAME, by, hidden, on


@pytest.fixture
def request_made() -> KernelRequest:
    return examined(posted(factories.user("asks")), labels=("small-output",))


@pytest.fixture
def contest() -> Contest:
    return contests.running_with(factories.user("eve"), factories.user("olga"), device_kinds=[factories.gpu_kind()])


def answer(request: KernelRequest, name: str, report: object, text: str = "") -> Evaluation:
    owner, version = User.objects.filter(username=name).first() or factories.user(name), version_of(request)
    return factories.judged_on_gpu(report, owner=owner, version=version, text=text or f"// {name}\n")


def best_answers(request: KernelRequest) -> list[Evaluation]:
    return [found.evaluation for found in lists.answers_of(request)]


def test_the_luckiest_of_several_judgings_is_not_the_best_answer(request_made: KernelRequest) -> None:
    honest = answer(request_made, "olga", replayed(1.80))
    for score in (1.50, 1.50, 1.50, 1.50, 1.85):
        answer(request_made, "eve", replayed(score))
    assert best_answers(request_made) == [honest]


def test_an_answer_has_what_all_its_judgings_have_scored(request_made: KernelRequest) -> None:
    for score in (1.50, 1.80):
        answer(request_made, "olga", replayed(score))
    [found] = lists.answers_of(request_made)
    assert (1.6 < found.row.score < 1.7, found.row.judgings) == (True, 2)


def test_what_was_refused_at_another_time_is_not_the_best_answer(request_made: KernelRequest) -> None:
    honest = answer(request_made, "olga", replayed(1.80))
    answer(request_made, "eve", wrong())
    answer(request_made, "eve", replayed(9.0))
    assert best_answers(request_made) == [honest]


def test_what_staff_have_invalidated_is_not_the_best_answer_when_submitted_again(
    request_made: KernelRequest, staff: User
) -> None:
    honest = answer(request_made, "olga", replayed(1.80))
    cheat = answer(request_made, "eve", replayed(9.0))
    decisions.decide(cheat.submission, ActionKind.INVALIDATE, by=staff, reason="reads the answer")
    answer(request_made, "eve", replayed(9.0))
    assert best_answers(request_made) == [honest]


def test_what_was_refused_at_another_time_does_not_lead_a_running_contest(contest: Contest) -> None:
    honest = enter("olga", replayed(1.8))
    enter("eve", wrong(), SAME)
    enter("eve", replayed(9.0), SAME)
    assert by("eve").under_review
    assert [leader.evaluation for leader in finals.leaders(contest)] == [honest]


def test_the_luckiest_of_several_judgings_does_not_lead_a_running_contest(contest: Contest) -> None:
    enter("olga", replayed(1.8))
    for score in (1.5, 1.5, 1.5, 1.5, 1.85):
        enter("eve", replayed(score), SAME)
    [board] = results.boards(contest)
    assert [line.participant for line in board.lines] == ["olga", "eve"]


def test_programs_in_question_take_no_place_of_the_finals(contest: Contest) -> None:
    """They are judged as well, for staff may confirm them until the end; but no more of them than of the others."""
    sound = [enter("eve", replayed(score), f"int sound{score};") for score in (1.9, 1.7, 1.5)]
    doubtful = []
    for number in range(3):
        enter("eve", wrong(), f"int x{number};")
        doubtful.append(enter("eve", replayed(9.0 - number), f"int x{number};"))
    chosen = [item for *_, item in finals.best_entries(contest, 2)]
    assert chosen == [*sound[:2], *doubtful[:2]]


def test_a_contested_entry_leads_no_running_contest_by_its_interval(contest: Contest) -> None:
    enter("eve", on(replayed(2.3), "2.11"), SAME)
    hidden("other", on(replayed(1.5), "2.11"))
    enter("olga", replayed(2.0))
    [board] = results.boards(contest)
    assert [(line.participant, line.rank) for line in board.lines] == [("olga", 1), ("eve", 2)]


def test_answers_in_question_cost_no_queries_each(request_made: KernelRequest) -> None:
    """Whoever makes many programs that are refused at another time made each view of the request's page dear."""
    honest, asked = answer(request_made, "olga", replayed(1.2)), []
    for count in (8, 16):
        for number in range(count):
            for report in (wrong(), replayed(9.0), replayed(1.5 + number / 100)):
                answer(request_made, "eve", report, f"int x{count}_{number};")
        with CaptureQueriesContext(connection) as found:
            assert best_answers(request_made) == [honest]
        asked.append(len(found))
    assert asked[1] < asked[0] + 16, asked
