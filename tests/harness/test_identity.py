"""Which sources are the same program."""

import struct
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


def elf(code: bytes, names: bytes, data: bytes = b"", notes: tuple[bytes, ...] = ()) -> bytes:
    """A file with two sections that are loaded, one with names that are not, and the linker's id of the build."""
    start, build_id = 64, struct.pack("=III4s20s", 4, 20, 3, b"GNU", names)
    sections = [(1, 2, code), (1, 2, data), (3, 0, names), (7, 2, build_id), *((7, 2, note) for note in notes)]
    table = start + sum(len(content) for _, _, content in sections)
    head = b"\x7fELF\x02\x01\x01".ljust(0x28, b"\0") + struct.pack("=Q", table)
    head = head.ljust(0x3A, b"\0") + struct.pack("=HHH", 64, len(sections), 0)
    body, rows = b"", b""
    for kind, flags, content in sections:
        rows += struct.pack("=IIQQQQ", 0, kind, flags, 0, start + len(body), len(content)).ljust(64, b"\0")
        body += content
    return head.ljust(start, b"\0") + body + rows


def key_of(tmp_path, data: bytes) -> str | None:
    path = tmp_path / "kernel.so"
    path.write_bytes(data)
    return object_key(Source("", "cpp"), Build(path, "", 0.0, False, 0))


def test_what_is_loaded_tells_objects_apart_and_nothing_else(tmp_path) -> None:
    assert key_of(tmp_path, elf(b"code", b"name")) == key_of(tmp_path, elf(b"code", b"other name"))
    assert key_of(tmp_path, elf(b"code", b"name")) != key_of(tmp_path, elf(b"kode", b"name"))
    assert key_of(tmp_path, elf(b"co", b"name", b"de")) != key_of(tmp_path, elf(b"cod", b"name", b"e"))


def test_what_notes_hold_is_read_by_programs_as_well(tmp_path) -> None:
    """Also a note that looks like the id of the build, of which there is one."""
    ids = [struct.pack("=III4s20s", 4, 20, 3, b"GNU", word) for word in (b"fast", b"slow")]
    for one, other in ((b"fast", b"slow"), ids):
        keys = {key_of(tmp_path, elf(b"code", b"name", notes=(note,))) for note in (one, other)}
        assert len(keys) == 2


def test_a_file_of_another_kind_has_the_key_of_its_bytes(tmp_path) -> None:
    assert key_of(tmp_path, b"\x7fEL") not in (None, key_of(tmp_path, b"\x7fEL."))


@pytest.mark.parametrize("cut", [10, 60, 70, 150])
def test_an_object_that_is_not_whole_has_no_key(tmp_path, cut: int) -> None:
    assert key_of(tmp_path, elf(b"code", b"name")[:cut]) is None


@pytest.mark.parametrize("number", [1 << 62, 1 << 63, (1 << 64) - 1])
@pytest.mark.parametrize("place", ["table", "start", "length"])
def test_a_forged_table_of_sections_gives_no_key(tmp_path, place: str, number: int) -> None:
    data = bytearray(elf(b"code", b"name"))
    (table,) = struct.unpack_from("=Q", data, 0x28)
    struct.pack_into("=Q", data, {"table": 0x28, "start": table + 24, "length": table + 32}[place], number)
    assert key_of(tmp_path, bytes(data)) is None


def test_sections_that_repeat_the_file_give_no_key(tmp_path) -> None:
    """Sixty thousand times the whole file would not fit into memory."""
    data = bytearray(elf(b"code", b"name"))
    (table,) = struct.unpack_from("=Q", data, 0x28)
    row = struct.pack("=IIQQQQ", 0, 1, 2, 0, 0, 1 << 20).ljust(64, b"\0")
    struct.pack_into("=HH", data, 0x3A, 64, 60_000)
    assert key_of(tmp_path, bytes(data[:table]) + row * 60_000) is None


def test_no_link_is_followed_and_nothing_compiled_has_no_key(tmp_path) -> None:
    (tmp_path / "there").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    assert object_key(Source("", "cpp"), Build(tmp_path / "link", "", 0.0, False, 0)) is None
    assert object_key(Source("", "cpp"), Build(None, "", 0.0, False, 1)) is None


def test_of_python_the_syntax_is_what_is_compiled(tmp_path) -> None:
    build = Build(tmp_path, "", 0.0, False, 0)
    one, other = (object_key(Source(text, "triton"), build) for text in ('x = (1); y = "a"', "x = 1\ny = 'a'"))
    assert one == other is not None
