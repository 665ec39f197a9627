"""Settings from the environment: read, refused with a name, documented. What Django makes of them is its own affair."""

import re
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from benchmarks.states import Switch
from kbench_site.env import (
    POSTGRES_OPTIONS,
    SOCKET_PATH_MAX_BYTES,
    VARIABLES,
    database,
    mail,
    read_environment,
    redis_url,
    secret_key,
)

DOCS = Path(__file__).parents[2] / "docs" / "settings.md"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("PORT", "eighty"),
        ("PORT", "0"),
        ("PORT", "70000"),
        ("KBENCH_PUBLIC", "maybe"),
        ("KBENCH_SECRET_KEY", "short"),
        ("DATABASE_URL", "mysql://somewhere/x"),
        ("REDIS_URL", "localhost"),
        ("KBENCH_HEARTBEAT_TIMEOUT_S", "1"),
        ("KBENCH_TRUSTED_ORIGINS", "kbench.example"),
        ("ANTHROPIC_BASE_URL", "ftp://somewhere"),
        ("KBENCH_MAIL_CONFIRMATION", "perhaps"),
    ],
)
def test_a_malformed_value_is_refused_with_its_name(name, text):
    with pytest.raises(ImproperlyConfigured, match=f"^{name} is malformed"):
        read_environment({name: text})


def test_everything_has_a_default_and_empty_is_absent():
    assert read_environment({}).values == read_environment(dict.fromkeys(VARIABLES, "")).values


def test_the_documented_table_is_complete_and_has_nothing_else():
    rows = re.findall(r"^\| `([A-Z_]+)` \|", DOCS.read_text(), re.MULTILINE)
    assert rows == list(VARIABLES)


def test_the_documented_switches_are_those_that_staff_can_turn():
    rows = re.findall(r"^\| `([a-z-]+)` \|", DOCS.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(Switch)


def test_a_key_is_generated_once_and_only_its_owner_may_read_it(tmp_path):
    env = read_environment({"KBENCH_DATA_DIR": str(tmp_path)})
    assert secret_key(env) == secret_key(env)
    assert (tmp_path / "secret_key").stat().st_mode & 0o777 == 0o600


def test_a_public_site_must_bring_its_key(tmp_path):
    env = read_environment({"KBENCH_DATA_DIR": str(tmp_path), "KBENCH_PUBLIC": "1"})
    with pytest.raises(ImproperlyConfigured, match="KBENCH_SECRET_KEY"):
        secret_key(env)


def test_sqlite_in_the_data_folder_is_the_default(tmp_path):
    entry = database(read_environment({"KBENCH_DATA_DIR": str(tmp_path)}))
    assert entry["NAME"] == str(tmp_path / "kbench.sqlite3")
    assert entry["OPTIONS"]["transaction_mode"] == "IMMEDIATE"


def test_a_postgres_url_is_taken_apart():
    entry = database(read_environment({"DATABASE_URL": "postgres://ann:p%40ss@db.example:5433/kbench"}))
    assert [entry[key] for key in ("USER", "PASSWORD", "HOST", "PORT", "NAME")] == [
        "ann", "p@ss", "db.example", "5433", "kbench"
    ]  # fmt: skip


def test_the_query_of_a_postgres_url_is_for_its_library():
    entry = database(read_environment({"DATABASE_URL": "postgres://ann@db.example/kbench?sslmode=verify-full"}))
    assert entry["OPTIONS"] == {**POSTGRES_OPTIONS, "sslmode": "verify-full"}
    url = "postgres://ann@/kbench?host=/run/Postgres&connect_timeout=3"
    entry = database(read_environment({"DATABASE_URL": url}))
    assert (entry["HOST"], entry["OPTIONS"]["connect_timeout"]) == ("/run/Postgres", "3")


def test_the_embedded_redis_listens_where_a_socket_may_be(tmp_path):
    short = read_environment({"KBENCH_DATA_DIR": "/srv/kbench"})
    assert redis_url(short) == "unix:///srv/kbench/redis.sock"
    long = read_environment({"KBENCH_DATA_DIR": str(tmp_path / ("x" * 200))})
    assert len(redis_url(long)) <= SOCKET_PATH_MAX_BYTES + len("unix://")


def test_a_given_redis_is_used(tmp_path):
    assert redis_url(read_environment({"REDIS_URL": "redis://r.example:1/2"})) == "redis://r.example:1/2"


def test_confirmed_addresses_need_a_mail_server():
    with pytest.raises(ImproperlyConfigured, match="KBENCH_MAIL_URL"):
        mail(read_environment({"KBENCH_MAIL_CONFIRMATION": "required"}))
