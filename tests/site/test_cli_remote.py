"""The `kbench` commands against a running site with a fake judge; exit codes and JSON."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kbench_site.cli import main
from tests.stack import ROOT

pytestmark = pytest.mark.sandbox
TASK = "mnist_linear_relu/forward"


@pytest.fixture(scope="module")
def token(stack):
    argv = [sys.executable, "manage.py", "create_token", "nina", "--create"]
    made = subprocess.run(argv, cwd=ROOT, env=stack.environment, capture_output=True, text=True, check=True)
    return made.stdout.split()[-1]


@pytest.fixture
def kbench(stack, token):
    def run(*arguments, **environment):
        known = {"KBENCH_URL": f"http://127.0.0.1:{stack.port}", "KBENCH_TOKEN": token, **environment}
        return CliRunner().invoke(main, arguments, env=known)

    return run


@pytest.fixture
def kernel(tmp_path):
    def write(*orders, suffix="cpp"):
        path = tmp_path / f"kernel.{suffix}"
        lines = ["#include <torch/extension.h>", 'PYBIND11_MODULE(x, m) { m.def("forward", 0); }']
        path.write_text("\n".join([*lines, *(f"// {order}" for order in (*orders, f"of {tmp_path.name}")), ""]))
        return str(path)

    return write


def last_json(result):
    return json.loads(result.stdout.splitlines()[-1])


def test_an_accepted_kernel_exits_0_and_stands_on_the_board(kbench, kernel):
    result = kbench("submit", TASK, kernel("speedup: 2.50", "seconds: 2"), "--wait", "--json")
    found = last_json(result)
    assert (result.exit_code, found["verdict"], found["score"]["speedup"]) == (0, "PASS", 2.5)
    assert "of 3" in result.stderr
    assert "2.50×" in kbench("leaderboard", TASK, "--device", "cpu").stdout
    assert TASK in kbench("tasks", "--device", "cpu").stdout


def test_a_wrong_kernel_exits_1_and_says_why(kbench, kernel):
    result = kbench("submit", TASK, kernel("verdict: INCORRECT_VALUE"), "--wait")
    assert result.exit_code == 1
    assert "INCORRECT_VALUE" in result.stdout


def test_our_own_fault_exits_3(kbench, kernel):
    assert kbench("submit", TASK, kernel("verdict: NOISY"), "--wait").exit_code == 3


def test_a_cuda_file_goes_to_the_gpu_and_can_be_watched(kbench, kernel):
    submitted = kbench("submit", TASK, kernel("speedup: 3.0", suffix="cu"))
    watched = kbench("watch", submitted.stdout.strip(), "--json")
    found = last_json(watched)
    assert (watched.exit_code, found["device"]) == (0, "nvidia-h200")
    assert found["score"]["timing_trust"] == "audited"


def test_a_judging_is_cancelled_and_ends_with_exit_code_1(kbench, kernel):
    code = kbench("submit", TASK, kernel("seconds: 60")).stdout.strip()
    assert "Cancelled" in kbench("cancel", code).stdout
    assert kbench("watch", code, "--json").exit_code == 1
    assert kbench("cancel", code).exit_code == 2


def test_source_and_report_are_downloaded(kbench, kernel, tmp_path):
    path = kernel("speedup: 1.25")
    code = last_json(kbench("submit", TASK, path, "--visibility", "private", "--wait", "--json"))["id"]
    assert kbench("download", code, "source").stdout == Path(path).read_text()
    target = tmp_path / "report.json"
    kbench("download", code, "report", "-o", str(target))
    assert json.loads(target.read_text())["score"]["speedup"] == 1.25
    assert kbench("download", code, "source", KBENCH_TOKEN="").exit_code == 2


def test_a_long_judging_is_left_running_when_the_time_is_up(kbench, kernel):
    result = kbench("submit", TASK, kernel("seconds: 60"), "--wait", "--timeout", "1")
    code = result.stderr.split()[-1]
    assert result.exit_code == 3
    assert kbench("cancel", code).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("status",), "cpu-avx2"),
        (("quota",), "limit"),
        (("whoami",), "nina"),
        (("methods",), "human"),
        (("compare", "human"), "human"),
        (("runs",), "run"),
    ],
)
def test_what_a_site_tells_is_a_table_or_one_document(kbench, arguments, words):
    assert words in kbench(*arguments).stdout
    assert words in json.dumps(last_json(kbench(*arguments, "--json")))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("leaderboard", "nothing/forward"), "no task nothing/forward"),
        (("watch", "00000000-0000-0000-0000-000000000000"), "Not found, or private."),
        (("watch", "nonsense"), "This is not an id"),
        (("leaderboard", TASK, "--device", "nvidia-b300"), f"no leaderboard of {TASK} on nvidia-b300"),
        (("submit", "nothing/forward", __file__, "--language", "cpp"), "no task"),
        (("submit", TASK, __file__, "--language", "cpp"), "Python"),
    ],
)
def test_what_the_site_refuses_exits_2_with_its_sentence(kbench, arguments, words):
    result = kbench(*arguments)
    assert result.exit_code == 2
    assert words in result.stderr


def test_a_quick_check_has_a_verdict_and_no_score(kbench, kernel):
    result = kbench("submit", TASK, kernel("speedup: 2.0"), "--quick", "--wait", "--json")
    found = last_json(result)
    assert (result.exit_code, found["verdict"], found["score"]) == (0, "PASS", None)


@pytest.mark.parametrize(("word", "code"), [("CORRECT_HERE", 0), ("WRONG", 1), ("ABSTAINED", 4)])
def test_a_site_checks_a_cuda_file_without_a_gpu(kbench, kernel, word, code):
    result = kbench("check", TASK, kernel(f"emulator: {word}", suffix="cu"), "--site", "--json")
    assert (result.exit_code, last_json(result)["verdict"]) == (code, word), result.output
    assert "started: http" in result.stderr


def test_without_a_token_nothing_is_submitted(kbench, kernel):
    result = kbench("submit", TASK, kernel(), KBENCH_TOKEN="")
    assert (result.exit_code, "KBENCH_TOKEN" in result.stderr) == (2, True)


def test_a_site_that_does_not_answer_exits_3():
    result = CliRunner().invoke(main, ["tasks"], env={"KBENCH_URL": "http://127.0.0.1:1"})
    assert result.exit_code == 3
    assert "does not answer" in result.stderr


def test_an_address_that_is_none_exits_2():
    assert CliRunner().invoke(main, ["tasks"], env={"KBENCH_URL": "kbench.example"}).exit_code == 2


def test_a_run_is_started_and_followed_to_its_end(kbench):
    result = kbench(
        "run", "mnist_pool/forward", "--judgings", "3", "--seed", "7", "--verifier", "static", "--watch", "--json"
    )
    found = last_json(result)
    assert (result.exit_code, found["state"], found["judgings"], found["best"]["score"]) == (0, "finished", 3, 2.0)
    assert "evaluation.finished" in result.stderr


def test_a_run_on_an_unknown_task_is_wrong_usage(kbench):
    assert kbench("run", "no/such").exit_code == 2
