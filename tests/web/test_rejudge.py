"""The wizard that judges many again, its progress, and the public page of what has changed."""

import pytest
from django.forms import Select
from pytest_django.asserts import assertHTMLEqual

from benchmarks.judgings.moves import record_report
from benchmarks.models import Evaluation, RejudgeBatch, RuleSet, TaskVersion
from benchmarks.moderation import rejudging
from benchmarks.moderation.rejudging import Wanted
from benchmarks.states import BatchState

from . import factories

WIZARD = "/moderation/rejudge/?scope=boards"


@pytest.fixture
def batch(owner, staff):
    factories.judged(factories.passing(2.0), owner=owner, title="Fused loop")
    return rejudging.batch_create(Wanted(), RuleSet.objects.get(), by=staff, reason="A new clock.", expected=1)


def judge_again(speedup):
    rejudging.advance()
    record_report(factories.claimed_for_judging(), factories.passing(speedup))
    rejudging.advance()


def test_nothing_is_started_before_it_is_confirmed(as_staff, owner):
    factories.judged(owner=owner)
    page = as_staff.get(WIZARD).content.decode()
    assert "1 entry" in page
    assert "of judging" in page
    assert not RejudgeBatch.objects.exists()


def test_what_was_chosen_stays_chosen_and_is_written_as_django_would(as_staff, owner):
    factories.judged(owner=owner)
    chosen = "/".join(factories.TASK)
    form = as_staff.get(WIZARD, {"scope": "boards", "task": chosen}).context["form"]
    theirs = Select(choices=form.fields["task"].choices).render("task", chosen, {"id": "id_task"})
    assert "selected" in theirs
    assertHTMLEqual(str(form["task"]), theirs)


def test_a_confirmed_batch_runs(as_staff, owner):
    factories.judged(owner=owner)
    done = as_staff.post(WIZARD, {"reason": "A new clock.", "expected": 1})
    batch = RejudgeBatch.objects.get()
    assert done.headers["Location"] == f"/moderation/rejudge/{batch.code}/"
    assert "A new clock." in as_staff.get(done.headers["Location"]).content.decode()


def test_other_entries_than_were_seen_are_shown_first(as_staff, owner):
    factories.judged(owner=owner)
    page = as_staff.post(WIZARD, {"reason": "A new clock.", "expected": 7}).content.decode()
    assert "There are 1 entries now, not 7" in page
    assert not RejudgeBatch.objects.exists()


def test_only_staff_start_and_turn_batches(visitor, as_owner, batch):
    for client, status in ((visitor, 302), (as_owner, 403)):
        assert client.post(WIZARD, {"reason": "Mine.", "expected": 1}).status_code == status
        for part in ("", "live/"):
            assert client.get(f"/moderation/rejudge/{batch.code}/{part}").status_code == status
        for turn in ("pause", "resume", "cancel"):
            assert client.post(f"/moderation/rejudge/{batch.code}/{turn}/").status_code == status
    batch.refresh_from_db()
    assert (RejudgeBatch.objects.count(), batch.state) == (1, BatchState.RUNNING)


def test_a_batch_is_paused_resumed_and_cancelled(as_staff, batch):
    for turn, state in (("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")):
        assert as_staff.get(f"/moderation/rejudge/{batch.code}/{turn}/").status_code == 405
        as_staff.post(f"/moderation/rejudge/{batch.code}/{turn}/")
        batch.refresh_from_db()
        assert batch.state == state


def test_a_second_click_is_told_so(as_staff, batch):
    as_staff.post(f"/moderation/rejudge/{batch.code}/pause/")
    page = as_staff.post(f"/moderation/rejudge/{batch.code}/pause/", follow=True).content.decode()
    assert "no longer running" in page


def test_everybody_reads_what_has_changed(visitor, batch):
    judge_again(3.0)
    page = visitor.get(f"/changes/{batch.code}/").content.decode()
    for text in ("A new clock.", "2.00×", "3.00×", "+50.0 %", "1.96× to 2.04×", "Fused loop", "olga"):
        assert text in page, text
    assert "A new clock." in visitor.get("/changes/").content.decode()
    assert visitor.get("/changes/00000000-0000-0000-0000-000000000000/").status_code == 404


def test_what_is_not_public_is_counted_only(visitor, owner, staff):
    factories.judged(owner=owner, visibility="unlisted", title="Not for everybody")
    rules = RuleSet.objects.get()
    batch = rejudging.batch_create(Wanted(on_boards=False), rules, by=staff, reason="A new clock.", expected=1)
    judge_again(3.0)
    page = visitor.get(f"/changes/{batch.code}/").content.decode()
    assert "Not for everybody" not in page
    assert "1 more entry is not public" in page


def test_a_new_version_says_who_waits_below_its_board(visitor, owner):
    old = factories.judged(owner=owner)
    version = old.task_version
    TaskVersion.objects.filter(pk=version.pk).update(status="retired")
    new = TaskVersion.objects.create(
        task=version.task,
        number=version.number + 1,
        content_sha256="0" * 64,
        definition=version.definition,
        reference_source=version.reference_source,
    )
    path = f"/leaderboards/{'/'.join(factories.TASK)}/cpu-avx2/"
    page = visitor.get(path).content.decode()
    assert f"1 entry waiting to be judged under version {new.number}" in page
    assert old.get_absolute_url() in page
    earlier = visitor.get(f"{path}?version={version.number}").content.decode()
    assert "waiting to be judged" not in earlier
    assert old.get_absolute_url() in earlier


def test_the_page_of_changes_has_a_fixed_number_of_queries(visitor, staff, django_assert_max_num_queries):
    for n in range(4):
        factories.judged(owner=factories.user(f"u{n}"), text=f"// {n}\n")
    rules = RuleSet.objects.get()
    batch = rejudging.batch_create(Wanted(), rules, by=staff, reason="A new clock.", expected=4)
    rejudging.advance()
    while Evaluation.objects.queued().exists():
        record_report(factories.claimed_for_judging(), factories.passing(3.0))
    rejudging.advance()
    with django_assert_max_num_queries(12):
        visitor.get(f"/changes/{batch.code}/")
