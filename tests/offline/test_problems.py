"""One problem at a path: what it is, what is kept of its examination, and `kbench judge` with it. No sandbox."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.harness import Examined, Paths, TaskSpec, UsageError
from benchmarks.importers import problem_at, problems_in
from benchmarks.offline import problems as problems_module
from kbench_site.cli import local, sources

from .conftest import EVALUATED, kbench

ROBUST = EVALUATED.parent / "robust_kbench"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (EVALUATED / "suite/level1/4_Softmax.py", "level1_4_softmax/forward"),
        (EVALUATED / "solutions/level_1_problem_4_sample_1_kernel.py", "level_1_problem_4_sample_1_kernel/forward"),
        (ROBUST / "tasks/gated_linear", "gated_linear/forward"),
        (ROBUST / "tasks/gated_linear/func_backward.py", "gated_linear/backward"),
    ],
)
def test_a_path_is_a_problem(path: Path, name: str) -> None:
    found = problem_at(path)
    assert found is not None
    assert found.name == name


def test_a_file_without_a_model_says_what_it_lacks() -> None:
    found = problem_at(EVALUATED / "solutions/level_1_problem_4_sample_1_kernel.py")
    assert found is not None
    assert found.problem == "level_1_problem_4_sample_1_kernel.py lacks Model, get_inputs"


def test_other_paths_are_no_problem() -> None:
    assert problem_at(EVALUATED) is None
    assert problem_at(ROBUST / "tasks/gated_linear/config_forward.json") is None
    assert problem_at(EVALUATED / "there is none.py") is None


class TestExamined:
    """What is kept of examinations."""

    @pytest.fixture
    def count(self, monkeypatch: pytest.MonkeyPatch, task: TaskSpec) -> list[str]:
        names: list[str] = []

        def examine(foreign, *_, **__):
            names.append(foreign.op)
            refused = Examined(None, "it took more than 1 s")
            return refused if "softmax" in foreign.op else Examined(task, labels=("one-shape",), notes=("a note",))

        monkeypatch.setattr(problems_module, "examine", examine)
        return names

    @staticmethod
    def found(number: int):
        return problems_in(EVALUATED / "suite")[number - 1]

    def test_a_problem_is_examined_once(self, count: list[str], tmp_path: Path, task: TaskSpec) -> None:
        paths = Paths(tmp_path)
        first, second = (problems_module.examined(self.found(1), paths) for _ in range(2))
        assert first == second
        assert second.task is not None
        assert second.task.configs == task.configs
        assert (second.task.folder / "reference.py").read_text() == ""
        assert (len(count), second.labels, second.notes) == (1, ("one-shape",), ("a note",))
        problems_module.examined(self.found(1), paths, again=True)
        assert len(count) == 2

    @pytest.mark.parametrize("name", ["outcome.json", "reference.py"])
    @pytest.mark.parametrize("content", ["{}", "[" * 100_000, '{"problem": "", "task": 1}', "a pipe", "a link"])
    def test_a_record_that_was_changed_counts_as_none(
        self, count: list[str], tmp_path: Path, *, name: str, content: str
    ) -> None:
        problems_module.examined(self.found(1), Paths(tmp_path))
        [kept] = tmp_path.rglob(name)
        kept.unlink()
        if content == "a pipe":
            os.mkfifo(kept)
        elif content == "a link":
            kept.symlink_to(tmp_path / "elsewhere")
        else:
            kept.write_text(content)
        found = problems_module.examined(self.found(1), Paths(tmp_path))
        assert (len(count), found.labels) == (2, ("one-shape",))

    def test_a_refusal_is_examined_again_with_more_time_alone(self, count: list[str], tmp_path: Path) -> None:
        for timeout_s in (1.0, 1.0, 0.5, 2.0, 2.0):
            refused = problems_module.examined(self.found(4), Paths(tmp_path), timeout_s=timeout_s)
            assert refused.problem == "it took more than 1 s"
        assert len(count) == 2

    def test_a_broken_file_is_not_examined(self, count: list[str], tmp_path: Path) -> None:
        refused = problems_module.examined(self.found(6), Paths(tmp_path))
        assert refused.problem.startswith("6_Broken_file.py:4: ")
        assert count == []


class TestJudge:
    """`kbench judge` with the path of a problem in place of the name of a task."""

    @pytest.fixture
    def judged(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
        """The task, the language and the device of what would be judged, which then ends."""
        asked: list[tuple[str, str, str]] = []

        def judge(source, task, *_, device: str, **__):
            asked.append((task.name, source.language, device))
            raise UsageError("judged")

        monkeypatch.setattr(local, "judge", judge)
        return asked

    @pytest.fixture
    def problem(self, monkeypatch: pytest.MonkeyPatch, task: TaskSpec) -> str:
        """The path of one that is examined at once."""
        monkeypatch.setattr(local, "task_at", lambda *_, **__: Examined(task, labels=("one-shape",), notes=("a note",)))
        return str(EVALUATED / "suite/level1/1_Scale_and_clamp.py")

    @pytest.mark.parametrize(
        ("file", "text", "language"), [("a.py", "class ModelNew: ...", "python"), ("a.cpp", "text", "cpp")]
    )
    def test_a_file_of_kernelbench(
        self, judged, problem: str, paths: Paths, tmp_path: Path, *, file: str, text: str, language: str
    ) -> None:
        (tmp_path / file).write_text(text)
        done = kbench(paths, "judge", problem, str(tmp_path / file))
        assert judged == [("level1_1_scale/forward", language, "cpu")]
        assert "problem: The task has only one shape" in " ".join(done.stderr.split())

    def test_a_problem_of_a_processor_alone_is_not_judged_on_a_gpu(
        self, judged, problem: str, paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "a.cu").write_text("text")
        monkeypatch.setattr(local, "devices_here", lambda: [SimpleNamespace(name="cuda:0")])
        done = kbench(paths, "judge", problem, str(tmp_path / "a.cu"))
        assert (done.exit_code, "too large for the GPUs" in done.stderr, judged) == (2, True, [])

    def test_a_problem_is_not_examined_for_a_gpu_that_is_not_here(
        self, judged, problem: str, paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "a.cu").write_text("text")
        monkeypatch.setattr(local, "task_at", lambda *_, **__: pytest.fail("examined"))
        monkeypatch.setattr(local, "devices_here", lambda: [SimpleNamespace(name="cpu")])
        done = kbench(paths, "judge", problem, str(tmp_path / "a.cu"))
        told = " ".join(done.stderr.split())
        assert (done.exit_code, "`kbench check` runs a CUDA file without a GPU" in told, judged) == (2, True, [])

    def test_a_problem_that_cannot_be_judged_exits_2_with_the_reason(self, judged, paths: Paths) -> None:
        kernel = str(EVALUATED / "solutions/level_1_problem_1_sample_0_kernel.py")
        done = kbench(paths, "judge", str(EVALUATED / "suite/level1/6_Broken_file.py"), kernel)
        assert (done.exit_code, "6_Broken_file.py:4" in done.stderr) == (2, True)
        for name, told in (("a" * 5000, "is not a task"), ("a" * 5000 + "/forward", "there is no task")):
            done = kbench(paths, "judge", name, kernel)
            assert (done.exit_code, told in done.stderr) == (2, True)
        done = kbench(paths, "judge", str(EVALUATED), kernel)
        assert (done.exit_code, "is not a problem that can be read here" in done.stderr) == (2, True)
        assert judged == []

    def test_a_file_without_end_is_not_read(
        self, judged, paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        os.mkfifo(tmp_path / "pipe.cpp")
        (tmp_path / "device.cpp").symlink_to("/dev/zero")
        for name in ("pipe.cpp", "device.cpp"):
            done = kbench(paths, "judge", "mnist_pool/forward", str(tmp_path / name))
            assert (done.exit_code, "is not a regular file" in done.stderr) == (2, True)
        monkeypatch.setattr(sources, "_BYTES_MAX", 1 << 20)
        (tmp_path / "large.cpp").write_bytes(b" " * ((1 << 20) + 1))
        done = kbench(paths, "judge", "mnist_pool/forward", str(tmp_path / "large.cpp"))
        assert (done.exit_code, "more than 1 MiB" in done.stderr, judged) == (2, True, [])

    def test_a_shipped_task_comes_first(self, judged, paths: Paths, tmp_path: Path) -> None:
        (tmp_path / "a.cpp").write_text("text")
        kbench(paths, "judge", "mnist_pool/forward", str(tmp_path / "a.cpp"))
        assert judged == [("mnist_pool/forward", "cpp", "cpu")]
