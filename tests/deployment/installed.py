"""A site on a throw-away machine: installed by `deploy/install.sh`, set up as the operator guide says, asked over TLS.

Workers use a fake judge, by a drop-in of their unit, until `judge_for_real`. Does NOT check anything.
"""

import json
import secrets
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx2

from tests.stack import ROOT
from tests.web.factories import SOURCE

from .machine import CODE, Machine, copy_code

HOST = "kbench.example"
CERTIFICATE = "/etc/ssl/kbench/fullchain.pem"
WEB = ("kbench-web@1.service", "kbench-web@2.service")
SERVICES = ("kbench-prepare.service", *WEB, "kbench-maint.service", "kbench-agents.service", "kbench-worker.service")
UNITS = ("kbench-web.socket", *SERVICES)
METRICS_TOKEN = secrets.token_urlsafe(32)
FAKE_JUDGE = "/etc/systemd/system/kbench-worker.service.d/fake-judge.conf"
START_S = 300
TASK = "mnist_linear_relu/forward"


class InstalledSite:
    """`client()` asks it through nginx, from threads of `machine`; `token` belongs to an account."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.token = ""
        self._certificate = ""
        self._numbers = count()

    def install(self) -> None:
        machine = self.machine
        copy_code(machine)
        machine.run(
            "sh", "-c", "pg_dropcluster --stop 15 main; pg_createcluster 15 main --start".replace("15", _major())
        )
        machine.run("sh", f"{CODE}/deploy/install.sh")
        self._make_certificate()
        self._write_settings()
        machine.write(FAKE_JUDGE, "[Service]\nEnvironment=DJANGO_SETTINGS_MODULE=tests.stack_settings\n")
        machine.run("sh", "-c", f"echo 127.0.0.1 {HOST} >>/etc/hosts")
        machine.run("systemctl", "daemon-reload")
        machine.run("systemctl", "start", "redis-server")
        machine.run("systemctl", "restart", "nginx")
        machine.run("systemctl", "enable", "--now", *UNITS)
        self.wait(self.workers_are_online, START_S, "no worker came")
        self.token = self.manage("create_token", "olga", "--create").split()[-1]

    def _make_certificate(self) -> None:
        names = ["-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}", "-days", "2", "-nodes"]
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-keyout", "/etc/ssl/kbench/privkey.pem"]
        self.machine.run("install", "-d", "/etc/ssl/kbench")
        self.machine.run("openssl", "req", "-x509", *names, *key, "-out", CERTIFICATE)
        self._certificate = self.machine.run("cat", CERTIFICATE)

    def _write_settings(self) -> None:
        """The shipped example, filled in."""
        password = secrets.token_urlsafe(16)
        filled = {
            "KBENCH_SECRET_KEY": secrets.token_urlsafe(48),
            "KBENCH_METRICS_TOKEN": METRICS_TOKEN,
            "KBENCH_NEW_ACCOUNT_HOURS": "0",  # the account of the tests is a minute old
            "DATABASE_URL": f"postgres://kbench:{password}@127.0.0.1/kbench",
            "REDIS_URL": "redis://127.0.0.1:6379/0",
        }
        lines = (ROOT / "deploy/kbench.env.example").read_text().splitlines()
        kept = [line for line in lines if line.lstrip("#").partition("=")[0] not in filled]
        text = "\n".join([*kept, *(f"{name}={value}" for name, value in filled.items()), ""])
        self.machine.run("sh", "-c", "cat >/etc/kbench/kbench.env", given=text)
        self.sql(f"create role kbench login password '{password}'", database="postgres")
        self.sql("create database kbench owner kbench", database="postgres")

    def judge_for_real(self) -> None:
        self.machine.run("rm", FAKE_JUDGE)
        self.machine.run("systemctl", "daemon-reload")
        self.machine.run("systemctl", "restart", "kbench-worker")

    def wait(self, condition: Callable[[], Any], seconds: float, complaint: str) -> None:
        try:
            self.machine.wait(condition, seconds, complaint)
        except AssertionError as error:
            workers = self.sql("select name, state, state_text, heartbeat from benchmarks_worker")
            raise AssertionError(f"{error}\n{workers}\n{self.machine.journal('kbench-*')[-4000:]}") from error

    def workers_are_online(self) -> bool:
        states = self.sql("select count(*) from benchmarks_worker where state = 'online'")
        return states == "4"

    def manage(self, *words: str) -> str:
        """As an operator calls manage.py."""
        return self.machine.run("kbench-manage", *words)

    def sql(self, query: str, database: str = "kbench") -> str:
        psql = ("psql", "--quiet", "--tuples-only", "--no-align", f"--dbname={database}", "--command", query)
        return self.machine.run("runuser", "-u", "postgres", "--", "env", "-C", "/", *psql).strip()

    @contextmanager
    def client(self, **options: Any) -> Iterator[httpx2.Client]:
        """Of an HTTPS client that trusts the throw-away certificate; for a thread of the machine."""
        trust = ssl.create_default_context(cadata=self._certificate)
        with httpx2.Client(verify=trust, base_url="https://127.0.0.1", timeout=120, **options) as client:
            client.headers["Host"] = HOST
            client.event_hooks["request"].append(_name_the_site)
            yield client

    def ask(self, path: str, method: str = "GET", **options: Any) -> httpx2.Response:
        """One request on a connection of its own."""

        def send() -> httpx2.Response:
            with self.client() as client:
                return client.request(method, path, **options)

        with self.machine.threads(1) as threads:
            return threads.submit(send).result()

    def submission(self, remark: str, **fields: Any) -> dict[str, Any]:
        """The options of a post that submits a correct source; the fake judge reads the remark in it."""
        source = f"{SOURCE}{remark}\n// number {next(self._numbers)}\n"  # the same source is not judged twice
        body = {"task": TASK, "language": "cpp", "source": source, "title": remark, **fields}
        return {"json": body, "headers": {"Authorization": f"Bearer {self.token}"}}

    def submit(self, remark: str, **fields: Any) -> str:
        """The code of its evaluation."""
        answer = self.ask("/api/v1/submissions", "POST", **self.submission(remark, **fields))
        assert answer.status_code == 202, answer.text
        return answer.headers["Location"].rpartition("/")[2]

    def evaluation(self, code: str, wait: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ask(f"/api/v1/evaluations/{code}?wait={wait}").text)
        return found

    def ended(self, code: str) -> dict[str, Any]:
        """The evaluation, once it has ended or has had several minutes to do so."""
        for _ in range(6):
            found = self.evaluation(code, wait=50)
            if found["state"] == "done":
                break
        return found


def _name_the_site(request: httpx2.Request) -> None:
    """Its name is known on the machine alone: requests go to an address, and the certificate must be of this name."""
    request.extensions["sni_hostname"] = HOST


def _major() -> str:
    """Of Debian's PostgreSQL."""
    return max((folder.name for folder in Path("/usr/lib/postgresql").iterdir()), key=int)
