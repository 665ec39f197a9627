"""Searches on a GPU that `lab` measures: what their logs say, and what is left to judge."""

import argparse
import json
from pathlib import Path

import pytest

from agents.evolve.events import LogEvent
from agents.evolve.templates import find_template
from lab.gpu.search_curves import JudgedCandidate, account, best_at, compared, contenders_of, table
from lab.gpu.searches import (
    LEVERS,
    NEAR_SHIPPED,
    TASKS,
    GpuSearches,
    arguments_of,
    genome_of,
    sources_of,
    turns,
    warm_start,
)

RESULT = {"verdict": "PASS", "seconds": 12.0}
EVENTS = [
    LogEvent(1, 100.0, "run.created", None, {}),
    LogEvent(2, 101.0, "run.started", None, {}),
    LogEvent(3, 101.0, "proposal.received", "0-0", {"source_sha256": "aa"}),
    LogEvent(4, 121.0, "evaluation.finished", "0-0", {"result": {**RESULT, "score": 1.5}, "reused_from": None}),
    LogEvent(5, 122.0, "proposal.received", "1-0", {"source_sha256": "bb"}),
    LogEvent(6, 122.0, "proposal.received", "1-1", {"source_sha256": "cc"}),
    LogEvent(7, 131.0, "verdict", "1-0", {"verifier": "screen", "decision": "reject", "seconds": 2.0, "audit": False}),
    LogEvent(8, 133.0, "verdict", "1-1", {"verifier": "screen", "decision": "accept", "seconds": 1.0, "audit": False}),
    LogEvent(9, 161.0, "evaluation.finished", "1-1", {"result": {**RESULT, "score": 1.8}, "reused_from": None}),
]


def test_a_log_tells_the_curve_the_rate_and_where_the_time_went() -> None:
    found = account(EVENTS)
    assert found["curve"] == [[20.0, 1.5, "0-0", 1], [60.0, 1.8, "1-1", 3]]
    assert (found["decided"], found["decided_per_minute"], found["best"]) == (3, 3.0, 1.8)
    assert found["at"] == {"30": 1.5, "60": 1.8}
    assert found["seconds"]["screen"] == {"count": 2, "median": 1.5, "most": 2.0, "sum": 3.0}
    assert found["seconds"]["judge"]["count"] == 2
    assert best_at(found["curve"], 10) is None
    assert contenders_of(EVENTS, 1) == [JudgedCandidate("1-1", "cc", 1.8)]
    assert [item.candidate for item in contenders_of(EVENTS, 5)] == ["1-1", "0-0"]
    assert contenders_of(EVENTS[:3], 1) == []
    assert "| mnist_pool/forward | all | 60.0 | 3 | 3.0 | 2 | 1.8 |" in table(
        [{"task": "mnist_pool/forward", "lever": "all", **found}]
    )


@pytest.mark.parametrize(
    ("ours", "said"), [([2.0, 2.1, 2.0], "faster"), ([1.0, 1.9, 1.1], "undecided"), ([0.9, 0.91, 0.9], "slower")]
)
def test_turns_say_faster_only_if_the_whole_interval_does(ours: list[float], said: str) -> None:
    found = compared(ours, [1.0, 1.01, 1.0])
    assert found is not None
    assert (found["is"], found["pairs"]) == (said, 3)


def test_one_pair_says_nothing() -> None:
    assert compared([2.0], [1.0]) is None


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_a_template_and_settings_to_begin_with_that_it_has(task: str) -> None:
    template = find_template(task, "cuda")
    assert template is not None
    assert [template.space.faults(genome_of(text)) for text in NEAR_SHIPPED.get(task, ())] == [
        [] for _ in NEAR_SHIPPED.get(task, ())
    ]
    assert bool(warm_start(task, "cuda")) == (task in NEAR_SHIPPED)
    assert warm_start(task, "cpp") == {}


def bench(folder: Path) -> GpuSearches:
    options = {"out": folder / "out", "data": folder / "data", "earlier": [folder / "before"], "language": "cuda"}
    settings = {
        "tasks": ["mnist_pool/forward"],
        "rounds": 2,
        "budget_s": 60.0,
        "seconds": 5.0,
        "seed": 1,
        "contenders": 1,
    }
    search = {"generation_size": 8, "audit_fraction": 0.02, "device": "cuda:0"}
    return GpuSearches(argparse.Namespace(**options, **settings, **search))


def test_a_search_is_started_as_a_user_would(tmp_path: Path) -> None:
    for name, lever in LEVERS.items():
        arguments = arguments_of(bench(tmp_path), "mnist_pool/forward", name, tmp_path / "log")
        assert arguments[arguments.index("--verifiers") + 1] == lever.verifiers
        assert dict(lever.options).items() <= json.loads(arguments[arguments.index("--options") + 1]).items()
        assert ("--curriculum" in arguments) == (lever.curriculum is not None)


def test_what_was_judged_in_an_earlier_call_is_not_judged_again(tmp_path: Path) -> None:
    place = bench(tmp_path)
    assert sources_of(place, "mnist_pool/forward") == {}
    (tmp_path / "before").mkdir()
    record = {"task": "mnist_pool/forward", "lever": "all", "seed": 1}
    worse, better = {"score": 1.0, "source": "worse"}, {"score": 2.0, "source": "better"}
    record, worse = {**record, "contenders": [better]}, {**record, "contenders": [worse, better]}
    lines = [json.dumps(item) for item in (record, worse)]
    (tmp_path / "before" / "searches.jsonl").write_text("\n".join(lines) + "\n")
    sources = sources_of(place, "mnist_pool/forward")
    assert sources["winner"].text == "better"
    entries = {"mnist_pool/forward": sources}
    assert [kind for _, _, kind, _ in turns(place, entries)] == ["shipped", "winner", "winner", "shipped"]
    place.keep(
        "judged.jsonl",
        {"task": "mnist_pool/forward", "kind": "shipped", "source_sha256": sources["shipped"].sha256, "score": None},
    )
    assert [kind for _, _, kind, _ in turns(place, entries)] == ["winner", "winner", "shipped"]
    place.options.contenders = 5
    found = {kind: source.text for kind, source in sources_of(place, "mnist_pool/forward").items()}
    assert (list(found), found["contender 2"]) == (["shipped", "winner", "contender 2"], "worse")
