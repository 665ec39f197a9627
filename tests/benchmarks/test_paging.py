"""Pages whose rows are looked up by key. Not covered: the lists that use them, each beside its page."""

import pytest
from django.contrib.auth import get_user_model
from django.db.models.functions import Length
from pytest_django import DjangoAssertNumQueries

from benchmarks.selectors import page_by_key

User = get_user_model()
pytestmark = pytest.mark.django_db


def people(count: int) -> None:
    User.objects.bulk_create(User(username=f"u{number}") for number in range(count))


def test_rows_come_in_the_order_of_the_keys_with_what_the_rows_know() -> None:
    people(5)
    rows = User.objects.annotate(length=Length("username")).order_by("username")
    found = page_by_key(User.objects.order_by("-username"), rows, 2, rows_per_page=2)
    assert [(row.username, row.length) for row in found] == [("u2", 2), ("u1", 2)]
    assert (found.number, found.paginator.num_pages) == (2, 3)


@pytest.mark.parametrize("count", [3, 1100])
def test_however_many_rows_a_page_has_it_takes_as_many_queries(
    count: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    people(count)
    with django_assert_num_queries(3):
        found = page_by_key(User.objects.order_by("pk"), User.objects.all(), 1, rows_per_page=2000)
        assert len(found) == count
