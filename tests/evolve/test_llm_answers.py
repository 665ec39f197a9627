"""Whole answers are read, everything else is refused with a reason; edits fit exactly once or not at all."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.evolve.llm.answers import AnswerError, parse_answer
from agents.evolve.llm.patches import Edit, PatchError, apply_edits, parse_edits

CODE = "#include <torch/extension.h>\nint one() { return 1; }\n"
GOOD = f"NAME: tiled rows\nTHOUGHT: bound by memory,\nso fewer passes.\nCODE:\n```cpp\n{CODE}```\n"


def test_it_reads_name_thought_and_code():
    answer = parse_answer(GOOD)
    assert (answer.name, answer.thought) == ("tiled rows", "bound by memory,\nso fewer passes.")
    assert (answer.code, answer.edits) == (CODE, None)


def test_it_forgives_bold_headings_and_words_around_the_block():
    answer = parse_answer(f"Sure!\n**NAME:** rows\n**CODE:**\nHere it is.\n```\n{CODE}```\nGood luck!")
    assert (answer.name, answer.thought, answer.code) == ("rows", "", CODE)


def test_a_longer_fence_may_hold_shorter_ones():
    code = "// ```\n// not the end\n// ```\n```\nint x;\n"
    assert parse_answer(f"CODE:\n````cpp\n{code}````").code == code


@pytest.mark.parametrize(
    "text",
    [
        f"```cpp\n{CODE}```",
        f"Here is the kernel.\n\n```cpp\n{CODE}```\nIt reads each row once.",
        f"**Kernel**\n```\n{CODE}```",
    ],
)
def test_one_fenced_block_counts_without_the_headings(text):
    answer = parse_answer(text)
    assert (answer.name, answer.thought, answer.code, answer.edits) == ("", "", CODE, None)


def test_name_and_thought_are_read_without_the_line_of_the_code():
    answer = parse_answer(f"NAME: rows\nTHOUGHT: fewer passes\n```cpp\n{CODE}```")
    assert answer.name == "rows"
    assert answer.thought.startswith("fewer passes")
    assert answer.code == CODE


def test_a_comment_of_the_kernel_is_no_heading():
    code = "/*\n * NAME: not this\n * CODE: nor this\n * EDITS: nor this\n */\nint x;\n"
    answer = parse_answer(f"```cpp\n{code}```")
    assert (answer.name, answer.code) == ("", code)
    assert parse_answer(f"NAME: rows\nCODE:\n```cpp\n{code}```").code == code


def test_a_block_before_the_line_of_the_code_does_not_count():
    answer = parse_answer(f"THOUGHT: instead of\n```\nint slow;\n```\nI write\nCODE:\n```\n{CODE}```")
    assert answer.code == CODE
    assert "int slow;" in answer.thought


def test_edits_in_a_fence_are_edits():
    fenced = f"```\n{edit('int a;', 'int b;')}\n```"
    assert [parse_answer(text).edits for text in (fenced, f"CODE:\n{fenced}", f"EDITS:\n{fenced}")] == [
        (Edit("int a;", "int b;"),)
    ] * 3


@pytest.mark.parametrize(
    ("text", "reason", "said"),
    [
        ("", "empty", "is empty"),
        (" \n ", "empty", "is empty"),
        ("I am sorry, but I cannot help with kernels.", "unparsable", "no fenced block"),
        (f"```cpp\n{CODE}```\nor\n```cpp\nint x;\n```", "unparsable", "2 blocks"),
        (f"```cpp\n{CODE}", "unparsable", "cut off"),
        ("NAME: x\nCODE:\nint x;", "unparsable", "no fenced block"),
        ("CODE:\n```cpp\n```", "empty", "block of code is empty"),
        (GOOD.removesuffix("```\n"), "unparsable", "cut off"),
        (f"{GOOD}\n```cpp\nint other;\n```", "unparsable", "2 blocks"),
        ("EDITS:\nnothing to do", "unparsable", "no edit"),
        ("EDITS:\n<<<<<<< SEARCH\nint x;\n=======\nint y", "unparsable", "cut off"),
    ],
)
def test_what_is_no_whole_answer_is_refused(text, reason, said):
    with pytest.raises(AnswerError, match=said) as caught:
        parse_answer(text)
    assert caught.value.reason == reason


@given(st.integers(0, len(GOOD) - 5))
def test_no_beginning_of_an_answer_is_taken_for_the_whole(length):
    with pytest.raises(AnswerError):
        parse_answer(GOOD[:length])


@given(st.text(max_size=300))
def test_any_text_is_an_answer_or_refused(text):
    answer = None
    with contextlib.suppress(AnswerError):
        answer = parse_answer(text)
    assert answer is None or (answer.code is None) != (answer.edits is None)


SOURCE = "int a = 1;\nint b = 2;\nint c = 1;\n"


def edit(search, replace):
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE"


def test_edits_are_made_one_after_another():
    edits = parse_edits(f"{edit('int b = 2;', 'int b = 3;')}\n{edit('int b = 3;', 'int d;')}")
    assert apply_edits(SOURCE, edits) == "int a = 1;\nint d;\nint c = 1;\n"


def test_lines_can_be_taken_out_and_put_in_at_both_ends():
    assert apply_edits(SOURCE, [Edit("int a = 1;", "")]) == "int b = 2;\nint c = 1;\n"
    assert apply_edits(SOURCE, [Edit("int c = 1;", "int c = 1;\nint d;")]) == f"{SOURCE}int d;\n"


@pytest.mark.parametrize(
    ("search", "said"),
    [
        ("int b = 9;", "matches 0 places"),
        ("b = 2", "matches 0 places"),
        (" ", "searches for nothing"),
        ("int b = 2;\nint a = 1;", "matches 0 places"),
    ],
)
def test_what_does_not_fit_is_refused(search, said):
    with pytest.raises(PatchError, match=said):
        apply_edits(SOURCE, [Edit(search, "x")])


def test_what_fits_twice_is_refused():
    with pytest.raises(PatchError, match="matches 2 places"):
        apply_edits("x;\nx;\n", [Edit("x;", "y;")])


def test_one_edit_that_does_not_fit_refuses_all():
    with pytest.raises(PatchError, match="edit 2 matches 0"):
        apply_edits(SOURCE, [Edit("int b = 2;", "int b;"), Edit("int z;", "")])


def test_edits_that_change_nothing_are_refused():
    with pytest.raises(PatchError, match="change nothing"):
        apply_edits(SOURCE, [Edit("int b = 2;", "int b = 2;")])


@pytest.mark.parametrize("text", ["=======\n", ">>>>>>> REPLACE", edit("a", "<<<<<<< SEARCH"), edit("a\n=======", "b")])
def test_blocks_out_of_order_are_refused(text):
    with pytest.raises(PatchError):
        parse_edits(text)
