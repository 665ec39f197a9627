"""Upgrades while processes of the version before still run, and boards that `prepare` writes anew."""

import uuid
from importlib import import_module
from unittest.mock import Mock

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.migrations import DeleteModel, RemoveField, RenameField, RenameModel, RunPython
from django.db.migrations.loader import MigrationLoader
from django.db.models import QuerySet
from django.utils import timezone

from benchmarks.accounts import ownership
from benchmarks.judgings.recording import boards_complete
from benchmarks.models import Evaluation, KernelRequest, Method, Standing, TaskVersion
from benchmarks.moderation import decisions
from benchmarks.requests import asking
from benchmarks.states import ActionKind, Origin
from tests.asking import opened

from . import factories
from .test_bounds import enter, found, replayed
from .test_timing_revisions import SAME, by, hidden

# The first migration of each app that must let the processes before it go on.
FIRST = {"benchmarks": "0044_contested_entries", "agents": "0008"}
NAMES = sorted(key for key in MigrationLoader(None).disk_migrations if key[1] >= FIRST.get(key[0], "~"))
APART = ("benchmarks", "0055")  # since then what alters a table and what writes rows are apart
BEFORE = ("benchmarks", "0042_intervals_of_several")


@pytest.mark.parametrize("name", NAMES, ids="/".join)
def test_processes_of_before_need_not_fill_a_column_that_a_migration_adds(name: tuple[str, str]) -> None:
    loader = MigrationLoader(None)
    before = loader.project_state(name, at_end=False)
    after = loader.project_state(name)
    common = after.models.keys() & before.models.keys()
    added = {key: _unfilled(after.models[key]) - _unfilled(before.models[key]) for key in common}
    missing = {key: columns for key, columns in added.items() if columns}
    assert not missing, f"give these columns null=True or a db_default: {missing}"


@pytest.mark.parametrize("name", NAMES, ids="/".join)
def test_processes_of_before_find_every_column_that_they_read(name: tuple[str, str]) -> None:
    gone = (RemoveField, RenameField, DeleteModel, RenameModel)
    taken = [item for item in MigrationLoader(None).disk_migrations[name].operations if isinstance(item, gone)]
    assert not taken, "take it out of the state alone, with SeparateDatabaseAndState"


@pytest.mark.parametrize("name", [key for key in NAMES if key >= APART], ids="/".join)
def test_processes_of_before_wait_for_no_table_while_rows_are_written(name: tuple[str, str]) -> None:
    migration = MigrationLoader(None).disk_migrations[name]
    writes = {isinstance(item, RunPython) for item in migration.operations}
    assert writes == {False} or (writes == {True} and not migration.atomic), "write them in a migration of their own"


def _unfilled(model: object) -> set[str]:
    """The columns that every process has to fill itself."""
    fields = model.fields.items()  # type: ignore[attr-defined]
    own = {name: field for name, field in fields if not (field.many_to_many or field.primary_key or field.generated)}
    return {name for name, field in own.items() if not (field.null or field.has_db_default())}


@pytest.mark.parametrize("table", ["Standing", "Evaluation", "DeletedScore"])
def test_processes_of_before_write_into_the_migrated_database(table: str) -> None:
    entry = enter("olga", replayed(2.5))
    now, three = timezone.now(), {"score": 1.0, "score_lo": 1.0, "score_hi": 1.0}
    columns = {
        "Standing": {"holder": "user:999", "evaluation_id": entry.pk, "verified_at": now, **three},
        "Evaluation": {"submission_id": entry.submission_id, "reason": "initial", "priority": 0, "queued": now},
        "DeletedScore": {"owner_id": entry.submission.owner_id, "source_sha256": "a" * 64, **three},
    }
    board = {name: getattr(entry, name) for name in ("task_version_id", "device_kind_id", "ruleset_id")}
    old = MigrationLoader(None).project_state(BEFORE).apps.get_model("benchmarks", table)
    try:
        with transaction.atomic():
            row = old.objects.create(**board, **columns[table])
    except IntegrityError as error:
        pytest.fail(f"{table}: {error}")
    assert apps.get_model("benchmarks", table).objects.get(pk=row.pk).timing_revision == 0


def test_boards_are_written_anew_if_private_judgings_may_contradict_each_other() -> None:
    enter("olga", found(1.5, 1.3, 1.6, "bounded"), SAME)
    for score in (1.70, 1.69):
        hidden("olga", replayed(score))
    Evaluation.objects.filter(score=1.69).update(score=0.60, score_lo=0.59, score_hi=0.61)
    import_module("benchmarks.migrations.0044_contested_entries").mark(apps, None)
    boards_complete()
    assert by("olga").under_review


def test_boards_are_written_anew_if_an_account_that_has_gone_left_many_programs() -> None:
    item = enter("left", replayed(2.0), "int x;")
    for _ in range(60):
        item.pk, item.code = None, uuid.uuid4()
        item.save()
    assert _marked() == set()
    ownership.account_delete(User.objects.get(username="left"), keep_submissions=True)
    assert _marked() == {item.task_version_id}


@pytest.mark.parametrize("deleted", [False, True])
def test_all_boards_of_a_task_are_written_anew_if_staff_have_decided_something_about_it(
    staff: User, deleted: bool
) -> None:
    version = enter("cheat", replayed(9.0), SAME).task_version
    columns = {"number": 99, "content_sha256": "f" * 64, "definition": version.definition, "reference_source": ""}
    other = TaskVersion.objects.create(task=version.task, status="retired", **columns)
    decisions.decide(by("cheat").evaluation.submission, ActionKind.INVALIDATE, by=staff, reason="reads the answer")
    if deleted:
        ownership.account_delete(User.objects.get(username="cheat"), keep_submissions=False)
    assert _marked() == {version.pk, other.pk}


def _marked() -> set[int]:
    import_module("benchmarks.migrations.0056_boards_of_decisions").mark(apps, None)
    return set(TaskVersion.objects.filter(boards_due=True).values_list("pk", flat=True))


def test_what_staff_had_hidden_before_its_owner_left_is_theirs_again(
    staff: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = opened(factories.user("olga"))
    asking.request_decide(row, ActionKind.HIDE, by=staff, reason="Advertising.")
    KernelRequest.objects.all().delete()
    restore = import_module("benchmarks.migrations.0058_requests_of_accounts_that_left").restore
    with monkeypatch.context() as patch:
        patch.setattr(QuerySet, "update", Mock(side_effect=ConnectionError))
        with pytest.raises(ConnectionError):
            restore(apps, None)
    restore(apps, None)  # it was interrupted
    again = KernelRequest.objects.get()
    assert again.moderation_actions.exists()
    assert (again.pk, again.task, again.moderation) == (row.pk, row.task, "hidden")
    asking.request_decide(again, ActionKind.RESTORE, by=staff, reason="It was none.")


def test_rows_that_were_lost_when_accounts_left_are_written() -> None:
    """Until then all that several accounts had left of one method had one row."""
    method = Method.objects.create(slug="agent-x", title="X", kind="agent")
    for name in ("one", "two"):
        owner = factories.user(name)
        factories.judged_on_gpu(replayed(2.0), owner=owner, text=f"int {name};", method=method, origin=Origin.AGENT)
        ownership.account_delete(owner, keep_submissions=True)
    holders = set(Standing.objects.values_list("holder", flat=True))
    assert len(holders) == 2
    Standing.objects.filter(holder=max(holders)).delete()
    Standing.objects.update(holder="method:agent-x")
    import_module("benchmarks.migrations.0051_holders_of_what_is_left").renew(apps, None)
    boards_complete()
    assert set(Standing.objects.values_list("holder", flat=True)) == holders
