"""The whole way of an imported suite: folder, catalogue, a worker of another host, the real judge, the boards."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client

from benchmarks import services
from benchmarks.catalogue.folders import rules_of, spec_of
from benchmarks.harness import Source, Verdict, judge
from benchmarks.judgings import moves
from benchmarks.models import Standing, TaskVersion
from benchmarks.states import WorkerRole
from tests.benchmarks.conftest import make_worker
from tests.fixtures.kernelbench_kernels import CHEATS, CPP, INLINE
from tests.rows import cpu_kind

from .conftest import FIXTURES

pytestmark = [pytest.mark.django_db, pytest.mark.sandbox]
STEPS = 30


@pytest.fixture
def version(settings, tmp_path: Path) -> TaskVersion:
    """The task that the kernels are for, imported into a site of its own."""
    settings.DATA_DIR = tmp_path / "site"
    folder = tmp_path / "authors" / "level1"
    folder.mkdir(parents=True)
    shutil.copy(FIXTURES / "kernelbench/level1/2_Affine_tanh.py", folder)
    call_command("import_tasks", "kernelbench", str(folder.parent), "--no-compile", "--json")
    return TaskVersion.objects.get(task__op="level1_2_affine_tanh")


def judged(version: TaskVersion, text: str, language: str, paths):
    """As a worker does it, with few steps and no demand on the width of the interval."""
    cpu = cpu_kind()
    evaluation = services.submission_create(version=version, text=text, language=language, device_kind=cpu)
    holding = moves.evaluation_claim(make_worker(WorkerRole.COMPILE), cpu, WorkerRole.COMPILE)
    moves.evaluation_built(holding)
    holding = moves.evaluation_claim(make_worker(), cpu)
    rules = rules_of(evaluation.ruleset)
    time = replace(rules.time, steps_per_config=STEPS, min_steps_per_config=STEPS, launches=1)
    rules = replace(rules, time=time, score=replace(rules.score, max_half_width=10.0))
    report = judge(Source(text, language), spec_of(version), rules, paths)
    moves.record_report(holding, report)
    evaluation.refresh_from_db()
    return evaluation


def test_from_a_folder_to_the_boards(version: TaskVersion, paths, settings, tmp_path: Path, client: Client) -> None:
    settings.DATA_DIR = tmp_path / "another host"
    for text, language in ((INLINE, "python"), (CPP, "cpp")):
        evaluation = judged(version, text, language, paths)
        assert evaluation.verdict == Verdict.PASS, evaluation.reason_text
    cheat = judged(version, CHEATS["keeps its first result"], "python", paths)
    assert cheat.verdict == Verdict.INCORRECT_VALUE
    assert {item.evaluation.verdict for item in Standing.objects.all()} == {"PASS"}
    board = client.get("/leaderboards/kernelbench/level1_2_affine_tanh/forward/cpu-avx2/")
    assert board.status_code == 200
    assert client.get("/leaderboards/kernelbench/").status_code == 200
