"""The whole stack under `manage.py up` with a fake judge, and what is killed in the middle of its work.

Real Redis, real workers, a real web server and the site's own database, in a folder of their own.
Does NOT judge for real: that is `tests/harness`.
"""

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from contextlib import closing
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.sandbox
ROOT = Path(__file__).parents[2]
SUBMIT = """
import json, sys
import django
django.setup()
from benchmarks.models import TaskVersion
from benchmarks.services import submission_create
version = TaskVersion.objects.get(task__op="mnist_linear_relu", task__direction="forward", status="active")
for text in json.load(sys.stdin):
    print(submission_create(version=version, text=text, language="cpp").code)
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Stack:
    """`manage.py up` in a folder of its own."""

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("KBENCH_", "DJANGO_"))},
            "KBENCH_DATA_DIR": str(folder),
            "KBENCH_EXAMPLES": "0",
            "KBENCH_HEARTBEAT_TIMEOUT_S": "5",
            "PORT": str(self.port),
            "DJANGO_SETTINGS_MODULE": "tests.stack_settings",
        }
        self.output = folder / "up.out"
        self.process = None

    def up(self):
        with self.output.open("w") as output:
            argv = [sys.executable, "manage.py", "up"]
            self.process = subprocess.Popen(argv, cwd=ROOT, env=self.environment, stdout=output, stderr=output)
        self.wait(lambda: "ready: " in self.output.read_text(), 120, "the stack did not come up")
        return self

    def down(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)

    def wait(self, condition, seconds, complaint):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if condition():
                return
            assert self.process.poll() is None, self.output.read_text()
            time.sleep(0.1)
        states = self.rows("select code, state, verdict, attempt, reason_text from benchmarks_evaluation")
        pytest.fail(f"{complaint}\n{self.output.read_text()}\n{states}")

    def rows(self, query, *values):
        with closing(sqlite3.connect(self.folder / "kbench.sqlite3", timeout=30)) as database:
            return database.execute(query, values).fetchall()

    def submit(self, *texts):
        argv = [sys.executable, "-c", SUBMIT]
        result = subprocess.run(
            argv, cwd=ROOT, env=self.environment, input=json.dumps(texts), stdout=subprocess.PIPE, text=True, check=True
        )
        return [code.replace("-", "") for code in result.stdout.split()]

    def state(self, code):
        return self.rows("select state, verdict, attempt from benchmarks_evaluation where code = ?", code)[0]

    def ended(self, code):
        return self.state(code)[0] in ("done", "cancelled", "expired")

    def wait_until_timed(self, code):
        self.wait(lambda: self.state(code)[0] == "timing", 60, "it was never timed")

    def wait_until_ended(self, *codes, seconds=90):
        self.wait(lambda: all(self.ended(code) for code in codes), seconds, "not everything ended")

    def find(self, *words):
        """The processes of this stack whose command line has all the words."""
        tree = psutil.Process(self.process.pid).children(recursive=True)
        return [item for item in tree if all(word in " ".join(item.cmdline()) for word in words)]

    def kill(self, *words):
        found = self.find(*words)
        assert found, words
        for item in found:
            item.kill()

    def judged(self, code):
        """How often a standing report was written: one set of stages is three rows."""
        return self.rows(
            "select count(*) from benchmarks_stageresult s join benchmarks_evaluation e on e.id = s.evaluation_id"
            " where e.code = ?", code
        )[0][0] / 3  # fmt: skip

    def fetch(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    running = Stack(tmp_path_factory.mktemp("stack")).up()
    yield running
    running.down()


SLOW = "// seconds: 4\n"


def test_a_submission_ends_with_its_verdict(stack):
    (code,) = stack.submit("// speedup: 2.5\n")
    stack.wait_until_ended(code)
    assert stack.state(code) == ("done", "PASS", 1)


def test_the_site_answers_with_hashed_static_files(stack):
    status, page = stack.fetch("/")
    assert status == 200
    path = re.search(r'href="(/static/[^"]+\.css)"', page).group(1)
    assert stack.fetch(path)[0] == 200


def test_a_killed_worker_costs_an_attempt_and_nothing_else(stack):
    (code,) = stack.submit(SLOW)
    stack.wait_until_timed(code)
    stack.kill("celery", "judge.cpu")
    stack.wait_until_ended(code)
    assert stack.state(code) == ("done", "PASS", 2)
    assert stack.judged(code) == 1


def test_a_killed_compiler_costs_an_attempt_and_nothing_else(stack):
    (code,) = stack.submit("// compile seconds: 4\n")
    stack.wait(lambda: stack.state(code)[0] == "compiling", 60, "it was never compiled")
    stack.kill("celery", "compile@")
    stack.wait_until_ended(code)
    assert stack.state(code) == ("done", "PASS", 2)
    assert stack.judged(code) == 1


def test_a_killed_child_of_the_worker_is_noticed_without_its_heartbeat(stack):
    (code,) = stack.submit(SLOW)
    stack.wait_until_timed(code)
    main = min(stack.find("celery", "judge.cpu"), key=lambda item: item.create_time())
    for child in main.children():
        child.kill()
    stack.wait_until_ended(code)
    assert stack.state(code) == ("done", "PASS", 2)


def test_a_killed_redis_loses_nothing(stack):
    codes = stack.submit(SLOW, *[f"// speedup: 1.{number}\n" for number in range(4)])
    stack.wait_until_timed(codes[0])
    stack.kill("redis-server")
    late = stack.submit("// sent while redis is away\n")
    stack.wait_until_ended(*codes, *late)
    assert {stack.state(code) for code in codes + late} == {("done", "PASS", 1)}
    assert {stack.judged(code) for code in codes + late} == {1}


def test_a_killed_web_process_comes_back_and_judging_goes_on(stack):
    (code,) = stack.submit(SLOW)
    stack.wait_until_timed(code)
    stack.kill("uvicorn")

    def answers():
        try:
            return stack.fetch("/")[0] == 200
        except OSError:
            return False

    stack.wait(answers, 30, "the web process did not come back")
    stack.wait_until_ended(code)
    assert stack.state(code) == ("done", "PASS", 1)


def test_killed_housekeeping_comes_back(stack):
    stack.kill("celery", "maint")
    (code,) = stack.submit("// after housekeeping died\n")
    stack.wait_until_ended(code)
    assert stack.state(code)[:2] == ("done", "PASS")
    stack.wait(lambda: stack.find("celery", "maint"), 30, "housekeeping did not come back")


def test_a_second_up_on_the_same_folder_is_refused(stack):
    argv = [sys.executable, "manage.py", "up"]
    second = subprocess.run(argv, cwd=ROOT, env=stack.environment, capture_output=True, text=True, check=False)
    assert second.returncode != 0
    assert f"already up on {stack.folder} (process {stack.process.pid})" in second.stderr


def all_gone(processes):
    _, alive = psutil.wait_procs(processes, timeout=20)
    return not alive


def test_stopping_gives_back_what_runs_and_leaves_no_process(tmp_path):
    stack = Stack(tmp_path).up()
    (code,) = stack.submit("// seconds: 60\n")
    stack.wait_until_timed(code)
    tree = psutil.Process(stack.process.pid).children(recursive=True)
    stack.down()
    assert all_gone(tree)
    assert stack.state(code) == ("queued", "", 1)


def test_killing_up_itself_leaves_no_process(tmp_path):
    stack = Stack(tmp_path).up()
    (code,) = stack.submit("// seconds: 60\n")
    stack.wait_until_timed(code)
    tree = psutil.Process(stack.process.pid).children(recursive=True)
    stack.process.kill()
    stack.process.wait()
    assert all_gone(tree)
