"""What a log in a folder survives."""

import json
import os
import resource
import signal
from pathlib import Path

import pytest

from agents.evolve.events import TYPES, Draft
from agents.evolve.logs import JsonlLog, LogError, MemoryLog


def notes(*texts: str) -> list[Draft]:
    return [Draft("note", None, {"text": text}) for text in texts]


def texts(log: JsonlLog) -> list[str]:
    return [event.payload["text"] for event in log.read()]


def test_numbers_are_dense_from_1_and_survive_reopening(tmp_path: Path) -> None:
    with JsonlLog(tmp_path) as log:
        log.append(notes("a"))
        log.append(notes("b", "c"))
    with JsonlLog(tmp_path) as log:
        assert [event.seq for event in log.read()] == [1, 2, 3]
        assert [event.seq for event in log.read(after=2)] == [3]
        assert log.append(notes("d"))[0].seq == 4


@pytest.mark.parametrize("cut", range(1, 200, 7))
def test_half_a_commit_is_dropped_however_much_of_it_was_written(tmp_path: Path, cut: int) -> None:
    with JsonlLog(tmp_path) as log:
        log.append(notes("a"))
        whole = (tmp_path / "events.jsonl").stat().st_size
        log.append(notes("b", "c" * 50))
        end = (tmp_path / "events.jsonl").stat().st_size
    os.truncate(tmp_path / "events.jsonl", max(whole, end - cut))
    with JsonlLog(tmp_path) as log:
        assert texts(log) == ["a"]
        log.append(notes("d"))
    with JsonlLog(tmp_path) as log:
        assert texts(log) == ["a", "d"]


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with JsonlLog(tmp_path), pytest.raises(LogError, match="another process writes"):
        JsonlLog(tmp_path)


def test_a_file_that_lacks_events_is_refused(tmp_path: Path) -> None:
    with JsonlLog(tmp_path) as log:
        log.append(notes("a"))
        log.append(notes("b"))
    lines = (tmp_path / "events.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "events.jsonl").write_text(lines[1])
    with pytest.raises(LogError, match="out of order"):
        JsonlLog(tmp_path)


@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_sources_lie_under_their_hash(tmp_path: Path, kind: str) -> None:
    log = MemoryLog() if kind == "memory" else JsonlLog(tmp_path)
    sha256 = log.put_source("a µ\r\nb")
    assert log.put_source("a µ\r\nb") == sha256
    assert log.get_source(sha256) == "a µ\r\nb"
    with pytest.raises(KeyError):
        log.get_source("0" * 64)


@pytest.mark.parametrize("payload", [{"x": float("nan")}, {"x": object()}])
def test_what_is_not_json_is_not_committed(tmp_path: Path, payload: dict[str, object]) -> None:
    with JsonlLog(tmp_path) as log:
        with pytest.raises((TypeError, ValueError)):
            log.append([*notes("a"), Draft("note", None, payload)])
        assert log.read() == []
    assert (tmp_path / "events.jsonl").read_bytes() == b""


def test_a_full_disk_leaves_no_half_commit(tmp_path: Path) -> None:
    soft, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with JsonlLog(tmp_path) as log:
        log.append(notes("a"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, most))
        try:
            with pytest.raises(OSError, match="too large"):
                log.append(notes("b" * 2000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, most))
            signal.signal(signal.SIGXFSZ, handler)
        log.append(notes("c"))
    with JsonlLog(tmp_path) as log:
        assert texts(log) == ["a", "c"]


def test_lines_are_plain_events(tmp_path: Path) -> None:
    with JsonlLog(tmp_path) as log:
        log.append(notes("a", "b"))
    first, second = map(json.loads, (tmp_path / "events.jsonl").read_text().splitlines())
    assert (first["seq"], first["type"], first["payload"], first["more"]) == (1, "note", {"text": "a"}, True)
    assert "more" not in second


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no event type 'run\.vanished'"):
        Draft("run.vanished", None, {})


def test_every_type_is_in_the_table_of_the_docs() -> None:
    text = (Path(__file__).parents[2] / "docs" / "agents.md").read_text()
    assert [name for name in TYPES if f"`{name}`" not in text] == []
