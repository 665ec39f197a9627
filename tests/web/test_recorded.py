"""Pages and API of recorded results: marked as such, never mixed with the site's own, gone with one switch."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from benchmarks.models import DeviceKind, Method, RecordedEntry
from benchmarks.recorded.loading import SHIPPED, load_bundle
from benchmarks.states import Switch
from benchmarks.switches import switch_set
from tests.recorded import bundle_file
from tests.rows import cpu_kind

from . import factories

BUNDLE = "/recorded/bundle/"
BOARD = f"{BUNDLE}robust-kbench/mnist_linear_relu/forward/"
ENTRY = f"{BUNDLE}entries/first/"
PAGES = ("/recorded/", BUNDLE, BOARD, ENTRY)
PAGE_BYTES_MAX = 200_000
TRITON = {"slug": "reference-triton", "title": "Reference kernels, Triton", "kind": "library"}


@pytest.fixture
def bundle(tmp_path: Path) -> Any:
    """Two methods on two tasks; the second task is one that this site does not know."""
    reported = {"task": "robust-kbench/mnist_linear_relu/forward", "vs_eager": 7.25, "vs_compile": 3.5}
    entries = [
        {"speedup": 2.5},
        {"id": "second", "method": TRITON},
        {"id": "third", "task": "elsewhere/attention/forward", "source": None},
        {"id": "fourth", "task": "elsewhere/attention/forward", "method": TRITON, "speedup": 1.25},
    ]
    header = {"reported": {"origin": "A paper", "machine": "NVIDIA H100", "figures": [reported]}}
    return load_bundle(bundle_file(tmp_path / "bundle.jsonl", header, entries))


def text(client: Client, url: str) -> str:
    answer = client.get(url, follow=True)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


@pytest.mark.parametrize("url", PAGES[1:])
def test_every_page_says_where_when_and_under_which_rules(client: Client, bundle: Any, url: str) -> None:
    said = text(client, url)
    assert "<strong>Recorded</strong> on NVIDIA B200 on 2026-11-21 under rule set rk-1." in said
    assert "This site did not judge these kernels" in said


def test_the_list_names_device_rules_and_days(client: Client, bundle: Any) -> None:
    said = text(client, "/recorded/")
    for word in ("NVIDIA B200", "rk-1", "2026-11-21", "For a test."):
        assert word in said


def test_a_bundle_compares_methods_baselines_and_reported_figures(client: Client, bundle: Any) -> None:
    said = text(client, BUNDLE)
    for word in ("Reference kernels, Triton", "PyTorch eager", "torch.compile", "7.25× over eager", "A paper", "2.50×"):
        assert word in said
    assert f'href="{BOARD}"' in said


def test_a_board_shows_entries_baselines_and_what_others_report(client: Client, bundle: Any) -> None:
    said = text(client, BOARD)
    assert said.index("2.50×") < said.index("1.50×") < said.index("7.25×")
    assert "A paper" in said
    assert "/tasks/robust-kbench/mnist_linear_relu/forward/submit/" in said


def test_a_board_of_a_task_that_is_not_here_offers_no_submission(client: Client, bundle: Any) -> None:
    said = text(client, f"{BUNDLE}elsewhere/attention/forward/")
    assert "attention/<wbr>forward: recorded leaderboard" in said
    assert "Submit a kernel" not in said


def test_an_entry_shows_configurations_and_source_or_that_there_is_none(client: Client, bundle: Any) -> None:
    said = text(client, ENTRY)
    assert "batch_size=64" in said
    assert 'id="source"' in said
    assert "The source was not kept." in text(client, f"{BUNDLE}entries/third/")


@pytest.mark.parametrize(
    "url", [f"{BUNDLE}entries/nothing/", f"{BUNDLE}robust-kbench/layernorm/forward/", "/recorded/nothing/"]
)
def test_what_is_not_there_is_missing(client: Client, bundle: Any, url: str) -> None:
    assert client.get(url).status_code == 404


def test_home_shows_the_richest_board_first(client: Client, bundle: Any) -> None:
    assert "Fastest kernels recorded on NVIDIA B200" in text(client, "/")
    for op in ("mnist_linear_relu", "layernorm"):
        factories.judged(factories.passing(2.0, 0.02), version=factories.version(op), text=f"// {op}\n")
    said = text(client, "/")
    assert "Fastest kernels recorded" not in said
    assert f'href="{BUNDLE}"' in said


def test_empty_leaderboards_are_led_by_the_recorded_ones(client: Client, bundle: Any) -> None:
    assert f'href="{BOARD}"' in text(client, "/leaderboards/")
    factories.judged(factories.passing(2.0, 0.02))
    said = text(client, "/leaderboards/")
    assert f'href="{BOARD}"' not in said
    assert f'href="{BUNDLE}"' in said


def test_task_and_board_link_to_what_was_recorded(client: Client, bundle: Any) -> None:
    device = cpu_kind().slug
    for url in ("/tasks/robust-kbench/mnist_linear_relu/forward/",
                f"/leaderboards/robust-kbench/mnist_linear_relu/forward/{device}/"):  # fmt: skip
        assert f'href="{BOARD}"' in text(client, url)


def test_compare_opens_with_what_was_recorded_until_two_methods_met_here(client: Client, bundle: Any) -> None:
    assert "Tasks solved and how fast, on NVIDIA B200 (recorded)" in text(client, "/compare/")
    assert "(recorded)" not in text(client, "/compare/?methods=human")
    other = Method.objects.create(slug="other", title="Other", kind="agent")
    factories.judged(factories.passing(2.0, 0.02))
    factories.judged(factories.passing(1.5, 0.02), method=other, text="// other\n")
    answer = client.get("/compare/?p=1.5")
    assert answer.status_code == 302
    assert answer.url.startswith("/compare/?p=1.5&suite=robust-kbench")
    assert answer.url.endswith("&methods=human%2Cother")
    said = text(client, answer.url)
    assert '<h2 id="fast-title">' in said
    assert "(recorded)" not in said


def test_compare_shows_what_was_recorded_before_any_device_has_started(client: Client, bundle: Any) -> None:
    DeviceKind.objects.all().delete()
    said = text(client, "/compare/")
    assert "No device has started judging here yet." in said
    assert "Tasks solved and how fast, on NVIDIA B200 (recorded)" in said


def test_the_api_marks_what_was_recorded(client: Client, bundle: Any) -> None:
    (found,) = client.get("/api/v1/recorded").json()
    assert (found["recorded"], found["name"], found["tasks"], found["entries"]) == (True, "bundle", 2, 4)
    page = client.get("/api/v1/recorded/bundle").json()
    assert {row["id"]: row["rank"] for row in page["rows"]} == {"first": 1, "second": 2, "third": 1, "fourth": 2}
    whole = client.get("/api/v1/recorded/bundle/entries/first").json()
    assert whole["recorded"] is True
    assert (whole["device"], whole["ruleset"], whole["score"]["speedup"]) == ("nvidia-b200", "rk-1", 2.5)
    assert whole["report"]["configs"][0]["key"] == "batch_size=64"
    assert client.get("/api/v1/recorded/bundle/entries/third").json()["source"] is None


def test_the_switch_takes_everything_away(client: Client, bundle: Any) -> None:
    switch_set(Switch.RECORDED, on=False)
    assert [client.get(url).status_code for url in PAGES] == [200, 404, 404, 404]
    assert client.get("/api/v1/recorded").json() == []
    assert client.get("/api/v1/recorded/bundle").status_code == 404
    for url in ("/", "/recorded/", "/leaderboards/", "/compare/", "/tasks/robust-kbench/mnist_linear_relu/forward/"):
        assert "B200" not in text(client, url)


def test_own_boards_lists_and_api_know_nothing_of_them(client: Client, bundle: Any) -> None:
    device = cpu_kind().slug
    board = client.get(f"/api/v1/leaderboards?task=robust-kbench/mnist_linear_relu/forward&device={device}").json()
    assert (board["entries"], board["under_review"]) == ([], 0)
    assert "Reference kernels, Triton" not in text(client, "/methods/")
    assert client.get("/api/v1/overall?suite=robust-kbench").json()["methods"] == []


def test_the_longest_recorded_entry_is_a_small_page(client: Client) -> None:
    load_bundle(SHIPPED / "nvidia-h200-rk-1.jsonl")
    longest = max(RecordedEntry.objects.all(), key=lambda entry: len(entry.source or ""))
    assert len(longest.source or "") > 40_000
    assert len(client.get(longest.get_absolute_url()).content) < PAGE_BYTES_MAX
