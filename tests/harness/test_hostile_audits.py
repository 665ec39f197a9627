"""A submission beside a profiler: the report is the tool's own, whatever the process that it looks at tries.

The profiler is a stand-in, as there is no GPU; sandbox, descriptors and the submission's process are real.
"""

import os
import platform
from pathlib import Path

import pytest

from benchmarks.harness import SupervisorError, default_rules, default_suites, find_task
from benchmarks.harness.child.gpu.apart import enter_domain
from benchmarks.harness.errors import AuditBroken
from benchmarks.harness.gpu import audit, watching
from benchmarks.harness.gpu.discovery import Gpu
from benchmarks.harness.gpu.room import MemoryPlace
from tests.watched_tree import WatchedTree

pytestmark = pytest.mark.sandbox
# of its own: other tests demand the memory of theirs
STAND_IN = Gpu("host:0", "Stand-in", f"host-{os.getpid()}", "none", 8 << 30, "sm_90", (), accelerator="host")
TABLE = (
    '"Kernel Name","gpu__time_duration.sum","dram__bytes_read.sum","dram__bytes_write.sum"\n'
    '"","us","Mbyte","Kbyte"\n"slow","900","1","1"\n'
)
TOOL = f"""#!/bin/sh
while [ "$1" != --log-file ]; do shift; done
report=$2; shift 2
exec 9> "$report"
"$@" 9>&-
cat >&9 <<'END'
{TABLE}END
{{end}}
"""
FORGES = f"""
import contextlib, glob, os
forged = {TABLE.replace("900", "1")!r}
for place in glob.glob("/proc/[0-9]*/fd/*") + glob.glob("/kbench/*") + ["/kbench/out", "/tmp/out", "/dev/fd"]:
    for way in (os.symlink, os.link):
        with contextlib.suppress(OSError):
            way("/etc/passwd", place + "/ncu.csv")
    if place.startswith("/proc/%d/" % os.getpid()) and int(place.rpartition("/")[2]) < 3:
        continue
    with contextlib.suppress(OSError), open(place, "w") as file:
        file.write(forged)
        file.flush()
        print("reached", place, os.readlink(place))
for pid in filter(str.isdigit, os.listdir("/proc")):
    with contextlib.suppress(OSError):
        if int(pid) != os.getpid():
            open("/proc/" + pid + "/mem", "r+b")
            print("reached the memory of", pid)
print("tried")
"""


@pytest.fixture
def look(tmp_path: Path, sandbox: None, monkeypatch: pytest.MonkeyPatch):
    """The report about a module, by a profiler that ends as it is told."""
    binary, tools = tmp_path / "kbench_submission.model", tmp_path / "tools"
    for folder in (binary, tools, tmp_path / "scratch"):
        folder.mkdir()
    (binary / "extensions.json").write_text("{}")
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    task = find_task(default_suites(), "mnist_linear_relu/forward")
    configs = [item for item in task.configs_for("cuda") if not item.hidden][:1]

    def run(module: str, end: str = "exit 0") -> tuple[str, str]:
        (binary / "module.py").write_text(module)
        (tools / "ncu").write_text(TOOL.format(end=end))
        (tools / "ncu").chmod(0o755)
        canaries, scratch = WatchedTree(tmp_path), tmp_path / "scratch"
        watch = watching.Watching(task, binary, STAND_IN, default_rules().gpu, scratch, 60.0, lambda: False)
        try:
            report = watch.run(configs, "ncu", audit._ncu_argv(), {0})
            return report, next(scratch.glob("ncu-*/log")).read_text()
        finally:
            assert canaries.moved(besides="scratch") == []
            assert not any(path.is_symlink() for path in tmp_path.rglob("*"))

    return run


def test_a_module_does_not_reach_the_report_that_is_written_about_it(look) -> None:
    report, log = look(FORGES)
    assert "tried" in log
    assert report == TABLE
    if enter_domain_in_a_child():
        assert "reached /proc" not in log
        assert "reached the memory" not in log


# Triton writes what it has compiled into a folder of the process and moves it
MOVES = """
import os
os.makedirs("/tmp/mine/part")
open("/tmp/mine/part/kernel", "w").close()
os.replace("/tmp/mine/part/kernel", "/tmp/mine/kernel")
print("kernel is kept", flush=True)
"""


def test_who_is_watched_may_move_files_between_folders(look) -> None:
    _, log = look(MOVES)
    if _linux() >= (6, 7) or not enter_domain_in_a_child():
        assert "kernel is kept" in log


def _linux() -> tuple[int, ...]:
    return tuple(int(part) for part in platform.release().split(".")[:2])


def test_a_tool_that_is_ended_has_seen_nothing(look) -> None:
    with pytest.raises(AuditBroken, match="did not finish it"):
        look("pass", end="kill -9 $$")


def test_a_tool_that_fails_by_itself_is_our_fault(look) -> None:
    with pytest.raises(SupervisorError, match="ncu ended with 3"):
        look("pass", end="exec 9>&-; : > $report; exit 3")


def test_sessions_that_wait_leave_the_gpu_before_a_tool_runs(look) -> None:
    asked = []

    def leave() -> None:
        asked.append(True)
        place.give_back()

    place = MemoryPlace(STAND_IN, leave)
    assert place.take()
    try:
        look("pass")
    finally:
        place.give_back()
    assert asked


def enter_domain_in_a_child() -> bool:
    """Whether this system's kernel has Landlock; nothing leaves a domain, so a child tries it."""
    pid = os.fork()
    if pid == 0:
        os._exit(0 if enter_domain() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
