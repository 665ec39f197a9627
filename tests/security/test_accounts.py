"""Sessions, cookies and what changes with KBENCH_PUBLIC: read from a process of its own, as a public site starts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .world import World

ROOT = Path(__file__).parents[2]
ASK = """
import json
from django.conf import settings
names = ["SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "SESSION_COOKIE_HTTPONLY", "SESSION_COOKIE_SAMESITE",
         "SECURE_HSTS_SECONDS", "SECURE_HSTS_INCLUDE_SUBDOMAINS", "SECURE_SSL_REDIRECT", "SECURE_CONTENT_TYPE_NOSNIFF",
         "X_FRAME_OPTIONS", "DEBUG"]
print(json.dumps({name: getattr(settings, name) for name in names}))
"""


def _manage(folder: Path, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KBENCH_", "DJANGO_"))}
    environment = {
        **kept,
        "KBENCH_DATA_DIR": str(folder),
        "DJANGO_SETTINGS_MODULE": "kbench_site.settings",
        **variables,
    }
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def public() -> dict[str, str]:
    return {"KBENCH_PUBLIC": "1", "KBENCH_SECRET_KEY": "k" * 25 + "0123456789abcdefghijklmnopqrstuvwxyz"}


def test_a_public_site_passes_djangos_own_checks_for_deployment(tmp_path: Path, public: dict[str, str]) -> None:
    done = _manage(tmp_path, "manage.py", "check", "--deploy", "--fail-level", "WARNING", **public)
    assert done.returncode == 0, done.stderr


def test_a_public_site_is_for_https_alone(tmp_path: Path, public: dict[str, str]) -> None:
    found = json.loads(_manage(tmp_path, "-c", ASK, **public).stdout)
    assert found.pop("SECURE_HSTS_SECONDS") >= 31_536_000
    assert found == {
        "SESSION_COOKIE_SECURE": True,
        "CSRF_COOKIE_SECURE": True,
        "SESSION_COOKIE_HTTPONLY": True,
        "SESSION_COOKIE_SAMESITE": "Lax",
        "SECURE_HSTS_INCLUDE_SUBDOMAINS": True,
        "SECURE_SSL_REDIRECT": True,
        "SECURE_CONTENT_TYPE_NOSNIFF": True,
        "X_FRAME_OPTIONS": "DENY",
        "DEBUG": False,
    }


def test_a_laptop_needs_no_https(tmp_path: Path) -> None:
    found = json.loads(_manage(tmp_path, "-c", ASK).stdout)
    assert (found["SECURE_SSL_REDIRECT"], found["SESSION_COOKIE_SECURE"], found["SECURE_HSTS_SECONDS"]) == (
        False,
        False,
        0,
    )


def test_a_session_starts_anew_when_somebody_logs_in_and_ends_when_they_leave(world: World) -> None:
    client = world.client("anonymous")
    client.get("/accounts/login/")
    client.post("/accounts/login/", {"login": world.stranger.username, "password": "stefan-has-a-long-password"})
    first = client.cookies["sessionid"].value
    kept = client.cookies["sessionid"]
    assert kept["httponly"]
    assert kept["samesite"] == "Lax"
    client.post("/accounts/logout/")
    thief = world.client("anonymous")
    thief.cookies["sessionid"] = first
    assert thief.get("/accounts/tokens/").status_code == 302


def test_a_new_password_ends_every_other_session(world: World) -> None:
    client = world.client("stranger")
    world.stranger.set_password("another-long-password-of-mine")
    world.stranger.save()
    assert client.get("/accounts/tokens/").status_code == 302


def test_a_log_in_leads_to_this_site_alone(world: World) -> None:
    form = {"login": world.stranger.username, "password": "stefan-has-a-long-password"}
    answer = world.client("anonymous").post("/accounts/login/?next=https://elsewhere.example/", form)
    assert answer.headers["Location"] == "/"


def test_a_session_counts_for_nothing_below_the_api(world: World) -> None:
    """So the API needs no token of a form, and no page elsewhere can use somebody's session through it."""
    client = world.client("owner", enforce_csrf_checks=True)
    assert client.get(f"/api/v1/evaluations/{world.private.code}").status_code == 404
    assert client.post(f"/api/v1/evaluations/{world.private.code}/cancel").status_code in (401, 404)
    world.private.refresh_from_db()
    assert world.private.state == "queued"
