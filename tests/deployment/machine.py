"""A throw-away machine: a copy of this one, booted with systemd, on which a site is installed as an operator would.

It has this machine's programs, but its changes lie in memory, and its network consists of its loopback device, so
nothing outside is reached. Needs root and Debian's packages. Does NOT hide this machine's files: it runs our own code.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from kbench_site.processes import die_with
from tests.stack import ROOT

NAME = "kbench-rehearsal"
PROGRAMS = {  # what is started on it, by Debian's package
    "systemd-nspawn": "systemd-container",
    "nginx": "nginx-light",
    "redis-server": "redis-server",
    "pg_createcluster": "postgresql",
    "bwrap": "bubblewrap",
    "g++": "g++",
    "openssl": "openssl",
    "curl": "curl",
    "ip": "iproute2",
}
# Whatever ends the first process, or this one, ends the whole machine.
SPACES = ("unshare", "--mount", "--mount-proc", "--pid", "--fork", "--kill-child=KILL")
CLONE_NEWNET = 0x40000000
SBIN = "/usr/sbin:/usr/bin:/sbin:/bin"
BOOT_S = 120
CODE = Path("/opt/kbench")
PYTHON = "/opt/python"


def missing() -> str:
    """Why no machine can be booted here; empty if it can."""
    if os.geteuid() != 0:
        return "only root may boot a machine"
    absent = sorted(package for program, package in PROGRAMS.items() if not shutil.which(program, path=SBIN))
    return f"install {' '.join(absent)}" if absent else ""


class Machine:
    """`run` runs a command on it as root; `threads` are threads of this process that see its network."""

    def __init__(self, folder: Path, *binds: str) -> None:
        self._binds = binds
        self.log = folder / "boot.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._leader = 0

    def boot(self) -> None:
        packages = f"{CODE}/.venv/lib/{sitepackages().parent.name}/site-packages"
        binds = [f"--bind-ro={sys.base_prefix}:{PYTHON}", f"--bind-ro={sitepackages()}:{packages}", *self._binds]
        script = Path(__file__).with_name("boot.sh")
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [*SPACES, "sh", str(script), NAME, *binds],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={"PATH": SBIN},
                preexec_fn=die_with(os.getpid()),  # noqa: PLW1509 - started before there are threads
            )
        self.wait(self._is_up, BOOT_S, "systemd did not come up")

    def _is_up(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()
        systemds = [item for item in psutil.Process(self._process.pid).children(recursive=True) if _is_systemd(item)]
        if not systemds:
            return False
        self._leader = systemds[0].pid
        said = self.run("systemctl", "is-system-running", check=False).strip()
        return said in ("running", "degraded")

    def stop(self) -> None:
        """As a power cut: what it held is lost."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        for empty in Path("/sys/fs/cgroup").glob("*/payload"), Path("/sys/fs/cgroup").glob("*/supervisor"):
            for folder in empty:
                _remove_groups(folder)

    def argv(self, *words: str) -> list[str]:
        inside = ["nsenter", f"--target={self._leader}", "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"]
        return [*inside, "--", "env", "-i", f"PATH=/usr/local/sbin:{SBIN}", "LANG=C.UTF-8", *words]

    def run(self, *words: str, check: bool = True, given: str | None = None) -> str:
        """What the command wrote to its standard output."""
        done = subprocess.run(self.argv(*words), input=given, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0 or not check, f"{' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def write(self, path: str, text: str) -> None:
        self.run("sh", "-c", 'mkdir -p "$(dirname "$1")" && cat >"$1"', "-", path, given=text)

    def journal(self, unit: str) -> str:
        return self.run("journalctl", "--no-pager", "--output=cat", f"--unit={unit}")

    def threads(self, count: int) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(count, initializer=self._enter_network)

    def _enter_network(self) -> None:
        """For this thread alone; sockets that it makes stay in that network."""
        network = os.open(f"/proc/{self._leader}/ns/net", os.O_RDONLY)
        try:
            if ctypes.CDLL(None, use_errno=True).setns(network, CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "the network of the machine cannot be entered")
        finally:
            os.close(network)

    def wait(self, condition: Callable[[], Any], seconds: float, complaint: str) -> Any:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = condition()
            if found:
                return found
            time.sleep(0.2)
        raise AssertionError(f"{complaint}\n{self.log.read_text()}")


def sitepackages() -> Path:
    return Path(psutil.__file__).parents[1]


def copy_code(machine: Machine) -> None:
    """What a clone of the working tree would contain, and a virtual environment with this one's packages."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    packed = subprocess.run(
        ["tar", "--null", "--create", "--ignore-failed-read", "--files-from=-"],
        cwd=ROOT, input=names, capture_output=True, check=True,
    ).stdout  # fmt: skip
    unpack = machine.argv("tar", "--extract", "--no-same-owner", f"--directory={CODE}")
    subprocess.run(unpack, input=packed, check=True, capture_output=True)
    environment = f"home = {PYTHON}/bin\ninclude-system-site-packages = false\n"
    machine.write(f"{CODE}/.venv/pyvenv.cfg", environment)
    machine.write("/etc/ld.so.conf.d/python.conf", f"{PYTHON}/lib\n")
    machine.run("ldconfig")
    machine.run("install", "-d", f"{CODE}/.venv/bin")
    machine.run("ln", "-s", f"{PYTHON}/bin/python3", f"{CODE}/.venv/bin/python")


def _is_systemd(process: psutil.Process) -> bool:
    try:
        return process.cmdline()[:1] == ["/usr/lib/systemd/systemd"]
    except psutil.NoSuchProcess:
        return False


def _remove_groups(folder: Path) -> None:
    for path, _, _ in os.walk(folder, topdown=False):
        try:
            Path(path).rmdir()
        except OSError:
            return


@contextmanager
def booted(folder: Path, *binds: str) -> Iterator[Machine]:
    """With `binds`, options of systemd-nspawn that show folders of this machine there."""
    machine = Machine(folder, *binds)
    try:
        machine.boot()
        yield machine
    finally:
        machine.stop()
