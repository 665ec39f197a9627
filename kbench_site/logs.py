"""Formats log lines: as text for people, or as one JSON object each for machines.

`KBENCH_LOG_FORMAT` chooses; web server and Celery workers write the same. A JSON line has `at`, `level`, `logger`,
`message`, the fields of `benchmarks.operations.logs` and, after an exception, `error` with its traceback. Does NOT
log bodies, queries or headers, so neither sources nor tokens are in a log.
"""

import json
import logging
from datetime import UTC, datetime
from typing import Any

from benchmarks.operations.logs import current_fields

OWN = "fields"  # of a single record: logger.info("...", extra={"fields": {...}})


def _visible(text: str) -> str:
    """One line without anything that a terminal would obey: what is logged may come from a stranger."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


class TextFormatter(logging.Formatter):
    """`2026-11-21 17:00:00,000 INFO benchmarks.jobs something happened [evaluation=...]`"""

    def __init__(self) -> None:
        super().__init__("{asctime} {levelname} {name} {message}", style="{")

    def formatMessage(self, record: logging.LogRecord) -> str:
        fields = " ".join(f"{name}={value}" for name, value in current_fields().items())
        return _visible(super().formatMessage(record) + (f" [{fields}]" if fields else ""))

    def formatException(self, ei: Any) -> str:
        """The traceback, indented: an error's text may be a stranger's, and cannot pass for a line of the log."""
        return "\n".join(f"    {_visible(line)}" for line in super().formatException(ei).splitlines())


class JsonFormatter(logging.Formatter):
    """One line per record, whatever is in its message."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **current_fields(),
            **getattr(record, OWN, {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def logging_config(form: str) -> dict[str, Any]:
    """Django's LOGGING. What the web server says goes the same way, instead of its own."""
    formatter = JsonFormatter if form == "json" else TextFormatter
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": formatter}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "root": {"handlers": ["stderr"], "level": "INFO"},
        "loggers": {
            "uvicorn": {"handlers": [], "propagate": True, "level": "WARNING"},
            "uvicorn.access": {"handlers": [], "propagate": False},  # `kbench.request` has the same with more
        },
    }
