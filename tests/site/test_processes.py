"""Children that are kept alive and never left behind. What `up` runs is in `test_faults.py`."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from kbench_site.processes import RESTARTS_MAX, Family, GivenUp, SiteProcess

SLEEP = (sys.executable, "-c", "import time; time.sleep(60)")
# a child that starts another one in its session and tells its number
NEST = "import subprocess,sys,time; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); time.sleep(60)"
PARENT = """
import sys, time
from pathlib import Path
from kbench_site.processes import SiteProcess
child = SiteProcess("c", (sys.executable, "-c", "import time; time.sleep(60)"), Path(sys.argv[1]))
child.start()
print(child.process.pid, flush=True)
time.sleep(60)
"""


def eventually(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def gone(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.fixture
def family(tmp_path):
    started = []

    def make(*argvs, **options):
        children = [SiteProcess(str(n), argv, tmp_path / f"{n}.log", **options) for n, argv in enumerate(argvs)]
        started.append(Family(children))
        started[-1].start()
        return started[-1]

    yield make
    for item in started:
        item.stop()


def test_a_child_that_dies_is_started_again(family):
    one = family(SLEEP)
    first = one.children[0].process.pid
    os.kill(first, signal.SIGKILL)
    one.children[0].process.wait()
    assert "was restarted" in one.tend()[0]
    assert one.children[0].process.pid != first


def test_a_child_that_lives_is_left_alone(family):
    assert family(SLEEP).tend() == []


def restart_until_given_up(family):
    sentences = []
    for _ in range(RESTARTS_MAX + 1):
        family.children[0].process.wait()
        sentences += family.tend()
    return sentences


def test_restarts_have_a_limit(family):
    one = family((sys.executable, "-c", "raise SystemExit(3)"))
    assert "not started again" in restart_until_given_up(one)[-1]
    assert one.tend() == []


def test_without_an_essential_child_the_family_gives_up_and_says_why(family):
    one = family((sys.executable, "-c", "raise SystemExit('no disk')"), essential=True)
    with pytest.raises(GivenUp, match="no disk"):
        restart_until_given_up(one)


def test_stopping_reaches_what_the_children_started(family, tmp_path):
    one = family((sys.executable, "-c", NEST), SLEEP)
    log = tmp_path / "0.log"
    assert eventually(lambda: log.read_text().strip())
    one.stop()
    assert eventually(lambda: gone(int(log.read_text())))
    assert not any(child.running for child in one.children)


def test_a_child_dies_with_a_parent_that_is_killed(tmp_path):
    argv = (sys.executable, "-c", PARENT, str(tmp_path / "log"))
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as parent:
        child = int(parent.stdout.readline())
        assert psutil.pid_exists(child)
        parent.kill()
    assert eventually(lambda: gone(child))


def test_what_is_added_later_is_tended_and_stopped_with_the_others(tmp_path):
    first = SiteProcess("first", SLEEP, tmp_path / "first.log")
    later = SiteProcess("later", SLEEP, tmp_path / "later.log")
    family = Family([first])
    family.start()
    try:
        family.add([later])
        assert first.running
        assert later.running
        later.process.kill()
        later.process.wait()
        assert family.tend() == ["later ended with -9 and was restarted"]
    finally:
        family.stop()
    assert not first.running
    assert not later.running
