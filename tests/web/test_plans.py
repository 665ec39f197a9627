"""Where SQLite begins in queries that were slow on a large site; without statistics it takes any index for a good one.

Housekeeping gathers them every hour, and a new site has none that are worth much.

Does NOT measure: `lab/site` does.
"""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from benchmarks import jobs

from . import factories

pytestmark = pytest.mark.skipif(
    connection.vendor != "sqlite", reason="PostgreSQL has statistics, and reads small tables in whole"
)


def plans(client: Client, url: str) -> list[str]:
    """How each query of a page is answered."""
    with CaptureQueriesContext(connection) as ran:
        assert client.get(url).status_code == 200
    asked = [query["sql"] for query in ran if query["sql"].startswith("SELECT")]
    with connection.cursor() as cursor:
        return ["\n".join(row[-1] for row in cursor.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall()) for sql in asked]


def test_judgings_of_exported_submissions_are_not_looked_for_among_all_judgings(visitor: Client) -> None:
    for number in range(12):
        factories.judged(text=f"{factories.SOURCE}// {number}\n")
    assert not [plan for plan in plans(visitor, "/api/v1/export") if "(state=" in plan]


def test_entries_of_an_account_are_not_looked_for_among_all_entries(visitor: Client, owner: Any) -> None:
    factories.judged(factories.passing(), owner=owner)
    found = plans(visitor, "/people/olga/")
    assert any("benchmarks_standing USING INDEX" in plan and "(evaluation_id=?)" in plan for plan in found)
    assert not [plan for plan in found if "benchmarks_standing" in plan and "(ruleset_id=?)" in plan]


def test_the_record_of_a_board_is_not_looked_for_among_all_its_entries(visitor: Client) -> None:
    evaluation = factories.judged(factories.passing())
    factories.many_entries(12)
    found = plans(visitor, evaluation.get_absolute_url())
    assert [plan for plan in found if "(task_version_id=? AND device_kind_id=? AND ruleset_id=? AND rank=?)" in plan]


def test_housekeeping_gathers_the_statistics(visitor: Client) -> None:
    factories.judged()
    jobs.prune_events()
    with connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT tbl FROM sqlite_stat1")
        assert {"benchmarks_evaluation", "benchmarks_submission"} <= {table for (table,) in cursor.fetchall()}
