"""The costs of the files of tests, which a run prints at its end."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests import spent


def phase(file, took_s, processor_s):
    return SimpleNamespace(nodeid=f"{file}::test_it", duration=took_s, processor_s=processor_s)


def test_the_phases_of_a_file_are_added_and_other_reports_are_left_out():
    warning = SimpleNamespace(nodeid="a.py::test_it")
    costs = spent.by_file([phase("a.py", 3.0, 1.0), phase("a.py", 4.0, 0.5), phase("b.py", 1.0, 0.25), warning])
    assert costs == {"a.py": spent.FileCost(7.0, 1.5), "b.py": spent.FileCost(1.0, 0.25)}


def test_the_table_has_the_files_that_took_long_and_the_sum_of_all():
    costs = {"a.py": spent.FileCost(7.0, 1.5), "b.py": spent.FileCost(1.0, 0.25), "c.py": spent.FileCost(9.0, 9.0)}
    assert [line.split() for line in spent.table(costs)] == [
        ["9.0", "s", "9.0", "s", "c.py"],
        ["7.0", "s", "1.5", "s", "a.py"],
        ["17.0", "s", "10.8", "s", "all", "files"],
    ]
    assert spent.table({"b.py": costs["b.py"]}) == []


def test_what_still_runs_counts_where_a_control_group_can_be_made():
    """As a site does that several tests share, or a sandbox that is killed before anybody has waited for it."""
    busy = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ntime.sleep(60)"
    clock = spent.ProcessorClock()
    clock.enter()
    try:
        if not clock.counts_all:
            pytest.skip("no control group can be made here")
        with subprocess.Popen([sys.executable, "-c", busy], stdout=subprocess.PIPE) as running:
            running.stdout.read(1)
            assert clock.lap_s() > 0.2
            running.kill()
    finally:
        clock.leave()
    assert not clock.counts_all
