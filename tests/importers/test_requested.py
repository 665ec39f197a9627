"""The definition of a request, examined in the sandbox for real, as a worker does it."""

from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from benchmarks.catalogue import importing
from benchmarks.catalogue.folders import spec_of
from benchmarks.models import KernelRequest
from benchmarks.requests import examining
from benchmarks.states import RequestState
from tests.asking import posted, version_of

from .conftest import FIXTURES

pytestmark = [pytest.mark.django_db, pytest.mark.sandbox]


def test_a_posted_file_becomes_a_task_that_can_be_judged() -> None:
    text = (FIXTURES / "kernelbench" / "level1" / "1_Scaled_matrix_product.py").read_text()
    posted(get_user_model().objects.create_user("olga"), title="Scaled product", text=text)
    holding = examining.request_claim()
    assert holding is not None

    def examine(item: Any, how: importing.Settings) -> Any:
        return importing.examine_requested(item, replace(how, compare_compiled=False))

    assert holding.record(*examining.examine_files(holding.row, examine))
    request = KernelRequest.objects.get()
    assert (request.state, request.state_text) == (RequestState.OPEN, "")
    task = spec_of(version_of(request))
    assert (task.suite, task.op, task.title) == ("requests", f"request_{request.pk}", "Scaled product")
    assert {"single", "hidden"} <= {config.group for config in task.configs["cpu"]}
    assert task.takes_python
