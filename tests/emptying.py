"""Empties the tables of the test database after a test whose transactions are real ones.

In place of Django's `flush`, which makes every table anew on PostgreSQL and then looks up all content types and
permissions, of which the site uses none. Does NOT set back the numbers of rows, which `flush` does not do either.
"""

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import TransactionTestCase


def fixture_teardown(case: TransactionTestCase) -> None:
    """For `TransactionTestCase._fixture_teardown`."""
    for name in case._databases_names(include_mirrors=False):
        empty(connections[name])


def empty(connection: BaseDatabaseWrapper) -> None:
    """In one transaction, at whose end foreign keys are checked: the order of the tables does not matter."""
    tables = connection.introspection.django_table_names(only_existing=True, include_views=False)
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        for table in tables:
            cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")  # noqa: S608 - a name of ours
