"""Several worker hosts on a network, real PostgreSQL and Redis: who dies or is cut off loses and doubles nothing."""

import os
import shutil
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from benchmarks.harness import devices_here
from benchmarks.judgings.queue import compile_queue, judge_queue
from tests import hosts, scheduling
from tests.hosts import Host, Site

pytestmark = pytest.mark.sandbox
LINEAR_RELU = "benchmarks/suites/robust_kbench/mnist_linear_relu/kernels"
ENDED = "select count(*) from benchmarks_evaluation where state in ('done', 'cancelled', 'expired')"

STAGES = "select count(*) from benchmarks_stageresult group by evaluation_id"
ENDS = "select count(*) from benchmarks_event where kind = 'state' and payload->>'state' = 'done' group by topic"
JUDGES = """
    select distinct split_part(w.name, '@', 2)
    from benchmarks_evaluation e join benchmarks_worker w on w.id = e.worker_id
"""


@pytest.fixture(autouse=True)
def networks() -> None:
    problem = hosts.possible()
    if problem and os.environ.get("CI") == "true" and os.geteuid() == 0:
        pytest.fail(problem)
    if problem:
        pytest.skip(problem)


@pytest.fixture
def folder() -> Iterator[Path]:
    path = hosts.short_folder()
    yield path
    shutil.rmtree(path, ignore_errors=True)


def ended_exactly_once(site: Site, count: int) -> None:
    """Each submission has one verdict, one set of results, one event of its end."""
    assert site.rows("select verdict, count(*) from benchmarks_evaluation group by verdict") == [("PASS", count)]
    assert site.rows(STAGES) == [(3,)] * count
    assert site.rows(ENDS) == [(1,)] * count


def judged_by(site: Site) -> set[str]:
    return {name for (name,) in site.rows(JUDGES)}


def test_one_of_three_hosts_dies_and_one_is_cut_off(folder: Path) -> None:
    with hosts.site_with(3, folder) as (site, machines):
        for host in machines:
            host.start()
        site.wait(lambda: all(host.is_online() for host in machines), 120, "not all hosts came")
        count = 7
        site.submit(*(f"// number {number}\n// seconds: 3" for number in range(count)))
        stays, dies, leaves = machines
        site.wait(lambda: all(host.at_work() for host in machines), 60, "not all hosts judge at the same time")
        (orphan,) = leaves.at_work()
        leaves.cut()
        site.wait(lambda: bool(dies.at_work()), 60, "the host that will die judges nothing")
        (lost,) = dies.at_work()
        dies.kill()
        site.wait(lambda: site.rows(ENDED) == [(count,)], 180, "not everything ended")
        ended_exactly_once(site, count)
        assert judged_by(site) == {stays.name} | ({dies.name, leaves.name} & judged_by(site))
        attempts = dict(site.rows("select code::text, attempt from benchmarks_evaluation"))
        assert attempts[lost] == attempts[orphan] == 2

        leaves.mend()
        site.wait(leaves.is_online, 120, "the host that was cut off did not come back")
        # long enough that the other host has not judged all of them before this one, on a busy machine, asks for work
        site.submit(*(f"// again {number}\n// seconds: 8" for number in range(4)))
        site.wait(leaves.at_work, 60, "the host that came back takes no work")
        site.wait(lambda: site.rows(ENDED) == [(count + 4,)], 90, "not everything ended")
        ended_exactly_once(site, count + 4)


def test_what_one_host_compiles_another_one_judges(folder: Path) -> None:
    """The real judge; each host has one kind of worker and builds of its own, and they share a folder for them.

    Headers, peaks and builds of earlier tests are there already, since they are not what is shared here; a quick check
    needs no baselines.
    """
    shared = folder / "shared"
    shared.mkdir()
    variables = {
        "DJANGO_SETTINGS_MODULE": "kbench_site.settings",
        "KBENCH_STORAGE_URL": shared.as_uri(),
        "KBENCH_HEARTBEAT_TIMEOUT_S": "30",
    }
    own = partial(scheduling.beside_the_cache, shared=("headers", "baselines"), copied=("builds",))
    with own() as first, own() as second, hosts.site_with(2, folder, **variables) as (site, (compiles, judges)):
        compiles.folder, judges.folder = first, second
        celery = (sys.executable, "-m", "celery", "-A", "kbench_site", "worker", "-c", "1", "-l", "INFO")
        kind = devices_here()[0].kind
        compiles.start(*celery, "-n", "compile@%h", "-Q", compile_queue(kind))
        judges.start(*celery, "-n", "judge.cpu@%h", "-Q", judge_queue(kind))
        site.wait(judges.is_online, 600, "the judge did not pass its self-test")
        site.submit(_new_kernel(), quick=True)
        site.wait(lambda: site.rows(ENDED) == [(1,)], 600, "it did not end")
        ((verdict, reason, report),) = site.rows("select verdict, reason_text, report from benchmarks_evaluation")
        assert verdict == "PASS", reason
        assert report["environment"]["build_cached"] is True
        (stored,) = (path for path in shared.rglob("*") if path.is_file() and _is_of(compiles, path.name))
        assert (judges.folder / "cache/builds" / stored.name / "build.json").exists()


def _is_of(host: Host, key: str) -> bool:
    return (host.folder / "cache/builds" / key).exists()


def _new_kernel() -> str:
    """One that nobody has built before."""
    return f"{(hosts.ROOT / LINEAR_RELU / 'forward_cpu.cpp').read_text()}// {uuid4()}\n"
