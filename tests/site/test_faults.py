"""What is killed in the middle of its work: every submission still ends exactly once, with a right verdict.

Does NOT judge for real: that is `tests/harness`.
"""

import re
import subprocess
import sys

import psutil
import pytest

from tests.stack import ROOT, Stack

pytestmark = pytest.mark.sandbox


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    """It begins in an empty folder, as a newcomer's does."""
    running = Stack(tmp_path_factory.mktemp("stack")).up()
    yield running
    if running.process.returncode is None:
        running.end()


SLOW = "// seconds: 2\n"


def test_pages_are_served_before_the_workers_have_tested_themselves(stack):
    said = stack.output.read_text()
    assert said.index("ready: http") < said.index("workers: submissions are judged now")


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
    (code,) = stack.submit("// compile seconds: 2\n")
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
    stack.kill("web_server")

    def answers():
        try:
            return stack.fetch("/")[0] == 200
        except OSError:
            return False

    stack.wait(answers, 90, "the web process did not come back")
    stack.wait_until_ended(code)
    assert stack.state(code) == ("done", "PASS", 1)


def test_killed_housekeeping_comes_back(stack):
    stack.kill("celery", "maint")
    (code,) = stack.submit("// after housekeeping died\n")
    stack.wait_until_ended(code)
    assert stack.state(code)[:2] == ("done", "PASS")
    stack.wait(lambda: stack.find("celery", "maint"), 90, "housekeeping did not come back")


def test_a_second_up_on_the_same_folder_is_refused(stack):
    argv = [sys.executable, "manage.py", "up"]
    second = subprocess.run(argv, cwd=ROOT, env=stack.environment, capture_output=True, text=True, check=False)
    assert second.returncode != 0
    assert f"already running on {stack.folder} (process {stack.process.pid})" in second.stderr


def all_gone(processes):
    _, alive = psutil.wait_procs(processes, timeout=20)
    return not alive


def test_stopping_gives_back_what_runs_and_leaves_no_process(tmp_path):
    stack = Stack.prepared(tmp_path).up()
    (code,) = stack.submit("// seconds: 60\n")
    stack.wait_until_timed(code)
    tree = psutil.Process(stack.process.pid).children(recursive=True)
    stack.down()
    assert all_gone(tree)
    assert stack.state(code) == ("queued", "", 1)


def test_a_judge_that_fails_starts_anew_and_proves_itself_before_it_judges_again(stack):
    before = {item.pid for item in stack.find("celery", "judge.cpu")}
    broken, good = stack.submit("// raises\n", "// speedup: 3.5\n")
    stack.wait_until_ended(broken, good)
    assert stack.state(broken) == ("done", "INTERNAL_ERROR", 2)
    assert stack.state(good) == ("done", "PASS", 1)
    stack.wait(
        lambda: before.isdisjoint(item.pid for item in stack.find("celery", "judge.cpu")), 90, "it never restarted"
    )


def test_killing_up_itself_leaves_no_process(stack):
    """The last test, since it leaves nothing of the site of all the others."""
    (code,) = stack.submit("// seconds: 60\n")
    stack.wait_until_timed(code)
    tree = psutil.Process(stack.process.pid).children(recursive=True)
    stack.process.kill()
    stack.process.wait()
    stack.dismiss()
    assert all_gone(tree)
