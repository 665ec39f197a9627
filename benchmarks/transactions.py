"""Repeats a transaction that the database has ended so that another one could go on.

All locks are taken in one order (docs/architecture.md), so that this should not happen; where it does, nothing has been
written. Does NOT repeat what a lost connection has ended: it may have been committed.
"""

import logging
import time
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from django.db import OperationalError, connection

logger = logging.getLogger(__name__)
ATTEMPTS_MAX = 4
PAUSE_S = 0.05
_OF_VICTIMS = ("40P01", "40001")  # SQLSTATE of a deadlock and of a serialization failure
_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def repeated(work: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """For a function that is one transaction and may be called again.

    Inside another transaction it is called once: the whole of that would have to be repeated.
    """

    @wraps(work)
    def until_done(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        attempt = 1
        while True:
            is_whole = not connection.in_atomic_block
            try:
                return work(*args, **kwargs)
            except OperationalError as error:
                if not (is_whole and is_victim(error)) or attempt >= ATTEMPTS_MAX:
                    raise
            logger.warning("%s was ended by the database in attempt %d and is repeated", work.__name__, attempt)
            time.sleep(PAUSE_S * attempt)
            attempt += 1

    return until_done


def is_victim(error: OperationalError) -> bool:
    """Whether the database has chosen this transaction to end a deadlock, or could not put it in an order."""
    return getattr(error.__cause__, "sqlstate", None) in _OF_VICTIMS
