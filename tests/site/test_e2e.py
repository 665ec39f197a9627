"""The end-to-end script against a whole stack whose judge is a fake with a GPU: figures, verdicts, exit codes."""

import json
from contextlib import nullcontext

import pytest

from benchmarks.states import RUNNING
from lab.gpu import e2e as gpu_e2e
from tests.stack import Stack

pytestmark = pytest.mark.sandbox
TASK = "mnist_linear_relu/forward"
SOURCE = '#include <torch/extension.h>\n{}\nPYBIND11_MODULE(x, m) {{ m.def("forward", 0); }}\n'


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as the script starts it, once for all tests."""
    folder = Stack.prepared(tmp_path_factory.mktemp("stack")).folder
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_SETTINGS_MODULE", "tests.stack_gpu_settings")
        with gpu_e2e._site(folder, gpu_e2e._options(["--device", "cuda:0"])) as api:
            patch.setattr(gpu_e2e, "_site", lambda *_: nullcontext(api))
            yield


@pytest.fixture
def run(tmp_path, site):
    """Runs the script with one kernel per line of orders; what it returned and its JSON."""

    def with_kernels(*orders, expected="PASS", count=1, timeout_s=90, more=()):
        arguments = list(more)
        for number, order in enumerate(orders):
            path = tmp_path / f"kernel{number}.cu"
            path.write_text(SOURCE.format(order))
            arguments += ["--kernel", f"{TASK}={path}={expected}"]
        out = tmp_path / "out.json"
        arguments += [
            "--submissions",
            str(count),
            "--device",
            "cuda:0",
            "--json",
            str(out),
            "--timeout-s",
            str(timeout_s),
        ]
        code, lines = gpu_e2e.main(arguments), out.read_text().splitlines()
        return code, [*map(json.loads, lines)] if more else json.loads(lines[0])

    return with_kernels


def test_it_measures_every_submission_from_post_to_verdict(run):
    code, result = run("// speedup: 2.5\n// seconds: 0.5\n// compile seconds: 0.3", count=3)
    assert (code, result["count"], result["as_expected"]) == (0, 3, 3)
    row = result["submissions"][0]
    assert (row["verdict"], row["speedup"]) == ("PASS", 2.5)
    assert row["compile_s"] >= 0.3
    assert row["judge_s"] >= 0.5
    assert row["total_s"] >= row["compile_s"] + row["judge_s"] - 0.002  # each is rounded to a millisecond
    assert result["judgings_per_hour"] > 0
    assert 0 < result["device_busy_s"] <= result["makespan_s"]


def test_rounds_follow_each_other_and_then_a_kernel_comes_alone(run):
    code, results = run("// speedup: 2.5", count=2, more=("--rounds", "2", "--idle"))
    assert code == 0
    assert [(item["round"], item["count"]) for item in results] == [(1, 2), (2, 2), ("alone on an idle site", 1)]
    assert {item["judges"] for item in results} == {1}
    first, second = (item["submissions"][0]["evaluation"] for item in results[:2])
    assert first != second


def test_a_verdict_that_is_not_expected_is_an_exit_code(run):
    code, result = run("// verdict: INCORRECT_VALUE")
    assert (code, result["submissions"][0]["as_expected"]) == (1, False)


def test_what_has_no_verdict_in_time_is_told_with_its_state(run):
    code, result = run("// seconds: 60", timeout_s=4)
    row = result["submissions"][0]
    assert (code, row["as_expected"]) == (1, False)
    assert row["verdict"] in ("queued", *RUNNING)
    assert (result["count"], result["ended"], result["judgings_per_hour"]) == (1, 0, 0.0)


def test_intervals_that_overlap_count_once():
    assert gpu_e2e._union([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)]) == [(0.0, 3.0), (5.0, 6.0)]
