"""What references of strangers, and submissions that compile at their first call, leave in caches that outlive them."""

import os
from dataclasses import replace

import pytest

from benchmarks.harness import Source, Verdict, examine, judge
from benchmarks.harness.errors import RefereeError
from benchmarks.harness.hosts.machine import divide_cores
from benchmarks.harness.measuring.baselines import CpuPreparation, PreparedBaseline, own_copy
from benchmarks.harness.source import NOBODY, Paths
from benchmarks.harness.tasks.spec_json import write_folder
from tests.fixtures.kernelbench_kernels import MODULE
from tests.harness.test_gpu_track import rules as few_rules  # noqa: F401 - fixtures
from tests.harness.test_gpu_track import stand_in  # noqa: F401 - fixtures
from tests.watched_tree import LEAVES as EVERYTHING
from tests.watched_tree import WatchedTree

from .conftest import FIXTURES, foreign

pytestmark = pytest.mark.sandbox
LEAVES = """
import os as _os, socket as _socket
_cache = _os.environ.get("TORCHINDUCTOR_CACHE_DIR", "/tmp")
for _number, _way in enumerate([
    lambda path: _os.symlink("/etc/passwd", path),
    lambda path: _os.symlink("/etc", path),
    lambda path: _os.mkfifo(path),
    lambda path: _os.makedirs(path + "/".join("abcdefghijklmnopq")),
    lambda path: _os.chmod(_cache, 0),
    lambda path: _os.symlink(path, _cache + ".link"),
]):
    try:
        _way(_cache + "/left%d" % _number)
    except OSError:
        pass
"""
FAILS = "\ndef forward(*_): raise ValueError('nothing to compile')\n"


@pytest.fixture
def preparation(examined, rules, sandbox, tmp_path):
    """Of baselines that cannot be compiled, so that nothing has to be; the reference has `head` before."""
    task = replace(examined("level1/2_Affine_tanh.py").task, folder=tmp_path.with_name(f"{tmp_path.name}-task"))
    paths = Paths(tmp_path / "data")
    assert (paths.baselines.is_dir(), paths.scratch.is_dir()) == (True, True)

    def made(head: str) -> CpuPreparation:
        changed = replace(task, reference_source=head + task.reference_source + FAILS)
        write_folder(changed, changed.folder)
        configs = [item for item in task.configs_for("cpu") if not item.hidden][:1]
        how = {"watcher": NOBODY, "cores": divide_cores(rules.cpu)}
        return CpuPreparation(task=changed, configs=configs, rules=rules, **how)

    return made


def test_a_cache_with_links_is_not_kept_and_the_next_task_is_prepared(preparation, tmp_path) -> None:
    canaries, paths = WatchedTree(tmp_path), Paths(tmp_path / "data")
    with pytest.raises(RefereeError, match="left more than files beside its compiled baselines"):
        preparation(LEAVES).compiled(paths)
    assert list((tmp_path / "data/scratch").iterdir()) == [tmp_path / "data/scratch/canary"]
    assert not any(path.is_symlink() for path in (tmp_path / "data").rglob("*"))
    kept = preparation("").compiled(paths)
    assert "nothing to compile" in kept.problems[0]
    assert canaries.moved(besides="data/cache/baselines") == []


def test_the_peaks_of_a_machine_are_measured_without_a_reference(preparation, tmp_path) -> None:
    """They count for every task, and a stranger's reference could forge them."""
    peaks = preparation("raise SystemExit('the reference was loaded')\n").peaks(Paths(tmp_path / "data"))
    assert peaks.flops_per_s > 0


def test_what_a_foreign_file_leaves_while_it_is_imported_changes_nothing(sandbox, tmp_path) -> None:
    source = (FIXTURES / "kernelbench/level1/2_Affine_tanh.py").read_text()
    paths = Paths(tmp_path / "data")
    assert paths.scratch.is_dir()
    canaries = WatchedTree(tmp_path)
    hostile = examine(foreign(EVERYTHING + source), paths, compare_compiled=False)
    assert hostile.task is not None or "its process ended" in hostile.problem
    assert canaries.moved(besides="none") == []
    assert examine(foreign(source), paths, compare_compiled=False).task is not None


def test_a_cache_that_was_kept_earlier_is_copied_without_following_a_link(tmp_path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/passwd").symlink_to("/etc/passwd")
    with pytest.raises(RefereeError, match="is a link"):
        own_copy(PreparedBaseline(tmp_path / "cache", ()), tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["cache"]


def test_what_a_module_leaves_in_place_of_compiled_kernels_is_found(examined, few_rules, paths, tmp_path) -> None:  # noqa: F811
    """Honest modules pass there: `test_modules_on_a_gpu_track.py`."""
    task = replace(examined("level1/2_Affine_tanh.py").task, folder=tmp_path)
    write_folder(task, tmp_path)
    head = "import os\ncache = os.environ['TRITON_CACHE_DIR']\n"
    leaves = "os.makedirs(cache, exist_ok=True); os.path.lexists(cache + '/k') or os.symlink('/etc', cache + '/k')"
    text = MODULE.format(head=head, init=leaves, body="return torch.tanh(self.linear(x))")
    report = judge(Source(text, "python"), task, few_rules, paths, device="host:0", quick=True)
    assert report.verdict is Verdict.TAMPERING, report.reason
    assert "it left something other than compiled kernels" in report.reason
