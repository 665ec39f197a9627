"""Another space makes no other source: what was judged of one program counts together, whatever became of its text."""

import pytest

from benchmarks.accounts import ownership
from benchmarks.boards import confirmations, reviews, selectors, settled, standings
from benchmarks.harness import Source, source_key
from benchmarks.judgings import moves, recording
from benchmarks.models import CodeBlob, Evaluation, Method, Refusal, Standing, Submission
from benchmarks.states import Visibility

CODE = "int forward(int x) { return x; }\n"


@pytest.fixture
def ann(person):
    return person("ann")


def scores():
    return [(row.score, row.judgings) for row in Standing.objects.order_by("pk")]


def test_the_luckiest_of_many_resubmissions_is_not_what_stands(judged, ann):
    for number, speedup in enumerate((2.0, 2.0, 3.0)):
        judged(owner=ann, text=CODE + " " * number, speedup=speedup)
    ((score, judgings),) = scores()
    assert judgings == 3
    assert 2.0 < score < 2.6


def test_comments_and_other_methods_change_nothing(judged, ann):
    judged(owner=ann, text=CODE, speedup=2.0)
    other = Method.objects.create(slug="other", title="Other", kind="agent")
    judged(owner=ann, text="// mine\n" + CODE, speedup=3.0, method=other)
    assert {judgings for _, judgings in scores()} == {2}
    assert len({score for score, _ in scores()}) == 1


def test_the_luckiest_private_judging_made_public_takes_the_pooled_score(judged, ann):
    runs = [
        judged(owner=ann, text=CODE + " " * number, speedup=speedup, visibility=Visibility.PRIVATE)
        for number, speedup in enumerate((2.0, 2.0, 3.0))
    ]
    assert scores() == []
    ownership.visibility_change(runs[2].submission, Visibility.PUBLIC)
    ((score, judgings),) = scores()
    assert judgings == 3
    assert score < 2.6


def test_deleting_the_unlucky_ones_gains_nothing(judged, ann):
    runs = [judged(owner=ann, text=CODE + " " * number, speedup=2.0) for number in range(2)]
    for run in runs:
        ownership.submission_delete(run.submission)
    judged(owner=ann, text=CODE + "   ", speedup=3.0)
    ((score, _),) = scores()
    assert score < 2.6


def compiled(evaluation, key="k"):
    """What came of it is the same as of all others that are said to be compiled here with this key."""
    Evaluation.objects.filter(pk=evaluation.pk).update(object_key=key * 64)
    evaluation.refresh_from_db()
    standings.standings_update(evaluation)
    return evaluation


def test_a_refusal_is_not_shaken_off_by_a_space(judged, ann, person):
    judged(owner=ann, text=CODE, verdict="INCORRECT_VALUE")
    judged(owner=ann, text=CODE + "\n// another", speedup=2.0)
    assert "INCORRECT_VALUE" in Standing.objects.get(under_review=True).review_reason


def test_a_strangers_row_under_review_takes_no_record_from_its_holder(judged, ann, person, version):
    """As another language the same text is another program."""
    record = judged(owner=ann, text=CODE, language="python", speedup=2.0)
    copy = judged(owner=person("eve"), text=CODE, language="triton", speedup=1.0)
    judged(submission=copy.submission, text=CODE, verdict="RUNTIME_ERROR", reason="rejudge")
    assert [row.under_review for row in Standing.objects.order_by("pk")] == [False, True]
    key = selectors.board_key(version, record.device_kind.slug)
    assert [row.score for row in selectors.board_records(key)] == [2.0]


@pytest.mark.parametrize("settled", [False, True])
def test_what_was_refused_at_another_time_never_held_the_record(judged, ann, version, settled):
    """Where its holder has a sound entry, the board has no row that says it is under review."""
    judged(owner=ann, text="// sound", speedup=1.5)
    lucky = judged(owner=ann, text=CODE, speedup=9.0)
    judged(submission=lucky.submission, text=CODE, verdict="INCORRECT_VALUE", reason="rejudge")
    judged(owner=ann, text="// better", speedup=1.6)
    assert [(row.score, row.under_review) for row in Standing.objects.all()] == [(1.6, False)]
    if settled:
        confirmations.confirm(lucky.submission)
    key = selectors.board_key(version, lucky.device_kind.slug)
    assert [row.score for row in selectors.board_records(key)] == ([1.5, 9.0] if settled else [1.5, 1.6])


@pytest.mark.parametrize(
    ("languages", "same"),
    [(("python", "triton"), False), (("triton", "python"), False), (("triton", "numba_cuda"), True)],
)
def test_what_a_stranger_submits_as_another_language_does_not_touch_an_entry(judged, ann, person, languages, same):
    """A text with a module and a function is two programs; whoever copied it could choose the one that fails."""
    entry, attack = languages
    compiled(judged(owner=ann, text=CODE, language=entry, speedup=2.0))
    copies = [
        compiled(judged(owner=person("bob"), text=CODE, language=attack, verdict="RUNTIME_ERROR")),
        compiled(judged(owner=person("eve"), text=CODE, language=attack, speedup=1.0, visibility=Visibility.PRIVATE)),
    ]
    for _ in range(2):
        row = Standing.objects.get(holder=f"user:{ann.pk}")
        assert (row.under_review, row.score < 2.0) == (same, same)
        for copy in copies:
            ownership.submission_delete(copy.submission)
        copies = []


def test_a_refusal_is_not_shaken_off_by_a_second_account(judged, ann, person):
    compiled(judged(owner=ann, text=CODE, verdict="INCORRECT_VALUE"))
    compiled(judged(owner=person("bob"), text=CODE + "\n// another", speedup=2.0))
    assert "INCORRECT_VALUE" in Standing.objects.get(under_review=True).review_reason


def test_a_stranger_with_the_same_tokens_takes_nobody_off_the_board(judged, ann, person):
    """Not even through a copy of the entry that the stranger has as well."""
    mallory = person("mallory")
    judged(owner=ann, text=CODE, speedup=2.0)
    judged(owner=mallory, text=CODE, speedup=2.0)
    judged(owner=mallory, text=CODE + "// other", verdict="INCORRECT_VALUE")
    under_review = {row.holder: row.under_review for row in Standing.objects.all()}
    assert under_review == {f"user:{ann.pk}": False, f"user:{mallory.pk}": True}
    ownership.submission_delete(Submission.objects.get(evaluations__verdict="INCORRECT_VALUE"))
    assert not Standing.objects.get(holder=f"user:{ann.pk}").under_review


def test_a_confirmed_entry_answers_for_nothing_that_has_only_its_tokens(judged, ann):
    honest = judged(owner=ann, text=CODE, gate="gate-exact")
    judged(submission=honest.submission, reason="audit", gate="gate-exact")
    assert not Standing.objects.get().under_review
    other = judged(owner=ann, text=CODE + "// other", gate="gate-exact")
    assert reviews.review_reason(other, settled.JudgedProgram(other).same_code(other))


@pytest.mark.parametrize("how", ["refused", "slow", "invalidated"])
def test_what_a_strangers_text_was_compiled_to_at_another_time_touches_nobody(judged, ann, person, how):
    """Its author can make that depend on the day: first it is the entry's program, then another one."""
    compiled(judged(owner=ann, text=CODE, speedup=2.0))
    eve = person("eve")
    copy = compiled(judged(owner=eve, text="// by day\n" + CODE, speedup=2.0))
    report = {"verdict": "INCORRECT_VALUE"} if how == "refused" else {"speedup": 1.0}
    other = compiled(judged(owner=eve, text="// by day\n" + CODE, visibility=Visibility.PRIVATE, **report), "x")
    if how == "invalidated":
        Submission.objects.filter(pk=other.submission_id).update(moderation="invalidated")
        standings.standings_update(copy)
    for evaluation in (None, other, copy):
        if evaluation is not None and how != "invalidated":
            ownership.submission_delete(evaluation.submission)
        row = Standing.objects.get(holder=f"user:{ann.pk}")
        assert (row.under_review, row.score) == (False, pytest.approx(2.0, rel=0.05))
    judged(owner=eve, text="// by day\n" + CODE)
    assert Standing.objects.get(holder=f"user:{eve.pk}").under_review == (how == "refused")


def test_a_confirmation_says_nothing_of_what_its_code_has_in_common_with_a_text_alone(judged, ann, person):
    """Bob's text has been compiled to ann's program once, and to a wrong one once."""
    honest, bob = compiled(judged(owner=ann, text=CODE)), person("bob")
    compiled(judged(owner=bob, text="// by day\n" + CODE))
    compiled(judged(owner=bob, text="// by day\n" + CODE, verdict="TAMPERING", visibility=Visibility.PRIVATE), "x")
    assert Standing.objects.get(holder=f"user:{bob.pk}").under_review
    confirmations.confirm(honest.submission)
    standings.review_renew([honest])
    assert Standing.objects.get(holder=f"user:{bob.pk}").under_review


@pytest.mark.parametrize("deleted", [False, True])
def test_that_it_does_not_compile_any_more_is_no_reason_for_a_review(judged, ann, deleted):
    """It gives no number, and another compiler may refuse an honest text."""
    judged(owner=ann, text=CODE, speedup=2.0)
    again = judged(owner=ann, text=CODE, verdict="COMPILE_ERROR", visibility=Visibility.PRIVATE)
    if deleted:
        ownership.submission_delete(again.submission)
    assert [row.under_review for row in Standing.objects.all()] == [False]


def test_second_accounts_draw_no_new_lots(judged, ann, person):
    """Deleted ones count as well."""
    compiled(judged(owner=ann, text=CODE, speedup=2.0))
    unlucky = compiled(judged(owner=person("bob"), text=CODE + " ", speedup=2.0))
    ownership.submission_delete(unlucky.submission)
    compiled(judged(owner=person("eve"), text=CODE + "  ", speedup=3.0))
    (first, _), (second, _) = scores()
    assert first == second < 2.6


def test_a_refusal_outlives_the_submission_and_a_space(judged, ann):
    refused = compiled(judged(owner=ann, text=CODE, verdict="TAMPERING"))
    ownership.submission_delete(refused.submission)
    compiled(judged(owner=ann, text=" " + CODE))
    assert "TAMPERING" in Standing.objects.get().review_reason


def test_a_refusal_from_before_keys_were_kept_counts_for_its_own_text(judged, ann):
    ownership.submission_delete(judged(owner=ann, text=CODE, verdict="TAMPERING").submission)
    Refusal.objects.update(source_key="", object_key="")
    judged(owner=ann, text=CODE)
    assert Standing.objects.get().under_review


def test_what_compiles_to_the_same_is_the_same(judged, ann):
    """As with a renamed variable: other tokens, the same object."""
    first = judged(owner=ann, text=CODE, speedup=2.0)
    Evaluation.objects.filter(pk=first.pk).update(object_key="k" * 64)
    second = judged(owner=ann, text=CODE.replace("x", "y"), speedup=3.0)
    Evaluation.objects.filter(pk=second.pk).update(object_key="k" * 64)
    second.refresh_from_db()
    assert standings.standings_update(second)
    ((score, judgings),) = scores()
    assert judgings == 2
    assert score < 2.8


def test_the_scores_of_others_who_have_the_same_program_in_another_layout_are_their_own(judged, ann, person):
    judged(owner=ann, text=CODE, speedup=2.0)
    judged(owner=person("bob"), text=CODE + " ", speedup=3.0)
    assert [judgings for _, judgings in scores()] == [1, 1]


def test_another_constant_is_another_source(judged, ann):
    judged(owner=ann, text=CODE, speedup=2.0)
    judged(owner=ann, text=CODE.replace("return x", "return x + 1"), speedup=3.0)
    ((score, judgings),) = scores()
    assert (score, judgings) == (pytest.approx(3.0, rel=0.05), 1)


def test_a_submission_and_its_judging_know_their_keys(submit, claim, ann):
    submission = submit(owner=ann, text=CODE).submission
    assert submission.source_key == source_key(Source(CODE + "// more", "cpp"))
    holding = claim()
    moves.evaluation_compiled(holding, 3.0, "o" * 64)
    found = Evaluation.objects.get()
    assert (found.build_s, found.object_key) == (3.0, "o" * 64)
    moves.evaluation_cancel(found, "Enough.")
    with pytest.raises(moves.ClaimLost):
        moves.evaluation_compiled(holding, 3.0, None)


def test_rows_without_keys_are_told_apart_by_their_text(judged, ann):
    judged(owner=ann, text=CODE, speedup=2.0)
    Submission.objects.update(source_key="")
    judged(owner=ann, text=CODE.replace("x", "z"), speedup=2.0)
    Submission.objects.update(source_key="")
    latest = Evaluation.objects.order_by("pk").last()
    assert [item.pk for item in settled.JudgedProgram(latest).same_code(latest).judgings] == [latest.pk]


def test_the_migration_tells_apart_what_is_there(judged, ann, django_apps):
    judged(owner=ann, text=CODE, speedup=2.0)
    judged(owner=ann, text=CODE + " ", speedup=3.0)
    judged(owner=ann, text="int other;", speedup=1.0, visibility=Visibility.UNLISTED)
    Submission.objects.update(source_key="")
    django_apps("0012_same_code").tell_apart(*django_apps.arguments)
    keys = list(Submission.objects.order_by("pk").values_list("source_key", flat=True))
    assert keys[0] == keys[1] != keys[2]
    assert CodeBlob.objects.count() == 3
    assert not Standing.objects.exists()
    assert recording.boards_complete() is None
    assert [judgings for _, judgings in scores()] == [2]


@pytest.fixture
def django_apps():
    from importlib import import_module

    from django.apps import apps

    def migration(name):
        return import_module(f"benchmarks.migrations.{name}")

    migration.arguments = (apps, None)
    return migration
