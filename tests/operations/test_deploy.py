"""The examples of a deployment name commands, settings and addresses that exist.

Does NOT start anything: it reads the files. `tests/deployment` runs nginx and the systemd units.
"""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands, load_command_class
from django.urls import resolve

from kbench_site.env import VARIABLES

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "deploy/systemd").glob("*.service"))
OWN_IMAGES = ("kbench", "kbench-gpu")
POSTGRES_OF = {"bookworm": 15, "trixie": 17}  # Debian's package postgresql-client
NOT_OF_THE_SITE = {"KBENCH_HOST"}  # of compose.yaml itself


@pytest.fixture
def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    return found


def assert_is_a_command(words: list[str]) -> None:
    """Parses them as `manage.py` would."""
    name, *arguments = words
    command = load_command_class(get_commands()[name], name)
    command.create_parser("manage.py", name).parse_args(arguments)


def test_every_service_of_ours_runs_a_command_that_there_is(services: dict[str, Any]) -> None:
    ours = [service for service in services.values() if service["image"] in OWN_IMAGES]
    assert len(ours) == 6
    for service in ours:
        assert_is_a_command(service["command"])


def test_services_wait_for_services_that_there_are(services: dict[str, Any]) -> None:
    for service in services.values():
        for name, how in service.get("depends_on", {}).items():
            healthy = how["condition"] == "service_healthy"
            assert "healthcheck" in services[name] or not healthy


def test_only_the_web_is_reached_from_outside_and_only_on_this_machine(services: dict[str, Any]) -> None:
    open_ports = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert list(open_ports) == ["web"]
    assert all(port.startswith("127.0.0.1:") for port in open_ports["web"])


def test_probes_are_addresses_of_the_site(services: dict[str, Any]) -> None:
    probe = " ".join(services["web"]["healthcheck"]["test"])
    paths = [*re.findall(r"localhost:8000(/\w+)", probe), "/metrics", "/readyz", "/events/"]
    for path in paths:
        assert resolve(path)


@pytest.mark.parametrize(
    "name", ["compose.yaml", "deploy/Dockerfile", "deploy/kbench.env.example", "deploy/nginx.conf"]
)
def test_settings_that_are_named_exist(name: str) -> None:
    named = set(re.findall(r"\bKBENCH_[A-Z_]+\b", (ROOT / name).read_text()))
    assert named - NOT_OF_THE_SITE <= set(VARIABLES)


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_units_start_commands_that_there_are(unit: Path) -> None:
    started = re.findall(r"^ExecStart(?:Pre)?=\S+/python manage\.py (.+)$", unit.read_text(), re.MULTILINE)
    assert started
    for line in started:
        assert_is_a_command(line.split())


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze on this machine")
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_systemd_understands_its_units(unit: Path) -> None:
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    ours = [line for line in done.stderr.splitlines() if unit.name in line and "is not executable" not in line]
    assert ours == []


def test_the_image_can_dump_the_database_of_compose(services: dict[str, Any]) -> None:
    """pg_dump refuses a server that is newer than itself, and the image has the one of its Debian."""
    dockerfile = (ROOT / "deploy/Dockerfile").read_text()
    debian = re.search(r"^ARG BASE=python:\S+-slim-(\w+)$", dockerfile, re.MULTILINE)
    server = re.fullmatch(r"postgres:(\d+)", services["postgres"]["image"])
    assert debian
    assert server
    assert int(server[1]) <= POSTGRES_OF[debian[1]]
