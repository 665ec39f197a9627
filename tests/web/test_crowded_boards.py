"""Boards on which one program, one holder or one board has many judgings: no row or record is lost or dear for that."""

import uuid
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchmarks.accounts import ownership
from benchmarks.boards import contradictions, same_code, selectors, standings
from benchmarks.boards.selectors import board_records
from benchmarks.harness import Source, source_key, timing_revision
from benchmarks.judgings.recording import boards_complete
from benchmarks.models import CodeBlob, Evaluation, Method, RuleSet, Standing, Submission
from benchmarks.moderation import decisions
from benchmarks.states import ActionKind, Visibility

from . import factories
from .test_bounds import enter, key, replayed
from .test_timing_revisions import SAME


def many(count: int, text: str, **columns: Any) -> list[Evaluation]:
    """Accepted judgings in bulk, each of a public submission of its own; `{}` in the text is its number."""
    owner, score = columns.pop("owner", None), columns.pop("score", 2.0)
    human, now, submissions = Method.objects.get(slug="human"), timezone.now(), []
    for number in range(count):
        source = Source(text.format(number), "cuda")
        blob, _ = CodeBlob.objects.get_or_create(
            sha256=source.sha256, defaults={"text": source.text, "size_bytes": 9, "line_count": 2}
        )
        about = {"method": human, "owner": owner, "visibility": Visibility.PUBLIC, "language": "cuda"}
        about |= {"source_key": source_key(source), "blob": blob}
        submissions.append(Submission(task_version=factories.version(), **about))
    known = {"timing_trust": "replayed", "timing_revision": timing_revision("cuda"), "worst_config": "x"}
    if score is not None:
        known |= {"score": score, "score_lo": score - 0.02, "score_hi": score + 0.02}
    else:
        known["timing_trust"] = ""
    known |= {"verdict": "PASS", "state": "done"}
    known |= {"queued": now, "claimed": now, "finished": now, "reason_text": "so it ended", "report": {}} | columns
    known |= {"task_version": factories.version(), "device_kind": factories.gpu_kind()}
    known |= {"ruleset": RuleSet.objects.get(name="rk-2")}
    return Evaluation.objects.bulk_create(
        Evaluation(submission=item, **known) for item in Submission.objects.bulk_create(submissions)
    )


def test_the_end_of_a_judging_looks_at_each_judging_of_a_text_a_few_times_however_many_have_submitted_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Visitors without an account submit one text, as many do with the starter code: it has one row, of the first.

    Each had a row of its own, and every later judging looked at all judgings once for each, while the boards were held:
    with 800 of which half are slow it took 34 s of processor time.
    """
    calls, asked = [0], contradictions.answers_for

    def counted(evaluation: Any, row: Any) -> bool:
        calls[0] += 1
        return asked(evaluation, row)

    monkeypatch.setattr(contradictions, "answers_for", counted)
    costs = []
    for count in (15, 60):
        fast, slow = (many(count, f"int x{count};", score=score) for score in (2.0, 1.2))
        calls[0] = 0
        standings.standings_update(Evaluation.objects.get(pk=slow[-1].pk))
        costs.append(calls[0])
        assert Standing.objects.get(evaluation__in=[*fast, *slow]).evaluation == fast[0]
    assert costs[1] < 8 * costs[0], costs


def test_a_report_about_a_gated_program_asks_few_questions_however_often_it_was_judged() -> None:
    """The gates of each judging were read from its whole report, one after the other, while the boards were held."""
    held = {"gates": [{"code": "gate-speedup", "text": "faster than usual"}]}
    for owner in (factories.user("eve"), None):
        costs = []
        for count in (10, 80):
            made = many(count, f"int x{count};", owner=owner, score=12.0, gated=True, report=held)
            with CaptureQueriesContext(connection) as asked:
                standings.standings_update(Evaluation.objects.get(pk=made[-1].pk))
            costs.append(len(asked))
        assert costs[1] < costs[0] + 40, (owner, costs)


def test_a_clean_entry_stands_however_many_of_its_holder_are_under_review() -> None:
    """A search makes many programs beyond the gate of 10×: when the row is written anew, the sound one has gone."""
    eve = factories.user("eve")
    clean = enter("eve", replayed(9.0), "int clean;")
    held = {"gates": [{"code": "gate-speedup", "text": "faster than usual"}]}
    gated = many(51, "int x{};", owner=eve, score=12.0, gated=True, report=held)
    for item in Evaluation.objects.filter(pk__in=[item.pk for item in gated]):
        standings.standings_update(item)
    assert Standing.objects.get().evaluation == clean
    ownership.visibility_change(Submission.objects.get(pk=gated[0].submission_id), Visibility.PRIVATE)
    row = Standing.objects.get()
    assert (row.evaluation, row.rank) == (clean, 1), (row.evaluation.score, row.rank)


def test_an_entry_that_staff_have_seen_stands_however_often_its_owner_submits_it_again(staff: User) -> None:
    """An agent submits its best text again and again, after staff have invalidated a stranger's copy of it."""
    seen, owner = enter("olga", replayed(2.0), SAME), User.objects.get(username="olga")
    copy = enter("eve", replayed(2.0), SAME)
    decisions.decide(copy.submission, ActionKind.INVALIDATE, by=staff, reason="a copy")
    for count in (1, 20):
        last = many(count, SAME, owner=owner)[-1]
        standings.standings_update(Evaluation.objects.get(pk=last.pk))
        row = Standing.objects.get(holder=f"user:{owner.pk}")
        assert (row.evaluation, row.under_review) == (seen, False), (count, row.review_reason)


def test_refused_programs_hide_no_record_of_somebody_else() -> None:
    """Each a little slower than the last, and right only sometimes: a round of the search finds but one of them.

    After ROUNDS_MAX rounds those that are left still stand above what somebody honest reaches later.
    """
    enter("first", replayed(1.5))
    eve = factories.user("eve")
    for number in range(selectors.ROUNDS_MAX + 2):
        text = f"int x{number};"
        many(1, text, owner=eve, score=3.0 - number / 100)
        many(1, text, owner=eve, verdict="INCORRECT_VALUE", score=None)
    enter("honest", replayed(2.6))
    assert Standing.objects.get(rank=1).evaluation.submission.owner.username == "honest"
    found = [record.submission.owner.username for record in board_records(key())]
    assert found == ["first", "honest"]


def test_refused_copies_of_visitors_hide_no_record_of_somebody_else() -> None:
    """As above with one text: of what has no owner, and of a deleted account, each round finds one submission."""
    enter("first", replayed(1.5))
    for number in range(selectors.ROUNDS_MAX + 2):
        many(1, "int x;", score=3.0 - number / 100)
    many(1, "int x;", verdict="INCORRECT_VALUE", score=None)
    enter("honest", replayed(2.6))
    assert Standing.objects.get(evaluation__submission__owner__username="honest").rank == 1
    found = [record.submission.owner.username for record in board_records(key())]
    assert found == ["first", "honest"]


def test_a_judging_renews_no_rows_that_a_strangers_bridge_connects_with_its_program() -> None:
    """One text that is compiled now to this and now to that public code makes all programs of a board one.

    No judging of one counts for another, but from then on every report asks about each holder of the board.
    """
    costs = []
    for count in (8, 32):
        honest = [many(1, f"int x{count}_{number};")[0] for number in range(count)]
        for number, item in enumerate(honest):
            Evaluation.objects.filter(pk=item.pk).update(object_key=f"{count}-{number}")
            bridge = many(1, f"int bridge{count};", score=1.1)[0]
            Submission.objects.filter(pk=bridge.submission_id).update(
                owner=User.objects.filter(username="eve").first() or factories.user("eve")
            )
            Evaluation.objects.filter(pk=bridge.pk).update(object_key=f"{count}-{number}")
        for item in honest:
            standings.standings_update(Evaluation.objects.get(pk=item.pk))
        last = many(1, f"int x{count}_0;")[0]
        with CaptureQueriesContext(connection) as asked:
            standings.standings_update(Evaluation.objects.get(pk=last.pk))
        costs.append(len(asked))
    assert costs[1] < costs[0] + 20, costs


def chain(count: int, owner: User) -> Evaluation:
    """The first of texts of which each has one compiled code in common with the next."""
    texts = many(count, f"int c{count}_{{}};", owner=owner, score=2.0 + count / 100)
    for number, item in enumerate(texts):
        for twin, name in ((item, number), (Evaluation.objects.get(pk=item.pk), number + 1)):
            twin.object_key = f"{count}-{name}"
            if twin is not item:
                twin.pk, twin.code = None, uuid.uuid4()
            twin.save()
    return texts[0]


def test_a_report_about_a_long_chain_asks_no_more_than_one_about_a_short_one() -> None:
    """Two more of the texts were found each time it asked: 57 times for 20 texts, 333 times for 160."""
    costs, eve = [], factories.user("eve")
    for count in (20, 160):
        first = chain(count, eve)
        with CaptureQueriesContext(connection) as asked:
            standings.standings_update(Evaluation.objects.get(pk=first.pk))
        costs.append(len(asked))
    assert costs[1] < costs[0] + 10, costs


def test_records_read_the_names_of_a_long_chain_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each text of an account has one compiled code in common with the next: a round of the search finds two more.

    Each round reads all again. With 400 of these texts, each judged twice, the page takes 10 s of processor time.
    """
    calls, read = [0], same_code._named

    def counted(keys: Any) -> Any:
        calls[0] += 1
        return read(keys)

    monkeypatch.setattr(same_code, "_named", counted)
    costs, eve = [], factories.user("eve")
    for count in (10, 60):
        chain(count, eve)
        standings.boards_marked([factories.version().pk])
        calls[0] = 0
        board_records(key())
        costs.append(calls[0])
    assert costs[1] < 12 * costs[0], costs


@pytest.mark.django_db(transaction=True)
def test_an_upgrade_leaves_one_row_of_each_text_without_an_account_and_no_gap_in_the_ranks() -> None:
    """The best one stays. Until then each submission had its own row."""
    first, last = (factories.judged_on_gpu(replayed(score), text=SAME) for score in (2.0, 3.0))
    honest = enter("honest", replayed(1.5))
    row = Standing.objects.get(evaluation__submission__owner=None)
    for number, item in enumerate((first, last)):
        row.pk, row.holder, row.rank, row.evaluation = None, f"submission:{number}", 2 - number, item
        row.save()
    Standing.objects.filter(holder__startswith="text:").delete()
    Standing.objects.filter(evaluation=honest).update(rank=3)
    call_command("migrate", "benchmarks", "0049", verbosity=0)
    call_command("migrate", "benchmarks", verbosity=0)
    left = Standing.objects.exclude(evaluation=honest).get()
    assert (left.holder, left.evaluation) == (f"text:{last.submission.blob_id}", last)
    boards_complete()
    assert Standing.objects.get(evaluation=honest).rank == 2
