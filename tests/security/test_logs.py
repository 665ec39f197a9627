"""A line of the log is one line, whatever a stranger put into it."""

import json
import logging

import pytest

from kbench_site.logs import JsonFormatter, TextFormatter

HOSTILE = "found\n2026-01-01 INFO kbench all is well\x1b[2J\x1b]0;title\x07\u202e\r"


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_control_characters_are_made_visible(formatter: logging.Formatter) -> None:
    record = logging.LogRecord("kbench", logging.WARNING, __file__, 1, "Not Found: %s", (HOSTILE,), None)
    line = formatter.format(record)
    assert line.isprintable()
    assert "all is well" in line


def record_of(words: str) -> logging.LogRecord:
    try:
        raise ValueError(words)
    except ValueError as error:
        return logging.LogRecord("kbench", logging.ERROR, __file__, 1, "broken", (), (ValueError, error, None))


def test_a_traceback_keeps_its_lines() -> None:
    record = record_of("no")
    assert json.loads(JsonFormatter().format(record))["error"] == "ValueError: no"
    assert TextFormatter().format(record).splitlines()[-1] == "    ValueError: no"


def test_the_words_of_an_error_cannot_pass_for_a_line_of_the_log() -> None:
    first, *others = TextFormatter().format(record_of(HOSTILE + "\ud800")).splitlines()
    assert first.endswith("broken")
    assert others
    assert all(line.startswith("    ") and line.isprintable() for line in others)
