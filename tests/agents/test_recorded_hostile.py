"""Files of recorded runs by somebody who wants a false figure on a page, or a page that cannot be shown.

Each case was once loaded: it showed the figure, or every reader of a page of the run got an error.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from agents.models import RecordedRun
from agents.record import kept_file
from benchmarks.recorded.bundles import BundleError
from benchmarks.recorded.loading import load_file

from .recording import CODE, run_file

Events = list[dict[str, Any]]
Change = Callable[[Events], object]
PAGE = f"/runs/{CODE}/"
PAGES = ("", "?x=minutes", "?x=usd", "?at=20", "live/", "figure.json", "candidates/", "log/", "log.jsonl")


def result(**fields: Any) -> Change:
    """Of the last accepted candidate."""
    return lambda events: accepted(events)[-1].update(fields)


def config(**fields: Any) -> Change:
    return lambda events: accepted(events)[-1]["configs"][0].update(fields)


def accepted(events: Events) -> list[dict[str, Any]]:
    results = [event["payload"]["result"] for event in events if event["type"] == "evaluation.finished"]
    return [item for item in results if item["verdict"] == "PASS"]


def first(kind: str, **fields: Any) -> Change:
    return lambda events: next(item for item in events if item["type"] == kind)["payload"].update(fields)


def added(kind: str, *payloads: dict[str, Any], candidate: str | None = None) -> Change:
    """Before the last event."""

    def change(events: Events) -> None:
        at_s = events[-1]["at_s"]
        for payload in payloads:
            new = {"at_s": at_s, "type": kind, "candidate": candidate, "payload": payload}
            events.insert(-1, new)
        for number, event in enumerate(events, 1):
            event["seq"] = number

    return change


def again(events: Events) -> None:
    judged = next(item for item in events if item["type"] == "evaluation.finished")
    added("evaluation.finished", judged["payload"], candidate=judged["candidate"])(events)


def reused(events: Events) -> None:
    """The result of the first candidate, which has another one."""
    judged = [item for item in events if item["type"] == "evaluation.finished"]
    judged[-1]["payload"]["reused_from"] = judged[0]["candidate"]


def unseen(events: Events) -> None:
    """A candidate that nobody has proposed is judged."""
    payload = {"result": accepted(events)[-1]}
    added("evaluation.finished", payload, candidate="9-9")(events)


def twice(events: Events) -> None:
    configs = accepted(events)[-1]["configs"]
    configs.append(configs[0])


def more(events: Events) -> None:
    events.append({**events[-1], "seq": len(events) + 1, "type": "note"})


def opposite(events: Events) -> None:
    for event in events:
        event["at_s"] = 3.6e9 - event["at_s"]


def settings(**fields: Any) -> Change:
    return lambda events: events[0]["payload"]["config"].update(fields)


HOSTILE: dict[str, tuple[Change, str]] = {
    "a score that its configurations do not give": (result(score=900.0, ci95=[800.0, 1000.0], vs_eager=900.0), "mean"),
    "a score outside of its interval": (result(score=900.0), "outside of its interval"),
    "a score below zero": (result(score=-3.0, ci95=[-4.0, -2.0]), "score"),
    "a score without end": (result(score=1e308, ci95=[1e308, 1.7e308]), "score"),
    "an interval that ends before it begins": (result(ci95=[9.0, 1.0]), "outside of its interval"),
    "an interval below zero": (result(ci95=[-1.0, 9.0]), "ci95"),
    "accepted without a score": (result(score=None, ci95=None), "an accepted candidate has a score"),
    "accepted without configurations": (result(configs=[]), "no configuration has a speedup"),
    "accepted though something is wrong": (config(correct=False, speedup=None, ci95=None), "is not correct"),
    "a score of a candidate that was refused": (result(verdict="TAMPERING"), "an accepted candidate has a score"),
    "a verdict that is none": (result(verdict="GREAT"), "verdict"),
    "more than over one of the baselines": (result(vs_eager=0.1), "stronger baseline"),
    "seconds below zero": (result(seconds=-5), "seconds"),
    "a configuration twice": (twice, "occurs twice"),
    "a speedup that its times do not give": (config(kernel_us=1e-3), "its times give"),
    "a speedup without times": (config(kernel_us=None), "times"),
    "a speedup as a text": (config(speedup="3.0"), "valid number"),
    "infinity as a text": (config(roofline_fraction="inf"), "valid number"),
    "a whole number of four hundred digits": (config(kernel_us=10**400), "kernel_us"),
    "resources that are a list": (result(resources=[1]), "resources"),
    "settings that are a list": (first("proposal.received", params=[1, 2]), "params"),
    "settings within settings": (first("proposal.received", params={"A": {"a": 1}}), "params"),
    "a probability of two": (first("proposal.requested", probabilities={"0-0": 2}), "probabilities"),
    "one configuration first, twice": (added("curriculum.began", *[{"config": "a"}] * 2), "ends at most once"),
    "the end of what never began": (added("curriculum.ended", {"text": "so"}), "ends at most once"),
    "seconds of a tool as a text": (
        added("tool.called", {"turn": 1, "tool": "x", "seconds": "long"}, candidate="0-0"),
        "seconds",
    ),
    "a verifier of two opinions": (
        added("verdict", *({"verifier": "a", "decision": word} for word in ("accept", "reject")), candidate="0-0"),
        "two opinions",
    ),
    "dollars that come back": (added("budget.settled", {"lease": "x", "cost": {"usd": -1e9}}), "cost"),
    "a currency of its own": (added("budget.settled", {"lease": "x", "cost": {"clams": 1}}), "cost"),
    "open reservations without end": (
        added("budget.reserved", *({"lease": str(number), "cost": {}} for number in range(1100))),
        "more reservations",
    ),
    "a truth for a number": (added("budget.settled", {"lease": "x", "cost": {"usd": True}}), "cost"),
    "a seed below zero": (settings(seed=-1), "seed"),
    "a cap without end": (settings(caps={"judgings": 10**30}), "caps"),
    "a target that is a truth": (settings(target=True), "target"),
    "time that runs backwards": (opposite, "earlier than the one before it"),
    "a candidate that is judged twice": (again, "judged twice"),
    "a result of another candidate": (reused, "differs from that of the candidate"),
    "a judging of what nobody proposed": (unseen, "its source is missing"),
    "a run that begins twice": (added("run.started", {}), "begins twice"),
    "more after the end": (more, "the last event is not"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_a_file_that_contradicts_itself_is_refused(tasks: None, tmp_path: Path, case: str) -> None:
    change, said = HOSTILE[case]
    with pytest.raises(BundleError, match=said):
        load_file(run_file(tmp_path / "run.jsonl", change=change))
    assert not RecordedRun.objects.exists()


@pytest.mark.parametrize(("keys", "score"), [(("n=1,calls=1", "n=2,calls=3"), 2**0.5), (("n=1", "n=2"), 2.0)])
def test_a_score_is_the_mean_in_which_each_configuration_has_its_weight(
    tasks: None, tmp_path: Path, keys: tuple[str, str], score: float
) -> None:
    """Four times as fast in one configuration, as fast in the other."""

    def scored(by: float) -> Change:
        def change(events: Events) -> None:
            found = accepted(events)[-1]
            times = [
                {"eager_us": 40.0, "speedup": 4.0, "ci95": [4, 4]},
                {"eager_us": 10.0, "speedup": 1.0, "ci95": [1, 1]},
            ]
            rows = [
                {"key": key, "group": "multi", "correct": True, "kernel_us": 10.0, **one}
                for key, one in zip(keys, times, strict=True)
            ]
            found.update(configs=rows, score=by, ci95=[by / 2, by * 2], vs_eager=by, vs_compile=None)

        return change

    with pytest.raises(BundleError, match="the mean of its configurations"):
        load_file(run_file(tmp_path / "false.jsonl", change=scored(2 * 2**0.5 / score)))
    load_file(run_file(tmp_path / "true.jsonl", change=scored(score)))
    assert RecordedRun.objects.exists()


def test_no_name_in_a_file_is_a_word_of_the_templates(client: Client, tasks: None, tmp_path: Path) -> None:
    """A template looks for a key before it looks for a method, so `items` as a name ended each page."""
    names = ("items", "keys", "values", "get")

    def change(events: Events) -> None:
        first("proposal.received", params=dict.fromkeys(names, "x"))(events)
        result(resources=dict.fromkeys(names, "x"))(events)

    load_file(run_file(tmp_path / "run.jsonl", {"machine": dict.fromkeys(names, "x")}, change))
    keys = {event["candidate"] for event in RecordedRun.objects.get().events if event["candidate"]}
    for page in (*PAGES, *(f"candidates/{key}/" for key in keys)):
        assert client.get(f"{PAGE}{page}").status_code == 200, page


def test_a_log_is_not_larger_than_what_each_page_can_read(tasks: None, tmp_path: Path) -> None:
    words = {"text": "x" * 1_000_000}
    path = run_file(tmp_path / "run.jsonl", change=added("note", *[words] * 17))
    with pytest.raises(BundleError, match=f"larger than {kept_file.RUN_MAX_BYTES} bytes"):
        load_file(path)


def test_the_longest_log_is_folded_in_seconds(client: Client, tasks: None, tmp_path: Path) -> None:
    """With as many candidates, each of many parents, and as many reservations as may be."""
    parents = [f"9-{number}" for number in range(200)]
    place = {"generation": 9, "slot": 1, "island": 0}

    def change(events: Events) -> None:
        for number in range(9_000):
            added_parents = parents if 200 <= number < 2_000 else []
            new = {"candidate": f"9-{number}", "type": "proposal.requested"}
            events.insert(-1, {**new, "at_s": events[-1]["at_s"], "payload": {**place, "parents": added_parents}})
        for number in range(9_000):
            payload = {"lease": str(number % 1000), "cost": {"usd": 1.0}}
            events.insert(
                -1, {"candidate": None, "type": "budget.reserved", "at_s": events[-1]["at_s"], "payload": payload}
            )
        for number, event in enumerate(events, 1):
            event["seq"] = number

    load_file(run_file(tmp_path / "run.jsonl", change=change))
    started_s = time.process_time()
    for page in ("", "candidates/", "log/", "candidates/9-300/"):
        assert client.get(f"{PAGE}{page}").status_code == 200
    assert time.process_time() - started_s < 60
