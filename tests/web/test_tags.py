"""Numbers with their units, code with its lines, logs without their tricks, colours with enough contrast."""

import html
import itertools
import re
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.utils import timezone
from pygments.token import Name

from benchmarks.templatetags import code, numbers

TOKENS = Path(__file__).parents[2] / "static" / "css" / "tokens.css"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (numbers.us(None), "not measured"),
        (numbers.us("nan"), "not measured"),
        (numbers.us(3.14159), "3.14 µs"),
        (numbers.us(1234.5), "1.23 ms"),
        (numbers.us(2.5e6), "2.50 s"),
        (numbers.times(1.4142), "1.41×"),
        (numbers.times(None), "not measured"),
        (numbers.error("nan"), "not a number"),
        (numbers.error("inf"), "infinite"),
        (numbers.error(0.0), "0"),
        (numbers.error(2.5e-7), "2.5e-07"),
        (numbers.error(3.25), "3.25"),
        (numbers.percent(0.415), "42 %"),
        (numbers.seconds(0.0123), "12 ms"),
        (numbers.seconds(180), "3 min"),
        (numbers.size(262_144), "256 KiB"),
        (numbers.size(12), "12 bytes"),
        (numbers.flops(26_214_400), "26.2 MFLOP"),
    ],
)
def test_a_number_is_written_with_its_unit(text: str, expected: str) -> None:
    assert text == expected


def test_a_moment_is_relative_with_the_exact_one_in_its_title() -> None:
    moment = timezone.now() - timedelta(hours=3)
    shown = numbers.ago(moment)
    assert "ago</time>" in shown
    assert moment.isoformat(timespec="seconds") in shown


def test_lines_are_numbered_as_a_compiler_counts_them() -> None:
    shown = code.code_lines('/* one\ntwo */\nint x = 1; // "three"\n')
    assert re.findall(r'id="(L\d+)"', shown) == ["L1", "L2", "L3"]
    assert shown.count("<span") == shown.count("</span>")


@pytest.mark.parametrize(
    "text", ["", "\n", "  \n\n", "a & b < c;\n// one\n\n  /* two\n\n three */ int x;\n", 'x = """a\n\n b"""\n']
)
@pytest.mark.parametrize("language", ["cpp", "cuda", "python"])
def test_a_listing_is_the_text_and_every_line_is_closed(text: str, language: str) -> None:
    shown = code.code_lines(text, language)
    assert html.unescape(re.sub("<[^>]*>", "", shown)) == (text or "\n")
    for line in shown.split("\n</span>"):
        assert line.count("<span") - line.count("</span>") in (0, 1)


def test_only_what_has_a_colour_is_marked_and_neighbours_share_a_mark() -> None:
    shown = code.code_lines("static constexpr int x = y + 1; // one\n", "cpp")
    assert re.findall(r'<span class="(\w+)">', shown) == ["k", "kt", "m", "c"]
    assert '<span class="k">static constexpr </span>' in shown


@pytest.mark.parametrize("line", ["\x0c", "\x85", "\u2028", "\r", "\x1c"])
def test_no_other_character_starts_a_line(line: str) -> None:
    assert code.code_lines(f"int a;{line}int b;\n").count('class="l"') == 1


def text_of(listing: str) -> str:
    return html.unescape(re.sub("<[^>]*>", "", listing))


def test_colouring_ends_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lexer looks through the whole rest of such a text at every name; each look takes a millisecond here."""
    looks = itertools.count()
    monkeypatch.setattr(code, "time", SimpleNamespace(monotonic=lambda: next(looks) / 1000))
    for lines in (4_000, 8_000):
        text = "a b()\n" * lines
        started = next(looks)
        assert text_of(code.code_lines(text)) == text
        assert next(looks) - started < 510


def test_the_lexer_sees_short_parts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """For one name before 60,000 spaces it looks 1,800,000,000 times, and nothing can interrupt it."""
    seen: list[str] = []
    lexer = SimpleNamespace(get_tokens_unprocessed=lambda piece: [seen.append(piece) or (0, Name, piece)])
    monkeypatch.setattr(code, "get_lexer_by_name", lambda name: lexer)
    for text in (
        f"x{' ' * 60_000}!\n",
        "a b()\n" * 5_000,
        f"/*{'*' * 2_000}*/ x{'/**/' * 9_000}\n",
        "x" * 3_000 + "\n",
    ):
        assert text_of(code.code_lines(text)) == text
    assert seen
    assert max(map(len, seen)) <= code.PIECE_CHARS


def test_comments_and_strings_are_coloured_however_long() -> None:
    shown = code.code_lines(f'/*{" long" * 200}*/ char x[] = "{"y" * 900}";\n')
    assert re.findall(r'<span class="(\w+)">', shown) == ["c", "kt", "s"]


def test_a_text_that_is_too_long_is_not_coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "get_lexer_by_name", None)
    text = "int a; // <b>\n" * 20_000
    shown = code.code_lines(text[: code.COLOURED_CHARS_MAX + 1])
    assert text_of(shown) == text[: code.COLOURED_CHARS_MAX + 1] + "\n"
    assert shown.count('class="l"') == text[: code.COLOURED_CHARS_MAX + 1].count("\n") + 1
    assert text_of(code.code_lines(text)) == text


def test_a_text_of_empty_lines_is_no_page_of_many_megabytes() -> None:
    text = "\n" * (1 << 18)
    shown = code.code_lines(text)
    assert text_of(shown) == text
    assert shown.count("id=") == code.NUMBERED_LINES_MAX + 1
    assert len(shown) < 4 * len(text)


def test_code_is_escaped() -> None:
    assert "<script>" not in code.code_lines("</span></code><script>alert(1)</script>")


def test_only_the_submitted_file_is_linked_from_a_log() -> None:
    shown = code.log_text("kernel.cpp:3:1: error\n/usr/include/x/kernel.cpp:9:1: note\ntorch/a.h:5:2: note")
    assert re.findall(r'href="(#L\d+)"', shown) == ["#L3"]


def test_a_line_that_nvcc_names_is_linked() -> None:
    assert re.findall(r'href="(#L\d+)"', code.log_text('kernel.cu(12): error: expected a ";"')) == ["#L12"]


def test_errors_of_compilers_are_read_with_their_lines() -> None:
    log = "a.cu(3): error: one\nb.cpp:4:1: error: two\n/x/c.cpp:5:1: error: three\nb.cpp:4:1: error: two\nb.cpp:6: x\n"
    assert [(item.line, item.text) for item in code.compiler_messages(log)] == [(3, "error: one"), (4, "error: two")]
    assert len(code.compiler_messages("".join(f"k.cpp:{n}:1: error: x\n" for n in range(1, 50)))) == 20


def test_terminal_sequences_leave_a_log_even_after_their_escape_was_replaced() -> None:
    assert code.plain_log("\x1b[01;31merror\x1b[0m \ufffd[1mbold\ufffd[0m") == "error bold"


def test_a_long_log_keeps_its_end() -> None:
    shown = code.plain_log("x" * 200_000 + "the error")
    assert shown.endswith("the error")
    assert len(shown) < 70_000


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


PAIRS = [
    *[(ink, ground) for ink in ("ink", "ink-soft", "accent") for ground in ("paper", "surface", "sunken")],
    ("accent-ink", "accent"),
    *[(name, f"{name}-wash") for name in ("good", "bad", "warn", "accent")],
    *[("ink", f"{name}-wash") for name in ("good", "bad", "warn", "quiet")],
    *[(f"code-{name}", "surface") for name in ("keyword", "type", "string", "number", "comment", "function")],
    ("code-comment", "sunken"),
    ("bad", "surface"),
    ("bad", "paper"),
]


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("pair", PAIRS, ids="-on-".join)
def test_text_has_enough_contrast(pair: tuple[str, str], scheme: int) -> None:
    colours = dict(re.findall(r"--([\w-]+): light-dark\((#\w{6}, #\w{6})\)", TOKENS.read_text()))
    ink, ground = (colours[name].split(", ")[scheme] for name in pair)
    assert contrast(ink, ground) >= 4.5
