"""How tests share a machine: which of them go to one process together, in what order, and what they may share.

A file stays in one process, since its fixtures are a browser or a whole site; files that use the same site stay
together, and every case of the corpus and every example stands for itself. Files that wait for sites and browsers
come evenly between files that compute, so that no processor is idle while everybody waits; of both what takes long
begins first, so that no process is left alone with it at the end. Each process has a folder for temporary files of its
own, and with it locks on the machine of its own: judgings beside each other disturb only what is said about time, and
tests of that are marked `alone`. Not covered: which tests are marked.
"""

import os
import shutil
import tempfile
import time
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

from benchmarks.harness import digest, host_compiler_version, machine_fingerprint

BY_CASE = ("tests/harness/test_corpus.py", "tests/harness/test_examples.py")  # a judging for each of their cases
ON_ONE_SITE = (  # files that share a site: to start one takes 10 s of a processor, and to fill one takes long
    ("tests/browser/test_accessibility.py", "tests/browser/test_site_journey.py"),
    (
        "tests/browser/test_editor.py",
        "tests/browser/test_journey.py",
        "tests/browser/test_owner_journey.py",
        "tests/browser/test_passkeys.py",
        "tests/browser/test_run_journey.py",
    ),
    ("tests/site/test_cli_remote.py", "tests/site/test_logs.py"),
)
UNUSED_S = 3 * 3600  # longer than a run of all tests
_ROOMS_THAT_COMPUTE = ("tests/harness/", "tests/evolve/", "tests/test_contracts.py")
_NOT_QUICK = ("sandbox", "browser", "gpu", "alone", "django_db")
_COMPUTE_LONG = (  # 10 s or more each: whole runs of the search, compilers, admission of every task
    "tests/evolve/test_crash.py",
    "tests/evolve/test_simulated.py",
    "tests/evolve/test_search_quality.py",
    "tests/evolve/test_templates_cuda.py",
    "tests/evolve/test_templates_cpp.py",
    "tests/evolve/test_verifiers_corpus.py",
    "tests/evolve/test_llm_runs.py",
    "tests/evolve/test_stopping.py",
    "tests/harness/test_admission.py",
)
_WAIT = ("tests/browser", "tests/operations/test_hosts.py", "tests/site")  # longest first, as below
_COMPUTE = (*_COMPUTE_LONG, "tests/importers", *BY_CASE)


def workers():
    """How many processes `-n auto` means: one more than cores, since sites, sandboxes and browsers often wait."""
    return len(os.sched_getaffinity(0)) + 1


class FilesAndCases(LoadScopeScheduling):
    """Hands out files, and judgings of kernels one by one, in the order in which they were collected."""

    def __init__(self, config, log=None):
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid):
        return scope(nodeid)


def scope(nodeid):
    """What goes to one process together with this test: its file, its case, or the files on one site."""
    file, _, test = nodeid.partition("::")
    for files in ON_ONE_SITE:
        if file in files:
            return files[0]
    return f"{file}[{test.partition('[')[2]}" if file in BY_CASE else file


def in_order(nodeids):
    """The place of each scope of these tests: those that wait spread evenly among all others."""
    scopes = list(dict.fromkeys(map(scope, nodeids)))
    shares = {}
    for starts, chosen in ((_WAIT, True), (_COMPUTE, False)):
        group = [item for item in scopes if item.startswith(_WAIT) is chosen]
        group.sort(key=lambda item: _place(item, starts))
        shares |= {item: number / len(group) for number, item in enumerate(group)}
    return {item: number for number, item in enumerate(sorted(scopes, key=shares.__getitem__))}


def several_times(nodeids):
    """Names that more than one test has: a parallel run hands out names, and runs only the first test of each."""
    return [name for name, count in Counter(nodeids).items() if count > 1]


def _place(item, starts):
    return next((number for number, start in enumerate(starts) if item.startswith(start)), len(starts))


def is_quick(item):
    """Whether it is a unit or contract test, which computes and starts nothing: all together take a minute."""
    is_long = item.nodeid.startswith(_COMPUTE_LONG) or any(map(item.get_closest_marker, _NOT_QUICK))
    return item.nodeid.startswith(_ROOMS_THAT_COMPUTE) and not is_long


def uses_the_database(item):
    """Whether a test could end differently on another database."""
    return bool(item.get_closest_marker("django_db")) or not {"db", "transactional_db"}.isdisjoint(item.fixturenames)


def own_temporary_folder():
    """From now on temporary files of this process, and the locks among them, are its own; returns the folder."""
    folder = tempfile.mkdtemp(prefix="kb-")  # short: paths of sockets begin with it
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    return folder


def give_up(folder):
    os.environ.pop("TMPDIR")
    tempfile.tempdir = None
    shutil.rmtree(folder, ignore_errors=True)


def cache_folder():
    """Where compiled kernels, headers and baselines outlive a test run; CI may keep the folder from run to run."""
    return Path(os.environ.get("KBENCH_TEST_CACHE") or Path(__file__).parents[1] / "var/test-cache").resolve()


def used_now(kept):
    """Notes that this folder of the cache is used; those beside it that nobody has used for long are removed."""
    os.utime(kept)
    for folder in kept.parent.iterdir():
        if folder.is_dir() and time.time() - folder.stat().st_mtime > UNUSED_S:
            shutil.rmtree(folder, ignore_errors=True)


def libraries_folder(flags, headers):
    """Where what g++ makes with these `flags` and this folder of `headers` is kept from run to run."""
    texts = [path.read_text() for path in sorted(headers.rglob("*.h"))]
    name = digest(host_compiler_version(), machine_fingerprint(), *flags, *texts)
    folder = cache_folder() / "libraries" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def beside_the_cache(*, shared=("builds", "headers", "baselines", "bytecode"), copied=()):
    """A data folder for judging whose caches are the `shared` ones; what is built is moved there within a disk.

    Of caches that are `copied` it has what is there now, and what is added is its own.
    """
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="of-a-process-", dir=cache))
    try:
        (folder / "cache").mkdir()
        for name in shared:
            (cache / name).mkdir(exist_ok=True)
            (folder / "cache" / name).symlink_to(cache / name)
        for name in copied:
            (cache / name).mkdir(exist_ok=True)
            with suppress(shutil.Error):  # something that another process has removed meanwhile; the rest is there
                shutil.copytree(cache / name, folder / "cache" / name, copy_function=os.link)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
