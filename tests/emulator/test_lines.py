"""Lines of the source, as addr2line answers: the names of files in its answers are the submission's."""

import pytest

from benchmarks.emulator.build import answered_lines

MARK = 0x4000_0123_4567_89AB
NEXT = "0x40000123456789ab\n??:0\n"


def answer(place: int, *frames: str) -> str:
    return f"{place:#018x}\n" + "".join(f"{frame}\n" for frame in frames) + NEXT


def test_the_first_frame_in_the_source_counts() -> None:
    log = answer(9, "/usr/include/x.h:3", "/given/kbench_submission.cu:12", "kbench_submission.cu:40") + answer(
        19, "??:0"
    )
    assert answered_lines(log, [10, 20], MARK) == {10: 12}


@pytest.mark.parametrize("name", ["x\n0xqq", "x\n0x0000000000000013", "??:0\n0x4000123456789abc", "\n\n", "a:1\n0x"])
def test_a_file_name_with_new_lines_moves_no_answer(name: str) -> None:
    log = answer(9, f"{name}:3") + answer(19, "kbench_submission.cu:7")
    assert answered_lines(log, [10, 20], MARK) == {20: 7}


def test_a_line_too_long_for_a_number_is_none() -> None:
    assert answered_lines(answer(9, "kbench_submission.cu:" + "9" * 5000), [10], MARK) == {}


@pytest.mark.parametrize("log", ["", answer(9, "kbench_submission.cu:7"), answer(9) * 3, answer(9) * 2 + "0x"])
def test_answers_that_are_not_all_there_say_nothing(log: str) -> None:
    assert answered_lines(log, [10, 20], MARK) == {}
