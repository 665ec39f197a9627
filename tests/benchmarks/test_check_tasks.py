"""`manage.py check_tasks`."""

import io
import json

import pytest
from django.core.management import CommandError, call_command


def test_a_sound_task_gets_a_row_with_its_measured_errors():
    out = io.StringIO()
    call_command("check_tasks", "mnist_cross_entropy/forward", derive=True, stdout=out)
    assert "mnist_cross_entropy/forward" in out.getvalue()
    assert "admissible" in out.getvalue()
    assert "suggested" in out.getvalue()


def test_json_is_one_document():
    out = io.StringIO()
    call_command("check_tasks", "mnist_cross_entropy/forward", json=True, stdout=out)
    (found,) = json.loads(out.getvalue())
    assert found["admissible"] is True


def test_an_unknown_task_is_named():
    with pytest.raises(CommandError, match="nope/forward"):
        call_command("check_tasks", "nope/forward")
