"""compose.yaml as docker-compose reads it. Does NOT start containers: there is no Docker where the tests run."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.stack import ROOT

from .machine import missing

# Docker makes parts of /proc read-only and covers others
READ_ONLY_PROC = "mount --bind /proc/sys /proc/sys && mount --options remount,ro,bind /proc/sys && "
SANDBOX = "setpriv --reuid=65534 --regid=65534 --clear-groups bwrap --unshare-all --ro-bind / / --proc /proc true"
pytestmark = pytest.mark.deployment


def read_by_compose(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    if shutil.which("docker-compose") is None:
        pytest.skip("docker-compose is missing: install docker-compose")
    argv = ["docker-compose", "--project-directory", str(ROOT), "--env-file", str(folder / ".env")]
    argv += ["--file", str(folder / "compose.yaml"), *options, "config"]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A folder with the file and its settings as an operator has them."""
    example = (ROOT / "deploy/kbench.env.example").read_text()
    (tmp_path / ".env").write_text(example.replace("POSTGRES_PASSWORD=\n", "POSTGRES_PASSWORD=secret-password\n"))
    text = (ROOT / "compose.yaml").read_text().replace("env_file: .env", f"env_file: {tmp_path / '.env'}")
    (tmp_path / "compose.yaml").write_text(text)
    return tmp_path


def test_compose_accepts_the_file(filled: Path) -> None:
    done = read_by_compose(filled, "--profile", "gpu")
    assert done.returncode == 0, done.stderr
    services: dict[str, Any] = yaml.safe_load(done.stdout)["services"]
    assert set(services) == {"prepare", "web", "maint", "agents", "worker-cpu", "worker-gpu", "postgres", "redis"}
    assert services["web"]["environment"]["DATABASE_URL"] == "postgres://kbench:secret-password@postgres/kbench"
    assert services["worker-cpu"]["environment"]["KBENCH_PUBLIC"] == "1"


def test_compose_asks_for_the_password(filled: Path) -> None:
    (filled / ".env").write_text("KBENCH_PUBLIC=1\n")
    done = read_by_compose(filled)
    assert done.returncode != 0
    assert "set POSTGRES_PASSWORD in .env" in done.stderr


def test_a_container_that_judges_has_all_of_proc() -> None:
    """The sandbox does not start where parts of /proc are covered, so workers ask Docker to leave it alone."""
    if missing():
        pytest.skip(f"no sandbox can be tried here: {missing()}")
    alone = subprocess.run(["unshare", "--mount", "sh", "-c", SANDBOX], cwd="/", check=False)
    covered = subprocess.run(
        ["unshare", "--mount", "sh", "-c", READ_ONLY_PROC + SANDBOX],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert alone.returncode == 0
    assert "Can't mount proc" in covered.stderr
    services: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    for name in ("worker-cpu", "worker-gpu"):
        assert "systempaths=unconfined" in services[name]["security_opt"]
