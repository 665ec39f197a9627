"""From folders to rows: versions only where content changed, examples once."""

import json
import shutil
from io import StringIO

import pytest
from django.core.management import call_command

from benchmarks.catalogue.devices import register
from benchmarks.catalogue.folders import examples_load, rules_of, spec_of, tasks_sync
from benchmarks.harness import TaskError, default_suites, load_suite
from benchmarks.models import Evaluation, RuleSet, Task, TaskVersion
from benchmarks.states import Priority
from tests.fakes import CPU, GPU
from tests.rows import cpu_kind, synced


@pytest.fixture
def suites(tmp_path, db):
    """A folder of suites that a test may change."""
    source = default_suites() / "robust_kbench" / "mnist_linear_relu"
    shutil.copytree(source, tmp_path / "own" / "robust_kbench" / "mnist_linear_relu")
    return tmp_path / "own"


def change(suites, old, new):
    path = suites / "robust_kbench" / "mnist_linear_relu" / "task.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_every_shipped_task_becomes_a_row(db):
    tasks_sync()
    shipped = [task for folder in default_suites().iterdir() if folder.is_dir() for task in load_suite(folder)]
    assert Task.objects.listed().count() == len(shipped) > 0


def test_a_second_sync_changes_nothing(suites):
    assert len(tasks_sync(suites).created) == 2
    report = tasks_sync(suites)
    assert (report.created, report.renewed, report.retired) == ((), (), ())


def test_changed_content_is_a_new_version_and_retires_the_old(suites):
    tasks_sync(suites)
    reference = suites / "robust_kbench" / "mnist_linear_relu" / "reference.py"
    reference.write_text(reference.read_text() + "\n# changed\n")
    tasks_sync(suites)
    versions = TaskVersion.objects.filter(task__direction="forward")
    assert {(row.number, row.status) for row in versions} == {(1, "retired"), (2, "active")}


def test_changed_words_are_no_new_version(suites):
    tasks_sync(suites)
    title = Task.objects.get(direction="forward").title
    change(suites, title, "Another title")
    assert tasks_sync(suites).renewed == ()
    assert Task.objects.get(direction="forward").title == "Another title"


def test_a_task_that_is_gone_is_retired_and_unlisted(suites):
    tasks_sync(suites)
    shutil.rmtree(suites / "robust_kbench" / "mnist_linear_relu")
    assert set(tasks_sync(suites).retired) == {"mnist_linear_relu/forward", "mnist_linear_relu/backward"}
    assert not Task.objects.listed().exists()


def test_hidden_configurations_are_counted_and_not_shown(version):
    hidden = [config for config in spec_of(version).configs_for("cpu") if config.hidden]
    device = version.definition["devices"]["cpu"]
    assert device["hidden"] == len(hidden) >= 2
    assert not any(config.key in json.dumps(device) for config in hidden)


def test_a_version_that_differs_from_disk_is_not_judged(version):
    version.content_sha256 = "0" * 64
    with pytest.raises(TaskError, match="changed on disk"):
        spec_of(version)


def test_a_rule_set_cannot_change_under_its_name(version):
    row = RuleSet.objects.get()
    assert rules_of(row).name == "rk-2"
    row.sha256 = "0" * 64
    with pytest.raises(TaskError, match="needs a new name"):
        rules_of(row)


def test_examples_are_submitted_once_and_wait_behind_people(suites):
    synced(suites)
    kernels = suites / "robust_kbench" / "mnist_linear_relu" / "kernels"
    kernels.mkdir(exist_ok=True)
    (kernels / "forward_cpu.cpp").write_text("// an example\n")
    (kernels / "backward_cpu.cpp").write_text("// another\n")
    assert len(examples_load(suites)) == 2
    assert examples_load(suites) == []
    assert {row.priority for row in Evaluation.objects.all()} == {Priority.EXAMPLE}


def test_the_command_submits_every_kernel_for_the_processor_once(db):
    cpu_kind()
    says = StringIO()
    call_command("load_examples", stdout=says)
    kernels = list(default_suites().glob("*/*/kernels/*_cpu.cpp"))
    assert says.getvalue().splitlines()[-1] == f"{len(kernels)} submitted"
    assert set(Evaluation.objects.values_list("submission__method__slug", "device_kind__slug")) == {
        ("reference-kernels", CPU.kind)
    }
    call_command("load_examples", stdout=says)
    assert says.getvalue().splitlines()[-1].startswith("nothing to submit")


def test_examples_for_a_gpu_are_submitted_once_there_is_one(suites):
    tasks_sync(suites)
    kernels = suites / "robust_kbench" / "mnist_linear_relu" / "kernels"
    shutil.rmtree(kernels, ignore_errors=True)
    kernels.mkdir()
    (kernels / "forward_cuda.cu").write_text("// an example\n")
    (kernels / "forward_triton.py").write_text("# another\n")
    assert examples_load(suites) == []
    register(GPU)
    assert {item.language for item in examples_load(suites)} == {"cuda", "triton"}
    assert {row.device_kind.slug for row in Evaluation.objects.all()} == {"nvidia-h200"}
    assert examples_load(suites) == []
