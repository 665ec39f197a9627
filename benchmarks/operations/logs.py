"""The fields of a log line: the request, evaluation, run and account that are being worked on.

Fields are set for the length of a `with` block and put into every line by the formatters of the site. Nothing secret
belongs here: no token, no source. Does NOT write lines.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_fields: ContextVar[Mapping[str, str | int]] = ContextVar("log_fields", default={})  # noqa: B039 - never changed


@contextmanager
def log_fields(**fields: str | int | None) -> Iterator[None]:
    """Adds these fields to log lines written inside; None adds nothing."""
    known = {name: value for name, value in fields.items() if value is not None}
    token = _fields.set({**_fields.get(), **known})
    try:
        yield
    finally:
        _fields.reset(token)


def current_fields() -> Mapping[str, str | int]:
    return _fields.get()
