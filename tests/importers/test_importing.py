"""What an import leaves in the tables, run after run. Nothing is examined here: the outcome is given."""

import io
import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from benchmarks.boards.labels import is_ranked, text_of
from benchmarks.catalogue import importing
from benchmarks.catalogue.folders import spec_of, tasks_sync
from benchmarks.extensions import ReferenceOpinion
from benchmarks.harness import Examined, Isolation, TaskError
from benchmarks.importers import READERS, SuiteOrigin
from benchmarks.models import ImportReport, StoredTask, Task, TaskVersion

from .test_readers import MODEL, put

pytestmark = [pytest.mark.django_db, pytest.mark.sandbox]
NAMES = ("level1/1_a.py", "level1/2_b.py")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return put(tmp_path / "authors", dict.fromkeys(NAMES, MODEL))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, examined) -> list[str]:
    """The tasks that were examined, which all come out as one of the fixtures does; `bad` in a source is refused."""
    good = examined("level1/1_Scaled_matrix_product.py")
    names: list[str] = []

    def examine(foreign, paths, **how) -> Examined:
        names.append(foreign.op)
        if "bad" in foreign.source:
            return Examined(None, "it is bad")
        labels = ("one-shape", *(["small-output"] if "small" in foreign.source else []))
        labels += ("author-checker",) if "checks itself" in foreign.source else ()
        task = replace(good.task, suite=foreign.suite, op=foreign.op, title=foreign.title, labels=labels)
        return Examined(replace(task, reference_source=foreign.source), labels=labels, notes=("a note",))

    monkeypatch.setattr(importing, "examine", examine)
    return names


def run(folder: Path, *options: str) -> dict:
    out = io.StringIO()
    call_command("import_tasks", "kernelbench", str(folder), "--json", *options, stdout=out)
    found = json.loads(out.getvalue())
    return {item["op"]: item["outcome"] for item in found["tasks"]}


A, B = "level1_1_a", "level1_2_b"


def test_what_has_not_changed_is_left_alone(folder: Path, asked: list[str]) -> None:
    assert run(folder) == {A: "created", B: "created"}
    asked.clear()
    assert run(folder) == {A: "unchanged", B: "unchanged"}
    assert asked == []
    assert TaskVersion.objects.count() == 2


def test_what_has_changed_gets_a_version_more(folder: Path, asked: list[str]) -> None:
    run(folder)
    put(folder, {NAMES[0]: MODEL + "# another\n"})
    assert run(folder) == {A: "renewed", B: "unchanged"}
    assert [item.status for item in TaskVersion.objects.filter(task__op=A)] == ["active", "retired"]


def test_what_is_gone_is_unlisted_and_comes_back(folder: Path, asked: list[str]) -> None:
    run(folder)
    (folder / NAMES[1]).unlink()
    assert run(folder) == {A: "unchanged", B: "retired"}
    assert list(Task.objects.listed().values_list("op", flat=True)) == [A]
    put(folder, {NAMES[1]: MODEL})
    assert run(folder) == {A: "unchanged", B: "renewed"}


def test_a_broken_task_stops_nothing_and_keeps_what_was_there(folder: Path, asked: list[str]) -> None:
    run(folder)
    put(folder, {NAMES[0]: MODEL + "# bad\n", "level1/0_torn.py": "class Model(:"})
    assert run(folder) == {"level1_0_torn": "refused", A: "refused", B: "unchanged"}
    problem = ImportReport.objects.get(op=A, outcome="refused").problem
    assert "it is bad The previously imported version is kept." in problem
    assert TaskVersion.objects.get(task__op=A).status == "active"


def test_the_shipped_suites_and_imports_leave_each_other_alone(folder: Path, asked: list[str], tmp_path: Path) -> None:
    run(folder)
    (tmp_path / "no-suites").mkdir()
    assert tasks_sync(tmp_path / "no-suites").retired == ()
    with pytest.raises(CommandError, match="contains no task"):
        run(put(tmp_path / "empty", {"readme.md": ""}))
    assert Task.objects.listed().count() == 2


def test_a_suite_that_ships_takes_no_imports(folder: Path, asked: list[str]) -> None:
    tasks_sync()
    with pytest.raises(CommandError, match="comes with kbench"):
        run(folder, "--suite", "robust-kbench")


def test_a_public_site_wants_its_sandbox(folder: Path, asked: list[str], settings, monkeypatch) -> None:
    settings.KBENCH_PUBLIC = True
    monkeypatch.setattr(importing, "isolation_in_force", lambda: Isolation("limits", False, "no sandbox here"))
    with pytest.raises(CommandError, match="no sandbox here"):
        run(folder)
    assert asked == []


def test_a_worker_makes_the_task_from_its_row(folder: Path, asked: list[str], settings, tmp_path: Path) -> None:
    run(folder)
    settings.DATA_DIR = tmp_path / "another host"
    version = TaskVersion.objects.get(task__op=A)
    spec = spec_of(version)
    assert (spec.folder / "reference.py").read_text() == version.reference_source
    assert spec.folder.is_relative_to(tmp_path / "another host")
    (spec.folder / "reference.py").write_text("def forward(): pass")
    assert spec_of(version).folder.joinpath("reference.py").read_text() == version.reference_source


def test_a_definition_that_was_tampered_with_is_not_judged(folder: Path, asked: list[str]) -> None:
    run(folder)
    stored = StoredTask.objects.get(version__task__op=A)
    for config in stored.spec["configs"]["cpu"]:
        config["results"][0]["tolerance"] = 1.0
    stored.save()
    with pytest.raises(TaskError, match="has changed"):
        spec_of(TaskVersion.objects.get(task__op=A))


def test_hidden_configurations_are_not_in_what_pages_show(folder: Path, asked: list[str]) -> None:
    run(folder)
    shown = TaskVersion.objects.get(task__op=A).definition
    assert shown["devices"]["cpu"]["hidden"] == 2
    assert "shifted" not in json.dumps(shown)


def test_the_page_says_what_became_of_each_task(folder: Path, asked: list[str], client: Client) -> None:
    put(folder, {"level1/0_torn.py": "class Model(:", NAMES[1]: MODEL + "# small\n"})
    run(folder)
    page = " ".join(client.get("/suites/kernelbench/imports/").content.decode().split())
    for words in (
        "level1_1_a/forward",
        "Refused",
        "0_torn.py:1:",
        "New, not ranked",
        "1 note",
        text_of("small-output"),
    ):
        assert words in page
    assert client.get("/suites/nothing/imports/").status_code == 404


def test_an_older_run_stays_readable(folder: Path, asked: list[str], client: Client) -> None:
    run(folder)
    first = ImportReport.objects.first().run_id
    run(folder)
    assert "Unchanged" in client.get("/suites/kernelbench/imports/").content.decode()
    assert "Unchanged" not in client.get("/suites/kernelbench/imports/", {"run": first}).content.decode()


def test_the_task_page_tells_that_nothing_is_ranked(folder: Path, asked: list[str], client: Client) -> None:
    put(folder, {NAMES[1]: MODEL + "# small\n"})
    run(folder)
    pages = [client.get(f"/tasks/kernelbench/{op}/forward/").content.decode() for op in (A, B)]
    assert ["Nothing is ranked on this task" in page for page in pages] == [False, True]
    assert all(text_of("one-shape") in page for page in pages)


def test_the_task_page_tells_whose_check_decides(folder: Path, asked: list[str], client: Client) -> None:
    put(folder, {NAMES[1]: MODEL + "# checks itself\n"})
    run(folder)
    pages = [client.get(f"/tasks/kernelbench/{op}/forward/").content.decode() for op in (A, B)]
    assert ["<code>check_implementation</code>" in page for page in pages] == [False, True]
    assert ["the error of each element is at most" in page for page in pages] == [True, False]
    assert not any("Nothing is ranked on this task" in page for page in pages)


def test_python_is_offered_where_it_is_taken(folder: Path, asked: list[str], client: Client) -> None:
    tasks_sync()
    run(folder)
    takes = client.get(f"/tasks/kernelbench/{A}/forward/submit/").content.decode()
    other = client.get("/tasks/robust-kbench/mnist_pool/forward/submit/").content.decode()
    assert "PyTorch module" in takes
    assert "PyTorch module" not in other


def test_a_reader_of_references_may_add_a_label(folder: Path, asked: list[str]) -> None:
    put(folder, {NAMES[0]: f"{MODEL}# idle\n"})
    found = READERS["kernelbench"](folder, "kernelbench")

    def reads(source: str) -> ReferenceOpinion:
        return ReferenceOpinion(("redundant-reference", "one-shape") if "# idle" in source else (), ("It was read.",))

    how = importing.Settings(reads=reads)
    words = {"suite": "kernelbench", "format_name": "kernelbench", "origin": SuiteOrigin(folder)}
    importing.import_suite(found, **words, how=how, tell=lambda report: None)
    labels = dict(Task.objects.values_list("op", "labels"))
    assert labels == {A: ["one-shape", "redundant-reference"], B: ["one-shape"]}
    assert not is_ranked(labels[A])
    assert StoredTask.objects.get(version__task__op=A).notes == ["a note", "It was read."]


def test_without_a_key_nothing_is_read_and_the_command_says_so(folder: Path, asked: list[str], settings) -> None:
    settings.ANTHROPIC_API_KEY = ""
    with pytest.raises(CommandError, match="no key for language models is set"):
        run(folder, "--read-references", "1")
    assert asked == []


MIT = "The MIT License\n\nCopyright (c) 2026 The Authors\n\nPermission is hereby granted, free of charge, to any\n"


def test_licence_and_origin_are_shown_and_exported(folder: Path, asked: list[str], client: Client) -> None:
    put(folder, {"LICENSE": MIT})
    run(folder, "--source", "https://example.org/suite")
    task = Task.objects.get(op=A)
    assert task.licence == "MIT; Copyright (c) 2026 The Authors (LICENSE)"
    assert task.origin == "https://example.org/suite: level1/1_a.py"
    pages = [client.get(place).content.decode() for place in (task.get_absolute_url(), "/suites/kernelbench/imports/")]
    assert all(task.licence in page and "https://example.org/suite" in page for page in pages)
    detail = client.get(f"/api/v1/tasks/kernelbench/{A}/forward").json()
    assert (detail["licence"], detail["origin"]) == (task.licence, task.origin)
    (folder / "LICENSE").unlink()
    run(folder)
    assert Task.objects.get(op=A).licence == ""
    assert "No licence file was found for it." in client.get(task.get_absolute_url()).content.decode()


def test_labels() -> None:
    assert is_ranked([])
    assert is_ranked(["one-shape"])
    assert not is_ranked(["one-shape", "no-effect:x"])
    assert text_of("no-effect:x") == "x does not change the results."


def test_an_import_that_is_told_to_end_ends_in_order(folder: Path, monkeypatch: pytest.MonkeyPatch, paths) -> None:
    def examine(*_, **__) -> Examined:
        with TemporaryDirectory(dir=paths.scratch):
            os.kill(os.getpid(), signal.SIGTERM)
            return Examined(None, "it went on")

    before = set(paths.scratch.iterdir())
    monkeypatch.setattr(importing, "examine", examine)
    with pytest.raises(SystemExit) as ended:
        run(folder)
    assert ended.value.code == 128 + signal.SIGTERM
    assert set(paths.scratch.iterdir()) == before
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
