"""A profile shows 96 KiB of what a build holds or a compiler prints; however long that is, reading it takes little."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MEASURED = """
import resource, sys, time
from pathlib import Path
from benchmarks.harness import Paths, Source, default_rules
from benchmarks.harness.compilers import gxx, listings
root = Path(sys.argv[1])

def of_a_build():
    listings._sass = lambda *_: (root / "long").read_bytes()
    return listings.read_gpu_build(root / "long", ["kernel"], default_rules(), Paths(root), lambda: False)

def of_a_source():
    (root / "ours").mkdir()
    (root / "ours/kbench.h").write_text("")
    gxx.prepare_headers = lambda *_: root / "ours"
    source = Source((root / "long").read_text(), "cpp")
    return listings.read_cpp_source(source, default_rules(), Paths(root), lambda: False)

resource.setrlimit(resource.RLIMIT_AS, (3 << 30, -1))
before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
made = {way}()
taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, time.process_time() - started
print(sum(len(item.text) for item in made.listings), *taken)
"""


def read(root: Path, text: bytes, way: str) -> None:
    """Something is shown of it."""
    (root / "long").write_bytes(text)
    command = [sys.executable, "-c", MEASURED.replace("{way}", way), str(root)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=150, check=True)
    shown, taken_kb, taken_s = map(float, done.stdout.split())
    assert shown > 0, "no listing was made"
    assert (taken_kb < 300 << 10, taken_s < 2) == (True, True), f"{taken_kb / 1024:.0f} MB and {taken_s:.1f} s"


# What the kernel of any build can hold as a constant, and `.incbin` makes cheap
LINES = {
    "short lines": 2_600_000 * b"ab\n",
    "blank lines": 2_600_000 * b" \n\n",
    "lines that are not shown": 1_100_000 * b"\t.loc 1\n" + b"ret;\n",
    "functions": 700_000 * b"// .globl k\n",
    "one line": 7_900_000 * b"a",
}


@pytest.mark.parametrize("name", LINES)
def test_what_a_build_holds_in_place_of_ptx_takes_little_of_the_worker(tmp_path: Path, name: str) -> None:
    read(tmp_path, 4 * (b".version 8.0\n.target sm_90\n" + LINES[name] + b"\0"), "of_a_build")


# 24 MB of lines of two characters
MACROS = "\n".join(['#define A0 "' + 1000 * "#a\\n" + '"', *(f"#define A{n + 1} A{n} A{n}" for n in range(13))])
SOURCE = f"""{MACROS}
extern "C" __attribute__((visibility("default"))) void forward(float *x) {{ asm volatile(A13); x[0] = x[1] * x[2]; }}
"""


@pytest.mark.sandbox
def test_the_assembly_of_a_small_source_takes_little_of_the_worker(root: Path) -> None:
    (root / "data/scratch").mkdir(parents=True)
    read(root / "data", SOURCE.encode(), "of_a_source")
