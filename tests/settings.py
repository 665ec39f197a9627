"""Settings of the test suite: the site's own, with a scratch data folder, a scratch database and no network.

The database is SQLite in a file; `KBENCH_TEST_DATABASE=postgres` makes it a PostgreSQL that is started for the run.
Does NOT start Redis: tests that need one take the `redis_server` fixture.
"""

import os
import tempfile
from pathlib import Path

os.environ["KBENCH_DATA_DIR"] = os.environ.get("KBENCH_TEST_DATA_DIR") or tempfile.mkdtemp(prefix="kbench-tests-")
for name in ("DATABASE_URL", "REDIS_URL", "KBENCH_PUBLIC", "KBENCH_SECRET_KEY", "PORT", "ANTHROPIC_API_KEY"):
    os.environ.pop(name, None)
# With everything that can be turned on, so that every address answers; the runner keeps the messages in memory.
TURNED_ON = {
    "KBENCH_MAIL_URL": "smtp://mail.invalid",
    "KBENCH_GITHUB_CLIENT_ID": "kbench",
    "KBENCH_GITHUB_CLIENT_SECRET": "a secret at GitHub",
    "KBENCH_OPENID_URL": "http://127.0.0.1:9",  # nothing listens there
    "KBENCH_OPENID_CLIENT_ID": "kbench",
    "KBENCH_OPENID_CLIENT_SECRET": "a secret of a client of this test suite",
}
os.environ |= TURNED_ON

ON_POSTGRES = os.environ.get("KBENCH_TEST_DATABASE") == "postgres"
if ON_POSTGRES:
    from tests.migrated import shared_server_url

    os.environ["DATABASE_URL"] = shared_server_url()

from kbench_site.settings import *  # noqa: E402, F403
from kbench_site.settings import DATA_DIR, DATABASES  # noqa: E402

for name in TURNED_ON:
    os.environ.pop(name)  # whole sites that tests start have settings of their own
if ON_POSTGRES:
    os.environ.pop("DATABASE_URL")  # whole sites that tests start have databases of their own
else:
    DATABASES["default"]["TEST"] = {"NAME": str(DATA_DIR / "test.sqlite3")}  # a file, so that threads race for real
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
WHITENOISE_AUTOREFRESH = WHITENOISE_USE_FINDERS = True
KBENCH_JUDGE = "tests.fakes.FakeJudge"
REDIS_URL = f"unix://{Path(DATA_DIR) / 'no-redis-here.sock'}"
