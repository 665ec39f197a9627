"""The public data set: what stands in its files and what never does, how they are published, and how they are read."""

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pyarrow import parquet

from benchmarks import jobs
from benchmarks.accounts import ownership
from benchmarks.dataset import files, nightly, rows
from benchmarks.dataset.tables import tables
from benchmarks.models import (
    Comment,
    Contest,
    ContestEntry,
    ContestParticipant,
    ContestTask,
    DeviceKind,
    Evaluation,
    Submission,
)
from benchmarks.moderation import decisions
from benchmarks.requests import asking
from benchmarks.states import ActionKind, ContestState, EvaluationReason
from tests.asking import opened, version_of

from . import factories

CANARY = "yellow-bird-7f3a9c"
KERNELBOT = ["submission_id", "leaderboard_id", "problem_name", "user_id", "user_name", "code_id", "file_name",
             "submission_time", "status", "score", "passed", "mode", "runner", "code"]  # fmt: skip


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path


def read(name: str) -> list[dict[str, Any]]:
    """The rows of a table as they were published."""
    manifest = files.current()
    assert manifest is not None
    found = files.file_of(manifest, name)
    assert found is not None
    rows: list[dict[str, Any]] = parquet.read_table(found[0]).to_pylist()
    return rows


def test_a_few_submissions_are_read_without_a_look_at_all_evaluations() -> None:
    """A search by state would make the export of a large site quadratic."""
    plan = rows._public_judgings([factories.judged().submission_id]).explain()
    assert "benchmarks_evaluation" in plan
    assert "(state=" not in plan


def spoilt(**options: Any) -> Submission:
    """Judged, and saying CANARY wherever a submission can."""
    text = f"// {CANARY}\n{factories.SOURCE}// {options}\n"
    found: Submission = factories.judged(text=text, title=CANARY, **options).submission
    return found


def published_bytes() -> bytes:
    """All values of all published tables."""
    manifest = files.current()
    assert manifest is not None
    return repr([read(table["name"]) for table in manifest["tables"]]).encode()


# --- what stands in it ----------------------------------------------------------------------------------------------


def test_a_judging_stands_in_every_table_with_its_baselines_and_interval(owner: Any) -> None:
    evaluation = factories.judged(factories.passing(2.0, 0.01), owner=owner, title="Fused loop")
    files.export()
    (submission,) = read("submissions")
    assert (submission["submission_id"], submission["author"], submission["source"]) == (
        str(evaluation.submission.code),
        "olga",
        factories.SOURCE,
    )
    assert submission["submitted_at"] == evaluation.submission.created
    reports = read("reports")
    timed = [row for row in reports if row["config_group"] != "hidden"]
    assert {(row["verdict"], row["score"], row["rank"], row["timing_trust"]) for row in reports} == {
        ("PASS", 2.0, 1, "supervisor")
    }
    assert {(row["kernel_us"], row["eager_us"], row["compile_us"]) for row in timed} == {(50.0, 100.0, 120.0)}
    assert all(row["energy_mj"] is None for row in timed)
    assert all(row["of_tolerance"] == pytest.approx(1e-6 / 5e-5) for row in timed)
    assert all(row["score_lo"] < row["score"] < row["score_hi"] for row in reports)
    assert {row["processor"] for row in reports} == {evaluation.report["environment"]["cpu"]}


def test_of_hidden_configurations_only_number_correctness_and_calls_are_told() -> None:
    factories.judged()
    files.export()
    (hidden,) = [row for row in read("reports") if row["config_group"] == "hidden"]
    assert (hidden["config"], hidden["correct"], hidden["calls"]) == ("hidden 1", True, 4)
    assert [hidden[name] for name in ("max_abs_error", "kernel_us", "failure", "speedup")] == [None] * 4


def test_samples_are_the_launches_of_timed_configurations() -> None:
    evaluation = factories.judged()
    shown = evaluation.report["configs"]
    for config in shown:
        config["launches_us"] = [[10.0, 20.0, 30.0], [11.0, "nan", None]]
    evaluation.save(update_fields=["report"])
    files.export()
    rows = read("samples")
    assert len(rows) == 2 * sum(config["group"] != "hidden" for config in shown)
    first = [row for row in rows if row["config"] == shown[0]["key"]]
    assert [(row["launch"], row["kernel_us"], row["eager_us"], row["compile_us"]) for row in first] == [
        (1, 10.0, 20.0, 30.0),
        (2, 11.0, None, None),
    ]


def test_what_did_not_compile_has_one_row_without_a_configuration() -> None:
    factories.judged(factories.failing())
    factories.queued(text="// waits\n")
    files.export()
    (row,) = read("reports")
    assert (row["verdict"], row["config"], row["score"]) == ("COMPILE_ERROR", None, None)
    assert len(read("submissions")) == 2


def test_kernelbot_has_the_columns_of_that_data_set_and_seconds() -> None:
    factories.judged(factories.passing(2.0, 0.01))
    factories.judged(factories.failing(), text="// fails\n")
    files.export()
    passed, failed = read("kernelbot")
    assert list(passed) == KERNELBOT
    assert passed["score"] == pytest.approx(50e-6)
    assert (passed["passed"], passed["mode"], passed["runner"], passed["status"]) == (
        True, "leaderboard", "cpu-avx2", "succeeded",
    )  # fmt: skip
    assert passed["file_name"] == "submission.cpp"
    assert 0 <= passed["submission_id"] < 1 << 63
    assert (failed["passed"], failed["score"]) == (False, None)


def test_an_entry_has_the_licence_of_the_site_at_its_time(settings: Any, visitor: Client) -> None:
    factories.judged(text="// before\n")
    settings.KBENCH_ENTRY_LICENCE = "CC-BY-4.0"
    factories.judged(text="// after\n")
    files.export()
    assert [row["licence"] for row in read("submissions")] == [None, "CC-BY-4.0"]
    page = visitor.get(reverse("submit", args=factories.TASK)).content.decode()
    assert "may be used by everybody under CC-BY-4.0" in page


# --- what never stands in it ----------------------------------------------------------------------------------------


def test_nothing_private_or_hidden_is_in_any_file(owner: Any, staff: Any) -> None:
    public = factories.judged(owner=owner)
    Comment.objects.create(submission=public.submission, author=owner, text=CANARY)
    for visibility in ("private", "unlisted"):
        spoilt(owner=owner, visibility=visibility)
    hidden = spoilt(owner=owner)
    decisions.decide(hidden, ActionKind.HIDE, by=staff, reason="Not a kernel.", note="")
    files.export()
    assert CANARY.encode() not in published_bytes()
    assert [row["submission_id"] for row in read("submissions")] == [str(public.submission.code)]


def test_a_request_that_staff_hide_leaves_the_next_export(owner: Any, stranger: Any, staff: Any) -> None:
    request = opened(owner, licence=f"{CANARY} licence")
    factories.judged(version=version_of(request), owner=stranger)
    files.export()
    assert CANARY.encode() in published_bytes()
    asking.request_decide(request, ActionKind.HIDE, by=staff, reason="An advertisement.")
    assert outdated()
    files.export()
    assert CANARY.encode() not in published_bytes()
    assert read("submissions") == []


def test_the_search_for_the_canary_can_find_it(owner: Any) -> None:
    spoilt(owner=owner)
    files.export()
    assert CANARY.encode() in published_bytes()


@pytest.mark.parametrize("state", [ContestState.JUDGING, ContestState.FINISHED])
def test_finals_are_there_when_the_contest_is_finished(state: ContestState, owner: Any, visitor: Client) -> None:
    evaluation = factories.judged(owner=owner)
    now = timezone.now()
    contest = Contest.objects.create(
        slug="c", title="C", rules_text="", starts=now - timedelta(days=2), ends=now - timedelta(days=1), state=state
    )
    task = ContestTask.objects.create(contest=contest, position=0, task=evaluation.task_version.task)
    who = ContestParticipant.objects.create(contest=contest, account=owner)
    columns = {"reason": EvaluationReason.CONTEST, "verdict_text": CANARY}
    final = Evaluation.objects.get(pk=evaluation.pk)
    ContestEntry.objects.create(
        task=task,
        device_kind=DeviceKind.objects.get(pk=final.device_kind_id),
        participant=who,
        submission=final.submission,
        final=final,
    )
    Evaluation.objects.filter(pk=final.pk).update(reason=columns["reason"], reason_text=CANARY)
    files.export()
    assert (CANARY.encode() in published_bytes()) == (state == ContestState.FINISHED)
    record = visitor.get("/api/v1/export").content  # for programs, page by page
    assert (CANARY.encode() in record) == (state == ContestState.FINISHED)


# --- when and how it is written -------------------------------------------------------------------------------------


def test_it_is_due_at_first_and_after_each_night(monkeypatch: pytest.MonkeyPatch) -> None:
    assert files.is_due()
    noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
    monkeypatch.setattr(timezone, "now", lambda: noon)
    files.export()
    for hours, due in ((1, False), (14, False), (16, True)):
        monkeypatch.setattr(timezone, "now", lambda hours=hours: noon + timedelta(hours=hours))
        assert files.is_due() == due


def outdated() -> bool:
    manifest = files.current()
    assert manifest is not None
    return files.is_outdated(manifest)


def test_it_is_outdated_when_something_in_it_is_no_longer_public(owner: Any, staff: Any) -> None:
    first, second = (factories.judged(owner=owner, text=f"// {number}\n").submission for number in range(2))
    files.export()
    factories.judged(text="// new\n")
    assert not outdated()  # what is new waits for the night
    decisions.decide(first, ActionKind.HIDE, by=staff, reason="Not a kernel.", note="")
    assert outdated()
    assert files.is_due()
    files.export()
    assert not outdated()
    ownership.account_delete(owner, keep_submissions=True)
    assert Submission.objects.published().filter(pk=second.pk).exists()
    assert outdated()


def test_it_is_outdated_when_the_schema_or_its_sources_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = files.export()
    (files.folder() / manifest["folder"] / "candidates.keys").unlink()
    assert outdated()
    files.export()
    monkeypatch.setattr(files, "SCHEMA_VERSION", 2)
    assert outdated()


def test_many_small_groups_hold_the_same_rows_in_bounded_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    factories.many_entries(120)
    pieces: list[int] = []
    real = files._groups

    def watched(rows: Any, rows_max: int) -> Any:
        for group in real(rows, rows_max):
            pieces.append(len(group))
            yield group

    monkeypatch.setattr(files, "_groups", watched)
    files.export(rows_per_group=7)
    assert max(pieces) == 7
    manifest = files.current()
    assert manifest is not None
    found = files.file_of(manifest, "submissions")
    assert found is not None
    stored = parquet.ParquetFile(found[0])
    assert (stored.metadata.num_rows, stored.metadata.num_row_groups) == (120, 18)
    assert found[1]["rows"] == 120
    assert len({row["submission_id"] for row in read("submissions")}) == 120


def test_long_sources_make_small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "GROUP_CHARS_MAX", 100)
    rows = iter([{"source": "x" * 60, "n": 1}] * 5)
    assert [len(group) for group in files._groups(rows, 1000)] == [2, 2, 1]


def test_an_export_that_fails_leaves_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    factories.judged()
    before = files.export()
    with monkeypatch.context() as patched:
        patched.setattr(files, "_publish", lambda manifest: (_ for _ in ()).throw(OSError("no space left")))
        with pytest.raises(OSError, match="no space left"):
            files.export()
    assert files.current() == before
    assert len(read("submissions")) == 1
    after = files.export()
    assert [path.name for path in files.folder().iterdir() if path.is_dir()] == [after["folder"]]


def test_two_cannot_write_at_once() -> None:
    files.folder().mkdir()
    with files._alone(), pytest.raises(CommandError, match="another process"):
        call_command("export_records")


def test_the_command_writes_and_the_hashes_are_right(capsys: pytest.CaptureFixture[str]) -> None:
    factories.judged()
    call_command("export_records")
    assert "submissions: 1 rows" in capsys.readouterr().out
    manifest = files.current()
    assert manifest is not None
    for table in manifest["tables"]:
        found = files.file_of(manifest, table["name"])
        assert found is not None
        content = found[0].read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (table["size_bytes"], table["sha256"])


def test_the_job_starts_a_process_only_when_it_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[bool] = []
    monkeypatch.setattr(nightly, "start", lambda: started.append(True))
    for due in (True, False):
        monkeypatch.setattr(files, "is_due", lambda due=due: due)
        jobs.export_records()
    assert started == [True]


def test_every_column_says_what_it_is_and_a_time_or_size_has_its_unit() -> None:
    for table in tables():
        assert len({column.name for column in table.columns}) == len(table.columns)
        for column in table.columns:
            assert column.about, column.name
            for suffix, unit in (("_us", "µs"), ("_s", "s"), ("_bytes", "bytes"), ("_at", "UTC")):
                assert not column.name.endswith(suffix) or column.unit == unit, column.name


# --- how it is read -------------------------------------------------------------------------------------------------


def body(response: Any) -> bytes:
    return b"".join(response.streaming_content) if response.streaming else response.content


URL = "/data/submissions.parquet"


@pytest.fixture
def written() -> bytes:
    factories.judged()
    manifest = files.export()
    found = files.file_of(manifest, "submissions")
    assert found is not None
    return found[0].read_bytes()


def test_the_page_shows_tables_columns_units_and_how_to_read(visitor: Client, written: bytes) -> None:
    page = visitor.get("/data/").content.decode()
    for words in ("submissions.parquet", "kernel_us", "µs", "read_parquet", "http://testserver/data/reports.parquet"):
        assert words in page


def test_the_page_says_when_nothing_has_been_written(visitor: Client) -> None:
    assert "have not been written yet" in visitor.get("/data/").content.decode()
    response = visitor.get("/api/v1/data")
    assert (response.status_code, response.json()["code"]) == (404, "not-written")
    assert visitor.get(URL).status_code == 404


def test_the_api_names_files_hashes_and_columns(visitor: Client, written: bytes) -> None:
    found = visitor.get("/api/v1/data").json()
    (table,) = [item for item in found["tables"] if item["name"] == "submissions"]
    assert (table["url"], table["rows"], table["sha256"]) == (URL, 1, hashlib.sha256(written).hexdigest())
    assert {"name": "source_bytes", "type": "integer", "unit": "bytes", "about": "size of the source"} in table[
        "columns"
    ]
    assert set(found) == {"schema_version", "made_at", "tables"}


async def test_a_file_comes_as_a_whole_in_parts_or_not_again(async_client: Any, written_async: bytes) -> None:
    whole, size = written_async, len(written_async)
    response = await async_client.get(URL)
    assert (response.status_code, response["Content-Type"]) == (200, "application/vnd.apache.parquet")
    assert b"".join([part async for part in response]) == whole
    etag = response["ETag"]
    for asked, first, last in (
        ("0-3", 0, 3),
        ("0-0", 0, 0),
        ("-8", size - 8, size - 1),
        (f"5-{size + 9}", 5, size - 1),
    ):
        part = await async_client.get(URL, headers={"Range": f"bytes={asked}"})
        assert (part.status_code, part["Content-Range"]) == (206, f"bytes {first}-{last}/{size}")
        assert b"".join([piece async for piece in part]) == whole[first : last + 1]
    for asked in (f"{size}-", "-0"):
        assert (await async_client.get(URL, headers={"Range": f"bytes={asked}"})).status_code == 416
    for odd in ("bytes=", "bytes=-", "bytes=0-1,4-5", "lines=0-1", "bytes=9" + "9" * 30 + "-"):
        response = await async_client.get(URL, headers={"Range": odd})
        assert (response.status_code, b"".join([part async for part in response])) == (200, whole)
    assert (await async_client.get(URL, headers={"If-None-Match": etag})).status_code == 304
    stale = await async_client.get(URL, headers={"Range": "bytes=0-3", "If-Range": '"another"'})
    assert (stale.status_code, b"".join([part async for part in stale])) == (200, whole)
    head = await async_client.head(URL)
    assert (head.status_code, head["Content-Length"]) == (200, str(size))


@pytest.fixture
def written_async(transactional_db: None, tasks: None, written: bytes) -> bytes:
    return written


@pytest.mark.parametrize("name", ["nothing", "manifest", "keys", "current"])
def test_only_tables_are_files(visitor: Client, written: bytes, name: str) -> None:
    assert visitor.get(f"/data/{name}.parquet").status_code == 404
