"""Candidates of runs in the public data set: those with public judgings, and no word of what is withheld."""

from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from agents import moderation
from agents.models import Candidate, Run
from benchmarks.dataset import files
from benchmarks.models import Submission
from benchmarks.states import Moderation
from tests.web import factories as judgings

from . import factories

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks")]
CANARY = "yellow-bird-7f3a9c"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path


@pytest.fixture
def run() -> Run:
    """Finished, owned by olga; its best candidate says CANARY wherever it can and was judged in public."""
    made = factories.driven(factories.started(judgings.user("olga")))
    factories.remarked(made, CANARY, owner=made.owner)
    return made


def exported() -> list[dict[str, Any]]:
    manifest = files.export()
    found = files.file_of(manifest, "candidates")
    assert found is not None
    rows: list[dict[str, Any]] = parquet.read_table(found[0]).to_pylist()
    return rows


def outdated() -> bool:
    manifest = files.current()
    assert manifest is not None
    return files.is_outdated(manifest)


def best(run: Run) -> Candidate:
    return run.candidates.get(key=run.best_key)


def test_a_judged_candidate_stands_there_with_verdict_interval_parents_and_source(run: Run) -> None:
    (row,) = [row for row in exported() if row["candidate"] == run.best_key]
    stored = best(run)
    assert (row["run_id"], row["author"], row["name"], row["verdict"]) == (str(run.code), "olga", CANARY, "PASS")
    assert row["score_lo"] <= row["score"] <= row["score_hi"]
    assert (row["parents"], row["evaluation_id"], row["settings"]) == (
        stored.parents,
        stored.ticket,
        f'{{"GENE": "{CANARY}"}}',
    )
    assert row["source"]
    assert not {"thought", "prompt"} & set(row)


def test_what_was_dropped_is_there_with_its_reason(run: Run) -> None:
    dropped = [row for row in exported() if row["state"] == "dropped"]
    assert len(dropped) == run.candidates.filter(state="dropped").count() > 0
    assert all(row["drop_reason"] and row["score"] is None for row in dropped)


def make_private(run: Run) -> None:
    Submission.objects.filter(evaluations__code=best(run).ticket).update(visibility="private")


def make_unlisted(run: Run) -> None:
    Submission.objects.filter(evaluations__code=best(run).ticket).update(visibility="unlisted")


def hide_submission(run: Run) -> None:
    Submission.objects.filter(evaluations__code=best(run).ticket).update(moderation=Moderation.HIDDEN)


def withhold(run: Run) -> None:
    moderation.withhold(best(run), by=judgings.user("sam"), reason="Not a kernel.")


def hide_run(run: Run) -> None:
    moderation.hide_run(run, by=judgings.user("sam"), reason="Not a run.")


@pytest.mark.parametrize("take_away", [make_private, make_unlisted, hide_submission, withhold, hide_run])
def test_what_is_no_longer_public_makes_an_export_due_that_does_not_say_it(run: Run, take_away: Any) -> None:
    assert CANARY in repr(exported())
    assert not outdated()
    take_away(run)
    assert outdated()
    assert CANARY not in repr(exported())
    assert not outdated()


def test_a_duplicate_of_what_is_private_is_not_there(run: Run) -> None:
    text = best(run).source_sha256
    twin = run.candidates.filter(state="dropped")[0]
    run.candidates.filter(pk=twin.pk).update(source_sha256=text)
    assert twin.key in {row["candidate"] for row in exported()}
    make_private(run)
    assert outdated()
    assert text not in {row["source_sha256"] for row in exported()}


def test_the_text_of_a_withheld_candidate_stands_in_no_other_run(run: Run) -> None:
    other = factories.driven(factories.started())
    other.candidates.filter(key=other.best_key).update(ticket="")
    text = best(run).source_sha256
    assert text in {row["source_sha256"] for row in exported() if row["run_id"] == str(other.code)}
    withhold(run)
    assert text not in {row["source_sha256"] for row in exported()}
