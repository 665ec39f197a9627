"""The shipped units under systemd: who runs what, and what these processes may not do."""

from pathlib import Path

import pytest

from .installed import SERVICES, InstalledSite

pytestmark = pytest.mark.deployment
LONG_RUNNING = SERVICES[1:]


def shown(site: InstalledSite, unit: str, *properties: str) -> list[str]:
    return site.machine.run("systemctl", "show", "--value", f"--property={','.join(properties)}", unit).split()


def within(site: InstalledSite, unit: str, *words: str, check: bool = True) -> str:
    """Runs a command among the files that the processes of the unit see, as their account."""
    (pid,) = shown(site, unit, "MainPID")
    enter = ("nsenter", f"--target={pid}", "--mount", f"--setuid={uid(site)}", f"--setgid={uid(site)}")
    return site.machine.run(*enter, "--", *words, check=check)


def uid(site: InstalledSite) -> str:
    return site.machine.run("id", "--user", "kbench").strip()


@pytest.mark.parametrize("unit", SERVICES)
def test_it_runs(site: InstalledSite, unit: str) -> None:
    assert shown(site, unit, "ActiveState") == ["active"]


@pytest.mark.parametrize("unit", LONG_RUNNING)
def test_its_process_has_the_account_and_gains_no_rights(site: InstalledSite, unit: str) -> None:
    (pid,) = shown(site, unit, "MainPID")
    status = site.machine.run("cat", f"/proc/{pid}/status")
    fields = dict(line.split(":", 1) for line in status.splitlines())
    assert set(fields["Uid"].split()) == {uid(site)}
    assert fields["NoNewPrivs"].strip() == "1"
    assert int(fields["CapEff"], 16) == 0


@pytest.mark.parametrize("unit", LONG_RUNNING)
def test_it_writes_into_its_data_folder_alone(site: InstalledSite, unit: str) -> None:
    folder = "/var/lib/kbench-worker" if "worker" in unit else "/var/lib/kbench"
    within(site, unit, "touch", f"{folder}/probe")
    for path in ("/opt/kbench/probe", "/etc/probe", "/var/lib/probe"):
        within(site, unit, "sh", "-c", f"! touch {path} 2>/dev/null")


def test_others_cannot_read_data_and_settings(site: InstalledSite) -> None:
    for path in ("/etc/kbench/kbench.env", "/var/lib/kbench/static", "/var/lib/kbench-worker/log"):
        site.machine.run("sh", "-c", f"test -e {path} && ! runuser -u www-data -- ls {path} 2>/dev/null")


def test_systemd_has_nothing_to_say_about_the_units(site: InstalledSite) -> None:
    names = sorted(path.name.replace("@.", "@1.") for path in Path("deploy/systemd").iterdir())
    said = site.machine.run("sh", "-c", f"systemd-analyze verify {' '.join(names)} 2>&1 | grep kbench- || true")
    assert said == ""
