"""Settings of the test suite: the site's own, with a scratch data folder, SQLite in a file and no network.

Does NOT start Redis: tests that need one take the `redis_server` fixture.
"""

import os
import tempfile
from pathlib import Path

os.environ["KBENCH_DATA_DIR"] = os.environ.get("KBENCH_TEST_DATA_DIR") or tempfile.mkdtemp(prefix="kbench-tests-")
for name in ("DATABASE_URL", "REDIS_URL", "KBENCH_PUBLIC", "KBENCH_SECRET_KEY", "PORT", "ANTHROPIC_API_KEY"):
    os.environ.pop(name, None)

from kbench_site.settings import *  # noqa: E402, F403
from kbench_site.settings import DATA_DIR, DATABASES  # noqa: E402

DATABASES["default"]["TEST"] = {"NAME": str(DATA_DIR / "test.sqlite3")}  # a file, so that threads race for real
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
WHITENOISE_AUTOREFRESH = WHITENOISE_USE_FINDERS = True
KBENCH_JUDGE = "tests.fakes.FakeJudge"
REDIS_URL = f"unix://{Path(DATA_DIR) / 'no-redis-here.sock'}"
