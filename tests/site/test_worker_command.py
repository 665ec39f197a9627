"""`manage.py worker` beside a site that runs elsewhere: it brings a device, and only one set of workers per device."""

import signal
import subprocess
import sys

import psutil
import pytest

from tests.stack import ROOT, Stack

pytestmark = pytest.mark.sandbox
STATES = "select state from benchmarks_worker where name like '%cuda:0@%' order by name"
SUBMIT = """
import django
django.setup()
from benchmarks.catalogue.devices import kind_for
from benchmarks.models import TaskVersion
from benchmarks.services import submission_create
version = TaskVersion.objects.get(task__op="mnist_linear_relu", task__direction="forward", status="active")
print(submission_create(version=version, text="// x", language="cuda", device_kind=kind_for("cuda")).code)
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    running = Stack.prepared(tmp_path_factory.mktemp("stack"), "tests.stack_gpu_settings").up("--device", "cpu")
    yield running
    running.end()


def worker_command(*options):
    return [sys.executable, "manage.py", "worker", *options]


@pytest.fixture(scope="module")
def workers(stack):
    """The workers of the GPU, in processes of their own, which the last test ends."""
    argv = worker_command("--device", "cuda:0", "--compile", "2")
    with subprocess.Popen(argv, cwd=ROOT, env=stack.environment, stdout=subprocess.DEVNULL) as process:
        try:
            stack.wait(lambda: stack.rows(STATES) == [("online",)] * 2, 60, "no GPU worker came")
            yield process
        finally:
            process.send_signal(signal.SIGINT)


@pytest.fixture
def refused(stack):
    """What the command says that does not start."""

    def run(*arguments):
        argv = worker_command(*arguments)
        options = {"cwd": ROOT, "env": stack.environment, "capture_output": True, "text": True, "timeout": 60}
        ended = subprocess.run(argv, check=False, **options)
        assert ended.returncode == 1
        return ended.stderr

    return run


def test_it_brings_a_device_to_a_running_site(stack, workers):
    argv = [sys.executable, "-c", SUBMIT]
    made = subprocess.run(argv, cwd=ROOT, env=stack.environment, capture_output=True, text=True, check=True)
    code = made.stdout.strip().replace("-", "")
    stack.wait_until_ended(code)
    assert stack.state(code) == ("done", "PASS", 1)


def test_a_second_one_on_the_same_device_is_refused(workers, refused):
    assert "cuda:0 has its workers already" in refused("--device", "cuda:0")


def test_a_device_that_is_not_here_is_refused(refused):
    there = "it has cpu (cpu-avx2), cuda:0 (nvidia-h200)"
    assert f"there is no device cuda:7 on this machine; {there}" in refused("--device", "cuda:7")


def test_its_workers_end_with_it(stack, workers):
    children = psutil.Process(workers.pid).children(recursive=True)
    assert len(children) >= 2
    workers.kill()
    _, alive = psutil.wait_procs(children, timeout=20)
    assert alive == []
