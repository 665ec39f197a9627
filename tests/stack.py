"""The whole site under `manage.py up` in a folder of its own: real Redis, real workers, real web server and database.

By default with a fake judge and quick clocks; `settings="kbench_site.settings"` gives the real one.
"""

import fcntl
import functools
import hashlib
import json
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import closing, suppress
from pathlib import Path

import django
import psutil
import pytest

from tests import migrated
from tests.scheduling import cache_folder, used_now

ROOT = Path(__file__).parents[1]
PREPARED_FROM = ("agents", "benchmarks", "kbench_site", "static", "tests/stack_settings.py", "constraints.txt")
SUBMIT = """
import json, sys
import django
django.setup()
from django.db import connections
from benchmarks.models import TaskVersion
from benchmarks.services import submission_create
version = TaskVersion.objects.get(task__op="mnist_linear_relu", task__direction="forward", status="active")
for line in sys.stdin:
    texts, options = json.loads(line)
    codes = [submission_create(version=version, text=text, language="cpp", **options).code for text in texts]
    connections.close_all()
    print(*codes, flush=True)
"""


def free_port():
    """Below the ports that outgoing connections get: one of those could take it before the server does."""
    for _ in range(100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", random.randrange(10_000, 32_000)))
            return probe.getsockname()[1]
    raise AssertionError("there is no free port")


class Stack:
    """`manage.py up` in a folder of its own."""

    def __init__(self, folder, settings="tests.stack_settings"):
        self.folder, self.port = folder, free_port()
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("KBENCH_", "DJANGO_"))},
            "KBENCH_DATA_DIR": str(folder),
            "KBENCH_EXAMPLES": "0",
            "KBENCH_HEARTBEAT_TIMEOUT_S": "5",
            "PORT": str(self.port),
            "DJANGO_SETTINGS_MODULE": settings,
        }
        self.output = folder / "up.out"
        self.process = None
        self._clerk = None

    @classmethod
    def prepared(cls, folder, settings="tests.stack_settings"):
        """In a folder that has its tables and static files already: `up` finds nothing to do there."""
        shutil.copytree(_prepared_folder(), folder, dirs_exist_ok=True)
        return cls(folder, settings)

    def start(self, *options):
        with self.output.open("w") as output:
            argv = [sys.executable, "manage.py", "up", *options]
            self.process = subprocess.Popen(argv, cwd=ROOT, env=self.environment, stdout=output, stderr=output)

    def up(self, *options):
        self.start(*options)
        self.wait(lambda: "workers: " in self.output.read_text(), 120, "the stack did not come up")
        return self

    def down(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)
        self.dismiss()

    def end(self):
        """At once, as a power cut would: for those who do not look at how it stops."""
        family = psutil.Process(self.process.pid).children(recursive=True)
        self.process.kill()
        self.process.wait()
        psutil.wait_procs(family, timeout=20)
        self.dismiss()

    def wait(self, condition, seconds, complaint):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if condition():
                return
            assert self.process.poll() is None, self.output.read_text()
            time.sleep(0.1)
        states = self.rows("select code, state, verdict, attempt, reason_text from benchmarks_evaluation")
        pytest.fail(f"{complaint}\n{self.output.read_text()}\n{states}")

    def rows(self, query, *values):
        with closing(sqlite3.connect(self.folder / "kbench.sqlite3", timeout=30)) as database:
            return database.execute(query, values).fetchall()

    def submit(self, *texts):
        """By a process that is kept, as a web process is: it takes seconds to start."""
        if self._clerk is None:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            self._clerk = subprocess.Popen([sys.executable, "-c", SUBMIT], cwd=ROOT, env=self.environment, **pipes)
        print(json.dumps([texts, {}]), file=self._clerk.stdin, flush=True)
        codes = self._clerk.stdout.readline().split()
        assert len(codes) == len(texts), f"the process that submits ended with {self._clerk.poll()}"
        return [code.replace("-", "") for code in codes]

    def dismiss(self):
        """Whoever submitted ends."""
        clerk, self._clerk = self._clerk, None
        if clerk is not None:
            clerk.communicate()

    def state(self, code):
        return self.rows("select state, verdict, attempt from benchmarks_evaluation where code = ?", code)[0]

    def ended(self, code):
        return self.state(code)[0] in ("done", "cancelled", "expired")

    def wait_until_timed(self, code):
        self.wait(lambda: self.state(code)[0] == "timing", 60, "it was never timed")

    def wait_until_ended(self, *codes, seconds=90):
        self.wait(lambda: all(self.ended(code) for code in codes), seconds, "not everything ended")

    def find(self, *words):
        """The processes of this stack whose command line has all the words."""
        tree = psutil.Process(self.process.pid).children(recursive=True)
        return [item for item in tree if all(word in command_line(item) for word in words)]

    def kill(self, *words):
        found = self.find(*words)
        assert found, words
        for item in found:
            item.kill()

    def judged(self, code):
        """How often a standing report was written: one set of stages is three rows."""
        return self.rows(
            "select count(*) from benchmarks_stageresult s join benchmarks_evaluation e on e.id = s.evaluation_id"
            " where e.code = ?", code
        )[0][0] / 3  # fmt: skip

    def fetch(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()


def command_line(process):
    """Empty for a process that has ended meanwhile."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # a zombie, too
        return ""


@functools.cache
def _prepared_folder():
    """What `manage.py prepare` leaves, kept in the cache of the tests under the hash of all that it reads."""
    folders = cache_folder() / "sites"
    folders.mkdir(parents=True, exist_ok=True)
    kept = folders / hash_of_what_is_prepared()
    with (folders / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other processes of the tests wait instead of preparing one of their own
        if not kept.exists():
            with tempfile.TemporaryDirectory(dir=folders) as unfinished:
                folder = Path(unfinished) / "site"
                folder.mkdir()
                migrated.copy_kept(folder / "kbench.sqlite3")  # to make the tables takes longer than all the rest
                argv = [sys.executable, "manage.py", "prepare"]
                subprocess.run(argv, cwd=ROOT, env=Stack(folder).environment, check=True, capture_output=True)
                folder.rename(kept)
        used_now(kept)  # 44 MB for each state of the code
    return kept


def hash_of_what_is_prepared():
    found = hashlib.sha256(f"{django.get_version()} {sys.version}".encode())
    for path in map(ROOT.joinpath, PREPARED_FROM):
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and file.suffix != ".pyc":
                content = hashlib.sha256(file.read_bytes()).hexdigest()
                found.update(f"{file.relative_to(ROOT)} {content}\n".encode())
    return found.hexdigest()
