"""Recorded runs: the file is checked, the pages replay it and offer nothing, and no figure of this site includes it."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from agents import selectors
from agents.extension.metrics import run_metrics
from agents.models import Candidate, Opinion, RecordedRun, Run, RunEvent
from agents.record import kept
from agents.record.snapshots import past
from agents.templatetags.runs import elapsed_s
from benchmarks.models import DeviceKind, Method
from benchmarks.recorded.bundles import SHIPPED, BundleError
from benchmarks.recorded.loading import load_file, load_shipped
from benchmarks.states import Switch
from benchmarks.switches import switch_set
from tests.web.factories import version

from . import factories
from .recording import CODE, run_file

PAGE = f"/runs/{CODE}/"
PAGES = ("", "live/", "figure.json", "candidates/", "log/", "log.jsonl")


@pytest.fixture
def recorded(tasks: None, tmp_path: Path) -> RecordedRun:
    load_file(run_file(tmp_path / "run.jsonl"))
    return RecordedRun.objects.get()


def text(client: Client, url: str) -> str:
    answer = client.get(url)
    assert answer.status_code == 200, url
    return " ".join(answer.content.decode().split())


def best(run: RecordedRun) -> Candidate:
    shown = kept.run_with(run.code)
    assert shown is not None
    return selectors.candidate_of(shown, shown.best_key)


def test_every_page_of_it_says_that_it_was_recorded_and_where(client: Client, recorded: RecordedRun) -> None:
    for url in (PAGE, f"{PAGE}candidates/", f"{PAGE}candidates/{best(recorded).key}/", f"{PAGE}log/"):
        said = text(client, url)
        assert "<strong>Recorded</strong> on CPU with AVX-9 (A processor) on " in said, url
        assert "under rule set rk-1" in said
    assert "For a test." in text(client, PAGE)
    assert "Search of a test" in text(client, PAGE)


def test_it_is_replayed_event_by_event(client: Client, recorded: RecordedRun) -> None:
    ended, begun = text(client, PAGE), text(client, f"{PAGE}?at=5")
    assert f'max="{len(recorded.events)}"' in ended
    assert "This page shows the run at event 5" in begun
    assert best(recorded).key in ended
    assert "No correct kernel yet" in begun
    judged = [event["seq"] for event in recorded.events if event["type"] == "evaluation.finished"]
    counts = [text(client, f"{PAGE}?at={seq}").split(" judged</dd>")[0].rsplit(" ", 1)[1] for seq in judged]
    assert counts == [str(number) for number in range(1, len(judged) + 1)]


def test_a_recorded_run_shows_that_its_best_was_judged_again(client: Client, tasks: None, tmp_path: Path) -> None:
    load_file(run_file(tmp_path / "run.jsonl", confirmations=2))
    run = RecordedRun.objects.get()
    assert best(run).judgings == 2
    began = next(event["seq"] for event in run.events if event["type"] == "confirming.began")
    assert "confirmed by 1 more judging;" in text(client, PAGE)
    assert "confirmed by" not in text(client, f"{PAGE}?at={began}")
    assert "The best candidates are judged again: " in text(client, f"{PAGE}?at={began}")
    assert "are judged again: the next candidate does not fit into the budget" in text(client, f"{PAGE}log/")


def test_the_time_of_an_earlier_event_is_that_of_the_event(client: Client, recorded: RecordedRun) -> None:
    began = next(event["at_s"] for event in recorded.events if event["type"] == "run.started")
    shown = kept.run_with(recorded.code)
    assert shown is not None
    scene = past(shown, 20)
    assert elapsed_s(scene.run) == pytest.approx(recorded.events[19]["at_s"] - began, abs=1e-5)


@pytest.mark.parametrize(("judgings", "said"), [("full", "the stronger baseline, 1×"), ("quick", "PyTorch eager, 1×")])
def test_quick_judgings_are_compared_with_eager(
    client: Client, tasks: None, tmp_path: Path, judgings: str, said: str
) -> None:
    load_file(run_file(tmp_path / "run.jsonl", {"judgings": judgings}))
    assert said in text(client, PAGE)
    assert said in json.dumps(client.get(f"{PAGE}figure.json").json(), ensure_ascii=False)
    assert ("by quick judgings" in text(client, PAGE)) is (judgings == "quick")


def test_the_candidate_has_source_opinions_configurations_and_events(client: Client, recorded: RecordedRun) -> None:
    row = best(recorded)
    said = text(client, f"{PAGE}candidates/{row.key}/")
    for heading in ("Verifier opinions", "Configurations", "Source", "Events"):
        assert f">{heading}</h2>" in said
    assert client.get(f"{PAGE}candidates/none/").status_code == 404
    kinds = text(client, f"{PAGE}log/?type=verdict&candidate={row.key}")
    assert "evaluation.finished</td>" not in kinds
    assert 'id="e1"' in text(client, f"{PAGE}log/?seq=1")
    assert len(client.get(f"{PAGE}log.jsonl").content.splitlines()) == len(recorded.events)


def test_nobody_is_offered_to_control_it(as_staff: Client, recorded: RecordedRun) -> None:
    said = text(as_staff, PAGE)
    for word in ("Fork", "Pause", "Resume", "Stop</button>", "Moderate this run", "Continue from here"):
        assert word not in said
    assert "moderate</a>" not in text(as_staff, f"{PAGE}candidates/{best(recorded).key}/")
    for turn in ("pause", "resume", "stop", "fork"):
        assert as_staff.post(f"{PAGE}{turn}/").status_code == 404
    assert as_staff.get(f"{PAGE}moderate/").status_code == 404
    assert as_staff.get(f"/api/v1/runs/{CODE}").status_code == 404
    assert as_staff.get(f"/events/?topics=run:{CODE}").status_code in (403, 404)


def test_the_list_has_it_apart_from_the_runs_of_this_site(client: Client, recorded: RecordedRun) -> None:
    own = factories.driven()
    said = text(client, "/runs/")
    assert said.index("Recorded runs") < said.index(str(kept.run_with(recorded.code))) < said.index("Runs of this site")
    assert said.index("Runs of this site") < said.index(str(own))
    assert "Recorded runs" not in text(client, "/runs/?q=mnist")


def test_no_figure_of_this_site_includes_it(client: Client, recorded: RecordedRun) -> None:
    for rows in (Run, Candidate, Opinion, RunEvent):
        assert not rows.objects.exists()
    assert not DeviceKind.objects.filter(slug="cpu-avx9").exists()
    assert not Method.objects.filter(title="Search of a test").exists()
    assert selectors.matrix_rows() == []
    assert [sample.value for family in run_metrics() for sample in family.samples] == []
    assert client.get("/api/v1/runs").json()["runs"] == []


@pytest.mark.parametrize("by", ["switch", "setting"])
def test_the_one_switch_takes_it_away(client: Client, recorded: RecordedRun, by: str, settings: Any) -> None:
    key = best(recorded).key
    if by == "switch":
        switch_set(Switch.RECORDED, on=False)
    else:
        settings.KBENCH_RECORDED = False
    assert {client.get(f"{PAGE}{page}").status_code for page in (*PAGES, f"candidates/{key}/")} == {404}
    assert "Recorded runs" not in text(client, "/runs/")
    assert RecordedRun.objects.exists()


def test_a_run_on_a_task_that_is_not_here_is_not_shown(client: Client, tasks: None, tmp_path: Path) -> None:
    load_file(run_file(tmp_path / "run.jsonl", {"task": "elsewhere/attention/forward"}))
    assert client.get(PAGE).status_code == 404
    assert "Recorded runs" not in text(client, "/runs/")


def test_it_says_where_the_task_has_changed_since(client: Client, tasks: None, tmp_path: Path) -> None:
    same = version().content_sha256
    for number, (sha256, said) in enumerate(((same, False), ("0" * 64, True))):
        load_file(run_file(tmp_path / f"{number}.jsonl", {"task_sha256": sha256}))
        assert ("another version of the task" in text(client, PAGE)) is said


def test_the_same_file_changes_nothing_and_a_newer_one_replaces_it(tasks: None, tmp_path: Path) -> None:
    path = run_file(tmp_path / "run.jsonl")
    counts = [load_file(path), load_file(path), load_file(run_file(path, {"about": "Another."}))]
    assert [(item.created, item.unchanged, item.replaced) for item in counts] == [(1, 0, 0), (0, 1, 0), (0, 0, 1)]
    with pytest.raises(BundleError, match="code"):
        load_file(run_file(path, {"name": "other"}))
    call_command("load_records", "--remove", "search")
    assert not RecordedRun.objects.exists()
    with pytest.raises(CommandError, match="there is no bundle search"):
        call_command("load_records", "--remove", "search")


def _put(kind: str, **payload: Any) -> Any:
    def change(events: list[dict[str, Any]]) -> None:
        first = next(event for event in events if event["type"] == kind)
        first["payload"] |= payload

    return change


BROKEN = {
    "an event is missing": (lambda events: events.pop(3), "event 5 where event 4"),
    "it has not ended": (lambda events: events.pop(), "is not the end of the run"),
    "it has no beginning": (lambda events: events[0].update(type="note"), "does not begin"),
    "an unknown type": (lambda events: events[3].update(type="rm"), "no event type"),
    "an unknown field": (lambda events: events[3].update(more=True), "more"),
    "a key that is no address": (lambda events: events[3].update(candidate="../x"), "candidate"),
    "a source that is not there": (_put("proposal.received", source_sha256="0" * 64), "its source is missing"),
    "a parent that is not there": (_put("proposal.received", parents=["9-9"]), "names a candidate"),
    "a number that is a text": (_put("proposal.received", generation="1"), "generation"),
    "a name that is too long": (_put("proposal.received", template="x" * 200), "template"),
    "a character that no database takes": (_put("proposal.received", thought="a\0b"), "no database takes"),
    "a score that is a text": (
        _put("evaluation.finished", result={"verdict": "PASS", "score": "fast"}),
        "result.score",
    ),
    "a configuration without a name": (
        _put("evaluation.finished", result={"verdict": "PASS", "score": 1.0, "configs": [{"speedup": 1.0}]}),
        "key",
    ),
    "a result that says nothing": (_put("evaluation.finished", result={}), "verdict"),
    "a configuration of the search that is none": (_put("run.created", config={"task": 1, "seed": "x"}), "event 1"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_refused_as_a_whole(tasks: None, tmp_path: Path, case: str) -> None:
    change, said = BROKEN[case]
    with pytest.raises(BundleError, match=said):
        load_file(run_file(tmp_path / "run.jsonl", change=change))
    assert not RecordedRun.objects.exists()


def test_words_of_the_file_are_never_markup(client: Client, tasks: None, tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>"

    def change(events: list[dict[str, Any]]) -> None:
        for event in events:
            for name in ("text", "thought", "name", "hint"):
                if name in event["payload"]:
                    event["payload"][name] = hostile

    words = {"about": hostile, "device_title": hostile, "machine": {"cpu": hostile}, "method_title": hostile}
    load_file(run_file(tmp_path / "run.jsonl", words, change))
    key = best(RecordedRun.objects.get()).key
    for url in ("/runs/", PAGE, f"{PAGE}candidates/", f"{PAGE}candidates/{key}/", f"{PAGE}log/"):
        said = text(client, url)
        assert "<script>alert" not in said
        assert "&lt;script&gt;" in said


def test_the_run_that_ships_can_be_replayed(client: Client, all_tasks: None) -> None:
    load_shipped()
    shipped = list(RecordedRun.objects.all())
    assert [run.name for run in shipped] == sorted(path.stem for path in SHIPPED.glob("run-*.jsonl")) != []
    for run in shipped:
        assert "<strong>Recorded</strong>" in text(client, f"/runs/{run.code}/")
        assert "<strong>Recorded</strong>" in text(client, f"/runs/{run.code}/candidates/{best(run).key}/")
