"""A filled site on PostgreSQL is backed up while it runs, lost and restored, by the commands of the operator guide."""

import re

import pytest

from .installed import UNITS, InstalledSite

pytestmark = pytest.mark.deployment
FOLDER, FILE = "/srv/backups", "/srv/backups/site.kbench"
# written all the time, or by whoever looks
CHANGING = ("benchmarks_worker", "benchmarks_queuesample", "benchmarks_apitoken", "django_session")


def contents(site: InstalledSite) -> dict[str, str]:
    """Every table, as a hash of its rows."""
    tables = site.sql("select tablename from pg_tables where schemaname = 'public' order by 1").split()
    assert len(tables) > 30
    rows = "select md5(coalesce(string_agg(t::text, '|' order by t::text), '')) || count(*) from {} t"
    return {table: site.sql(rows.format(table)) for table in tables if table not in CHANGING}


def test_a_lost_site_comes_back_from_its_backup(site: InstalledSite) -> None:
    """First into an empty database, then over one that holds something else, by an account that is no superuser."""
    kept = [site.ended(site.submit(f"// speedup: {number}.5")) for number in range(1, 5)]
    assert {found["verdict"] for found in kept} == {"PASS"}
    site.machine.run("install", "-d", "-o", "kbench", FOLDER)
    before = contents(site)
    assert re.search(r"site\.kbench: \d+\.\d MB", site.manage("backup", FILE))
    assert site.machine.run("stat", "--format=%a %U", FILE) == "600 kbench\n"

    site.machine.run("systemctl", "stop", *UNITS)
    site.sql("drop database kbench", database="postgres")
    site.sql("create database kbench owner kbench", database="postgres")
    assert "start the site again" in site.manage("restore", FILE)
    assert contents(site) == before
    site.sql("truncate benchmarks_submission cascade; create table surplus ()")
    site.manage("restore", "--replace", FILE)
    site.sql("drop table surplus")
    assert contents(site) == before

    site.machine.run("systemctl", "start", *UNITS)
    again = site.evaluation(kept[0]["id"])
    assert (again["verdict"], again["score"]) == (kept[0]["verdict"], kept[0]["score"])
    assert site.ended(site.submit("// after the restore"))["verdict"] == "PASS"
