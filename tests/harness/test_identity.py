"""Which sources are the same program."""

import time

import pytest

from benchmarks.harness import Build, Source, object_key, source_key

CPP = """#include <x>
#define F(x) (x)
int f(int a) { return a ++ + 1.0e-5f; } // one
std::vector<std::vector<int>> v; auto s = R"(a  b)";
"""
SCRIPT = "def f(x):\n    if x:\n        return (1,\n  2)\n    return 3  # three\n"


def same(one: str, other: str, language: str = "cpp") -> bool:
    return source_key(Source(one, language)) == source_key(Source(other, language))


@pytest.mark.parametrize(
    "other",
    [
        CPP + " ",
        CPP + "\n\n// again\n",
        CPP.replace("#define F(x) (x)", "#  define  F(x)   (x) /* z */\n\n"),
        CPP.replace("{ return a ++ + 1.0e-5f; }", "\n{\n\treturn a++ +1.0e-5f ;}"),
        CPP.replace(">>", "> >"),
        CPP.replace("\n", "\r\n"),
    ],
)
def test_comments_and_layout_make_no_other_source(other: str) -> None:
    assert same(CPP, other)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("F(x) ", "F (x) "),
        ("a ++ +", "a + ++"),
        ("1.0e-5f", "1.0e-6f"),
        ("a  b", "a b"),
        ("int a", "inta"),
        ("<x>\n", "<x> "),
        ("// one", "/ / one"),
    ],
)
def test_what_compiles_to_something_else_is_another(old: str, new: str) -> None:
    assert old in CPP
    assert not same(CPP, CPP.replace(old, new))


@pytest.mark.parametrize(
    "other",
    [
        SCRIPT + "\n",
        SCRIPT.replace("    ", "\t"),
        SCRIPT.replace("    ", "  "),
        SCRIPT.replace("(1,\n  2)", "( 1 , 2 )"),
        SCRIPT.replace("    if", "\n    # why\n\n    if"),
    ],
)
def test_layout_of_python_counts_where_it_means_something(other: str) -> None:
    assert same(SCRIPT, other, "triton")
    assert not same(SCRIPT, SCRIPT.replace("    return 3", "        return 3"), "triton")


@pytest.mark.parametrize("splice", ["\\\n", "\\\r\n", "\\ \t\n"])
def test_a_line_that_goes_on_is_one_line(splice: str) -> None:
    code = CPP.replace('R"(a  b)"', '"a"')
    assert same(code, code.replace("auto s", f"auto {splice} s"))
    assert same(code, code.replace("vector", f"vec{splice}tor"))
    assert not same(code, code.replace("} // one\n", f"}} // one {splice}"))
    assert not same("int f(int x){return - -x;}", f"int f(int x){{return -{splice}-x;}}")
    assert not same('auto s = R"(ab)";', f'auto s = R"(a{splice}b)";')


@pytest.mark.parametrize(
    "include",
    [
        "#include {}",
        "# include{}",
        "#/**/include {}",
        "#include/**/{}",
        "%:include {}",
        "#inc\\\nlude {}",
        "#import {}",
    ],
)
def test_spaces_in_the_name_of_a_header_are_part_of_it(include: str) -> None:
    assert not same(include.format("<torch/extension.h>\n"), include.format("<torch / extension.h>\n"))


def test_texts_without_any_token_are_told_apart() -> None:
    assert not same("// one", "// two")
    assert not same("# one", "# two", "triton")


@pytest.mark.parametrize(
    "text", ["a ", '"', "'a", "\n ", "#\n", "#define a\n", "/*", "(", 'R"x(', "1.", '"""a', "\\\n"]
)
@pytest.mark.parametrize("language", ["cpp", "triton"])
def test_no_text_takes_more_than_its_size(text: str, language: str) -> None:
    def least_s(size: int) -> float:
        found = []
        for _ in range(3):
            source_key.cache_clear()
            started = time.process_time()
            source_key(Source(text * (size // len(text)), language))
            found.append(time.process_time() - started)
        return min(found)

    assert least_s(1 << 17) < 4 * least_s(1 << 16) + 0.05


def key_of(tmp_path, data: bytes) -> str | None:
    path = tmp_path / "kernel.so"
    path.write_bytes(data)
    return object_key(Source("", "cpp"), Build(path, "", 0.0, False, 0))


@pytest.mark.parametrize("data", [b"", b"\x7fEL", b"\x7fELF" + bytes(60) + b"code"])
def test_each_byte_of_a_compiled_file_is_part_of_its_key(tmp_path, data: bytes) -> None:
    others = [data + b"\0", *(data[:at] + b"?" + data[at + 1 :] for at in range(len(data)))]
    keys = {key_of(tmp_path, one) for one in (data, *others)}
    assert None not in keys
    assert len(keys) == 1 + len(others)


def test_no_link_is_followed_and_nothing_compiled_has_no_key(tmp_path) -> None:
    (tmp_path / "there").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    assert object_key(Source("", "cpp"), Build(tmp_path / "link", "", 0.0, False, 0)) is None
    assert object_key(Source("", "cpp"), Build(None, "", 0.0, False, 1)) is None


def test_of_python_each_byte_of_the_text_counts(tmp_path) -> None:
    """A program can read its own file, and `triton.jit` reads layout and comments."""
    build = Build(tmp_path, "", 0.0, False, 0)
    texts = ("x = 1", "x = 1\n", "x = (1)", "x = 1  # one")
    keys = [object_key(Source(text, "triton"), build) for text in texts]
    assert len(set(keys)) == len(texts)
    assert object_key(Source("x = 1", "triton"), build) == keys[0]
