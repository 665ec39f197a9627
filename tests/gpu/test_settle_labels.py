"""What a GPU says of kernels with right results, and what becomes of it: tools, changed conditions, labels, tables.

Compute Sanitizer is a script here that prints what it printed once, and the process on the GPU answers from a list. Not
covered: the GPU itself, and compiling.
"""

import argparse
import json
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from agents.evolve.verifiers.emulate import EmulateVerifier
from benchmarks.harness.compilers.builds import Build
from lab.bench import emulated_docs
from lab.bench.emulated_corpus import emulated_by, in_turn
from lab.cuda_corpus.specimens import CudaLabel, planned, read_labels
from lab.gpu import changed_conditions, sanitize_labels, sanitize_labels_child, settle_labels
from lab.gpu.changed_conditions import CONDITIONS, ConditionWord
from lab.gpu.child_process import ChildEndedError
from lab.gpu.fold_labels import folded, valid_conditions
from lab.gpu.label_together import merged
from lab.gpu.sanitize_labels import Said, ToolWord

SANITIZED = """========= COMPUTE-SANITIZER
CALL 0 rows=4
DONE 0
CALL 1 rows=4
CALL 1 rows=3
========= Invalid __global__ read of size 4 bytes
=========     at specimen1::(anonymous namespace)::sums(const float *, float *, int)+0x140
=========     by thread (31,0,0) in block (0,0,0)
=========
DONE 1 AcceleratorError: CUDA error
CALL 2 rows=4
========= Error: Race reported between Write access at specimen2::tile(float *)+0x210
=========     and Read access at specimen2::tile(float *)+0x340 [128 hazards]
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure"
=========     Saved host backtrace up to driver entry point at error
DONE 2
CALL 3 rows=4
DONE 3 AcceleratorError: CUDA error
CALL 4 rows=4
========= Uninitialized __global__ memory read of size 4 bytes
=========     at specimen4::rows(const float *, float *)+0x40
=========
DONE 4 AcceleratorError: CUDA error
LOST 4
========= ERROR SUMMARY: 129 errors
"""


def label(name: str, **changes: object) -> CudaLabel:
    words = {"operator": None, "fault": "seed", "task": "t", "correct": True, "verdict": "PASS", "reason": ""}
    return CudaLabel(**{"name": name, "sha256": name, **words, "seconds": 1.0, **changes})  # type: ignore[arg-type]


class TestTools:
    def test_a_finding_belongs_to_the_kernel_that_it_names_and_to_the_call_before_it(self) -> None:
        said = Said(SANITIZED)
        assert said.words() == {
            0: ("", ""),
            1: ("Invalid __global__ read of size 4 bytes", "rows=3"),
            2: ("Race reported between Write access at specimen2::tile(float *)+0x210", "rows=4"),
            4: ("Uninitialized __global__ memory read of size 4 bytes", "rows=4"),
        }  # and nothing of the one that ended with an error which no tool explains
        assert said.lost == 4

    def test_a_kernel_that_was_not_reached_has_no_word(self) -> None:
        assert Said("").words() == {}

    def test_odd_sizes_are_called_too(self) -> None:
        task = planned(1, 1)[0].task
        called = {config.key for config in sanitize_labels_child.configs_of(task)}
        assert called > {config.key for config in task.configs_for("cuda") if config.hidden}
        assert called - {config.key for config in task.configs_for("cuda")}

    def test_kernels_in_question_come_first_and_once_more_unoptimised(self, tmp_path: Path) -> None:
        names = tmp_path / "names"
        names.write_text("wrong.wrong_mask\n")
        options = argparse.Namespace(names=names, rejected=[], only_first=False)
        first, debug, *rest = sanitize_labels.tool_jobs(options)
        assert [item.name for item in first.group] == [item.name for item in debug.group] == ["wrong.wrong_mask"]
        assert debug.flags == ("-G",)
        assert debug.tools == ("memcheck-debug",)
        assert all(item.name != "wrong.wrong_mask" for job in rest for item in job.group)
        sha256 = first.group[0].sha256
        assert first.left({(sha256, tool) for tool in first.tools[1:]})
        assert not first.left({(sha256, tool) for tool in first.tools})

    def test_words_are_kept_at_once_and_nothing_is_asked_twice(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The second kernel ends the context, so the tool is started again for the third."""
        tool = tmp_path / "bin/compute-sanitizer"
        tool.parent.mkdir()
        calls = tmp_path / "calls"
        tool.write_text(
            f"""#!/bin/sh
echo "$@" >> {calls}
for word; do case $word in
0:*) echo "CALL 0 a"; echo "DONE 0";;
1:*) echo "CALL 1 a"; echo "========= Invalid read"; echo "=========   at specimen1::k()"
     echo "DONE 1 AcceleratorError"; echo "LOST 1"; exit 0;;
2:*) echo "CALL 2 a"; echo "DONE 2";;
esac; done
"""
        )
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", str(tool.parent), prepend=":")
        library = tmp_path / "module.so"
        done = Build(binary=library, log="", seconds=1.0, cached=False, exit_code=0)
        monkeypatch.setattr(sanitize_labels, "built", lambda *_, **__: done)
        group = planned(1, 1)[:3]
        monkeypatch.setattr(sanitize_labels, "tool_jobs", lambda _: [sanitize_labels.ToolJob(tuple(group))])
        found = tmp_path / "found.jsonl"
        for _ in range(2):
            assert sanitize_labels.main(["--found", str(found), "--jobs", "1", "--lanes", "1"]) == 0
        words = sanitize_labels.read_found(found)
        assert len(words) == 3 * len(sanitize_labels.TOOLS)
        assert {word.name for word in words if word.finding} == {group[1].name}
        assert len(calls.read_text().splitlines()) == 2 * len(sanitize_labels.TOOLS)

    def test_nothing_begins_after_the_deadline(self, tmp_path: Path) -> None:
        group = planned(1, 1)[:1]
        assert sanitize_labels.run_tool("memcheck", tmp_path / "module.so", group, time.monotonic() - 1) == []


class TestConditions:
    def test_each_extension_has_kernels_in_question_and_controls(self, tmp_path: Path) -> None:
        names = tmp_path / "names"
        names.write_text("right.warp_shuffles\nright.dynamic_shared\n")
        words = tmp_path / "words.jsonl"
        seeds = [item for item in planned() if item.operator is None]
        lines = [{"name": item.name, "sha256": item.sha256, "verdict": "CORRECT_HERE"} for item in seeds]
        words.write_text("".join(json.dumps(line) + "\n" for line in lines))
        options = changed_conditions._options(["--names", str(names), "--words", str(words)])
        (group,) = changed_conditions._groups(options)
        assert {item.name for item, control in group if not control} == {"right.warp_shuffles", "right.dynamic_shared"}
        controls = [item for item, control in group if control]
        assert len(controls) == 2
        assert all("__shfl" in item.text for item in controls)

    def test_delays_and_poison_come_after_the_includes(self) -> None:
        specimen = next(item for item in planned() if item.name == "right.warp_shuffles")
        text = merged([specimen.text], CONDITIONS["apart"].prelude)
        assert text.index("#include <torch/extension.h>") < text.index("#define __shfl_down_sync(")
        assert text.index("#define __shfl_down_sync(") < text.index("namespace specimen0 {")
        assert 'm.def("poison", &kbench_conditions::poison);' in text

    def test_a_kernel_that_ends_the_process_leaves_the_next_one_a_new_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        said = iter(["PASS", ChildEndedError("exit code -6"), "INCORRECT_VALUE", ChildEndedError("no answer in 1 s")])
        started = []

        class Scripted:
            def __init__(self, *words: str) -> None:
                started.append(words)

            def ask(self, request: dict[str, str], limit_s: float) -> dict[str, object]:
                if "what" in request:
                    return {}
                answer = next(said)
                if isinstance(answer, ChildEndedError):
                    raise answer
                return {"verdict": answer, "reason": "", "over": False}

            def close(self) -> None:
                pass

        monkeypatch.setattr(changed_conditions, "LineChild", Scripted)
        group = [(item, number == 0) for number, item in enumerate(planned(1, 1)[:4])]
        words = changed_conditions._called(group, "O0", tmp_path / "module.so", 2, float("inf"))
        assert [word.verdict for word in words] == ["PASS", "RUNTIME_ERROR", "INCORRECT_VALUE"]
        assert [word.control for word in words] == [True, False, False]
        assert len(started) == 2
        assert started[0][-1] == "poisoned"


class TestFolding:
    def test_a_tool_that_complains_makes_a_right_kernel_wrong(self) -> None:
        found = [ToolWord("a", "a", "memcheck", "Invalid read", "rows=3"), ToolWord("b", "b", "memcheck", "")]
        first, second = folded([label("a", labelled_by="judge"), label("b")], found, [])
        assert (first.correct, first.verdict, first.labelled_by) == (False, "RUNTIME_ERROR", "sanitizer")
        assert first.reason == "memcheck: Invalid read (rows=3)"
        assert first.before == "judge: PASS"
        assert second.correct is True
        assert second.looked == {"memcheck": ""}
        assert folded([first, second], found, []) == [first, second]

    def test_what_was_wrong_before_keeps_its_label(self) -> None:
        wrong = label("a", correct=False, verdict="INCORRECT_VALUE", reason="y is off")
        (kept,) = folded([wrong], [ToolWord("a", "a", "racecheck", "Race reported", "rows=3")], [])
        assert kept == replace(wrong, looked={"racecheck": "Race reported (rows=3)"})

    def test_initcheck_alone_decides_nothing(self) -> None:
        (kept,) = folded([label("a")], [ToolWord("a", "a", "initcheck", "Uninitialized read", "rows=3")], [])
        assert kept.correct is True
        assert kept.looked["initcheck"]

    def test_wrong_results_count_only_where_all_controls_are_right(self) -> None:
        verdicts = {"debug": "INCORRECT_VALUE", "apart": "INCORRECT_VALUE", "O0": "RUNTIME_ERROR", "late": "PASS"}
        asked = [ConditionWord("a", "a", name, verdict, "y is off", False) for name, verdict in verdicts.items()]
        of_control = dict.fromkeys(verdicts, "PASS") | {"apart": "INCORRECT_VALUE"}
        controls = [ConditionWord("c", "c", name, verdict, "", True) for name, verdict in of_control.items()]
        assert valid_conditions([*asked, *controls]) == {"debug", "O0", "late"}
        (changed,) = folded([label("a")], [], [*asked, *controls])
        assert (changed.correct, changed.labelled_by) == (False, "conditions")
        assert changed.reason == "debug: INCORRECT_VALUE: y is off"
        (same,) = folded([label("a")], [], [*(item for item in asked if item.condition != "debug"), *controls])
        assert same.correct is True  # errors can be of resources
        assert valid_conditions(asked) == set()


class TestSettling:
    def test_files_without_a_word_come_first_and_the_oldest_words_next(self) -> None:
        new, old, older, done = planned()[:4]
        earlier = [{"sha256": old.sha256, "version": "2"}, {"sha256": older.sha256, "version": "1"}]
        earlier += [{"sha256": item.sha256, "version": "2"} for item in planned()[4:]]
        now = [
            {"sha256": done.sha256, "version": EmulateVerifier.version},
            {"sha256": new.sha256, "version": "0"},
        ]
        turn = in_turn(now, earlier)
        assert [item.name for item in turn[:3]] == [new.name, older.name, old.name]
        assert done.name not in [item.name for item in turn]

    def test_no_check_begins_that_would_end_too_late(self, tmp_path: Path) -> None:
        assert emulated_by(planned()[0].name, tmp_path, time.time() + 1) is None

    def test_a_call_goes_on_from_what_the_one_before_has_left_and_ends_what_hangs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        before, out = tmp_path / "before", tmp_path / "out"
        before.mkdir()
        word = ToolWord("a", "a", "memcheck", "Invalid read", "rows=3")
        (before / "sanitized.jsonl").write_text(json.dumps(asdict(word)) + "\n")
        commands = (["sh", "-c", "exit 0"], ["sleep", "60"], ["sh", "-c", "exit 3"])
        monkeypatch.setattr(settle_labels, "_commands", lambda *_: commands)
        assert settle_labels.main(["--out", str(out), "--from", str(before), "--budget-s", "2"]) == 1
        told = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert told["complaints"] == ["a memcheck"]
        assert told["codes"] == {"sanitize": 0, "conditions": None, "emulate": 3}
        assert told["left"] == len(planned())


def test_the_page_says_what_the_raw_files_say() -> None:
    assert emulated_docs.main(["--check"]) == 0
    assert len(read_labels()) > 400
