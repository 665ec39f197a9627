"""An account with many submissions leaves within one request, which holds the boards of all of them."""

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchmarks.accounts import ownership
from benchmarks.models import Submission

from .test_bounds import enter, replayed

FEW, MANY, EACH_MAX = 3, 9, 3.0


def _queries_of(name: str, count: int, *, keep: bool) -> int:
    for number in range(count):
        enter(name, replayed(1.5 + number / 100), f"int {name}{number};")
    leaving = User.objects.get(username=name)
    with CaptureQueriesContext(connection) as found:
        ownership.account_delete(leaving, keep_submissions=keep)
    return len(found)


@pytest.mark.parametrize("keep", [False, True])
def test_a_submission_more_costs_few_queries(keep: bool) -> None:
    few, many = _queries_of("olga", FEW, keep=keep), _queries_of("stefan", MANY, keep=keep)
    assert Submission.objects.filter(owner=None).count() == (FEW + MANY if keep else 0)
    assert (many - few) / (MANY - FEW) <= EACH_MAX
