"""Long lists of choices say the same as Django's."""

from typing import Any

import pytest
from django import forms
from django.test.html import parse_html

from benchmarks.long_choices import LongSelect, LongSelectMultiple

CHOICES = [("", "all"), ("a/b", "a/b"), ('"<', "it's <b>")]


@pytest.mark.parametrize(
    ("ours", "theirs", "value"),
    [
        (LongSelect, forms.Select, None),
        (LongSelect, forms.Select, '"<'),
        (LongSelectMultiple, forms.SelectMultiple, None),
        (LongSelectMultiple, forms.SelectMultiple, ["a/b", '"<']),
    ],
)
def test_a_long_list_has_the_html_of_django(ours: Any, theirs: Any, value: Any) -> None:
    said = [
        kind({"size": 8}, CHOICES).render("task", value, {"id": "id_task", "required": True}) for kind in (ours, theirs)
    ]
    assert parse_html(said[0]) == parse_html(said[1])
