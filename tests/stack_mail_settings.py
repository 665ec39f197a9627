"""The settings of a stack under test that sends e-mail: every message is a file in the folder `mail` of its data."""

from tests.stack_settings import *  # noqa: F403
from tests.stack_settings import DATA_DIR

EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
EMAIL_FILE_PATH = DATA_DIR / "mail"
