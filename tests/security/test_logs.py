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


def test_a_traceback_keeps_its_lines() -> None:
    try:
        raise ValueError("no")
    except ValueError as error:
        record = logging.LogRecord("kbench", logging.ERROR, __file__, 1, "broken", (), (ValueError, error, None))
    text, machine = TextFormatter().format(record), JsonFormatter().format(record)
    assert text.splitlines()[-1] == "ValueError: no"
    assert json.loads(machine)["error"] == "ValueError: no"
