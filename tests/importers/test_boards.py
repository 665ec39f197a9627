"""Imported tasks on the boards, with reports as a judge would write them: ranked, or not where a filter trips."""

import pytest
from django.test import Client

from benchmarks import services
from benchmarks.catalogue.folders import spec_of
from benchmarks.harness import Source
from benchmarks.judgings import moves
from benchmarks.models import Evaluation, Standing, TaskVersion
from benchmarks.states import State
from tests.benchmarks.conftest import make_worker
from tests.fakes import report_for
from tests.rows import cpu_kind

from .test_importing import A, B, asked, folder, run  # noqa: F401 - fixtures
from .test_readers import MODEL, put

pytestmark = [pytest.mark.django_db, pytest.mark.sandbox]


def accepted(op: str, text: str, language: str) -> Evaluation:
    version, cpu = TaskVersion.objects.get(task__op=op), cpu_kind()
    evaluation = services.submission_create(version=version, text=text, language=language, device_kind=cpu)
    Evaluation.objects.filter(state=State.QUEUED, built=None).update(built=evaluation.queued)
    holding = moves.evaluation_claim(make_worker(), cpu)
    moves.record_report(holding, report_for(Source(text, language), spec_of(version)))
    evaluation.refresh_from_db()
    return evaluation


def test_a_module_stands_on_the_board_of_its_suite(folder, asked, client: Client) -> None:  # noqa: F811
    run(folder)
    evaluation = accepted(A, "class ModelNew: ...\n", "python")
    assert Standing.objects.get().evaluation == evaluation
    board = client.get(f"/leaderboards/kernelbench/{A}/forward/cpu-avx2/").content.decode()
    assert str(evaluation.code) in board
    assert client.get("/leaderboards/kernelbench/").status_code == 200
    page = client.get(evaluation.get_absolute_url()).content.decode()
    assert "variant=published" in page
    assert "shifted" not in page


def test_nothing_is_ranked_where_a_filter_trips(folder, asked) -> None:  # noqa: F811
    put(folder, {"level1/2_b.py": MODEL + "# small\n"})
    run(folder)
    assert accepted(B, "// kernel\n", "cpp").verdict == "PASS"
    assert not Standing.objects.exists()


def test_a_module_is_taken_by_the_form(folder, asked, client: Client) -> None:  # noqa: F811
    run(folder)
    cpu_kind()
    text = "import torch\nclass ModelNew(torch.nn.Module):\n    pass\n"
    sent = {"text": text, "language": "python", "device": "", "visibility": "public", "title": ""}
    answer = client.post(f"/tasks/kernelbench/{A}/forward/submit/", sent)
    assert answer.status_code == 302, answer.content.decode()[:3000]
    assert Evaluation.objects.get().submission.language == "python"
