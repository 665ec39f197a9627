"""What a report becomes: rows, baselines, standings, reviews."""

from importlib import import_module

import pytest
from django.apps import apps

from benchmarks.models import BaselineResult, Evaluation, Standing


def board():
    return {row.holder: row.rank for row in Standing.objects.all()}


def test_a_pass_stands_on_the_board(judged, person):
    ann = person("ann")
    evaluation = judged(owner=ann)
    standing = Standing.objects.get()
    assert (standing.holder, standing.rank, standing.score) == (f"user:{ann.pk}", 1, 2.0)
    assert standing.verified_at == evaluation.finished


@pytest.mark.parametrize("verdict", ["INCORRECT_VALUE", "TAMPERING", "TIMEOUT", "COMPILE_ERROR"])
def test_a_refusal_does_not_stand(judged, verdict):
    assert judged(verdict=verdict).verdict == verdict
    assert not Standing.objects.exists()


def test_stages_and_configurations_are_kept(judged):
    evaluation = judged()
    assert [stage.name for stage in evaluation.stages.all()] == ["compile", "verify", "time"]
    assert evaluation.configs.first().speedup_lo == pytest.approx(1.96)


def test_baselines_are_the_median_of_the_latest_judgings(judged):
    evaluation = judged()
    row = BaselineResult.objects.first()
    assert (row.eager_us, row.compile_us, row.judgings) == (100.0, 120.0, 1)
    evaluation.configs.update(eager_us=200.0)
    judged(text="// another\n")
    row.refresh_from_db()
    assert (row.eager_us, row.judgings) == (150.0, 2)


def test_a_holder_keeps_the_best_of_several(judged, person):
    ann = person("ann")
    judged(text="// fast", owner=ann, speedup=3.0)
    judged(text="// slow", owner=ann, speedup=1.5)
    assert [row.score for row in Standing.objects.all()] == [3.0]


def test_a_better_one_moves_everybody_below_down(judged, person):
    ann, bob = person("ann"), person("bob")
    judged(text="// one", owner=ann, speedup=2.0)
    judged(text="// two", owner=bob, speedup=3.0)
    assert board() == {f"user:{ann.pk}": 2, f"user:{bob.pk}": 1}


def test_entries_that_cannot_be_told_apart_share_a_rank(judged, person):
    ann, bob = person("ann"), person("bob")
    judged(text="// one", owner=ann, speedup=2.0, half_width=0.05)
    judged(text="// two", owner=bob, speedup=2.05, half_width=0.05)
    assert set(board().values()) == {1}


def test_somebody_without_an_account_holds_each_submission_apart(judged):
    judged(text="// one")
    judged(text="// two")
    assert len(board()) == 2


def test_the_same_code_judged_again_pools_its_samples(judged, person):
    first = judged(owner=person("ann"), speedup=2.0)
    judged(submission=first.submission, reason="rejudge", speedup=2.02)
    standing = Standing.objects.get()
    assert standing.judgings == 2
    assert 2.0 < standing.score < 2.02
    assert standing.verified_at == first.finished


def test_a_gate_keeps_an_entry_under_review_with_its_reason(judged):
    judged(gate="faster than the memory of this machine")
    standing = Standing.objects.get()
    assert (standing.under_review, standing.rank) == (True, None)
    assert "memory" in standing.review_reason


def test_an_entry_under_review_does_not_hide_the_one_that_stands(judged, person):
    ann = person("ann")
    judged(text="// clean", owner=ann, speedup=2.0)
    judged(text="// odd", owner=ann, speedup=90.0, gate="too fast")
    assert [(row.score, row.under_review) for row in Standing.objects.all()] == [(2.0, False)]


def test_a_clean_entry_replaces_one_under_review(judged, person):
    ann = person("ann")
    judged(text="// odd", owner=ann, speedup=90.0, gate="too fast")
    judged(text="// clean", owner=ann, speedup=2.0)
    assert [(row.score, row.rank) for row in Standing.objects.all()] == [(2.0, 1)]


def test_code_that_is_refused_when_judged_again_goes_under_review(judged, person):
    first = judged(owner=person("ann"))
    judged(submission=first.submission, reason="rejudge", verdict="INCORRECT_VALUE")
    standing = Standing.objects.get()
    assert standing.under_review
    assert "INCORRECT_VALUE" in standing.review_reason


def test_code_that_was_refused_before_does_not_rank_by_trying_again(judged):
    first = judged(verdict="NONDETERMINISTIC")
    judged(submission=first.submission)
    assert Standing.objects.get().under_review


def test_our_own_faults_change_no_standing(judged, person):
    first = judged(owner=person("ann"))
    judged(submission=first.submission, reason="rejudge", verdict="NOISY")
    assert Standing.objects.get().rank == 1


def test_a_passed_audit_ends_the_review(judged, person):
    first = judged(owner=person("ann"), gate="too fast")
    judged(submission=first.submission, reason="audit", gate="too fast")
    assert (Standing.objects.get().under_review, Standing.objects.get().rank) == (False, 1)


def test_what_is_not_public_does_not_stand(judged, person):
    judged(owner=person("ann"), visibility="unlisted")
    assert not Standing.objects.exists()


def test_a_task_that_trips_a_filter_is_not_ranked(judged, version):
    version.task.labels = ["inputs-do-not-matter"]
    version.task.save()
    assert judged().score == 2.0
    assert not Standing.objects.exists()


def test_facts_of_reports_written_before_there_were_columns_are_filled_in(judged):
    judged(text="// one", gate="faster than the memory of this machine")
    judged(text="// two")
    Evaluation.objects.update(gated=False)
    import_module("benchmarks.migrations.0008_gated_and_calls_library").fill(apps, None)
    assert list(Evaluation.objects.order_by("pk").values_list("gated", "calls_library")) == [
        (True, False),
        (False, False),
    ]
