"""Django's settings. What differs between installations comes from the environment, through `env.py`.

Does NOT decide anything about judging: those numbers are in `benchmarks/rules/`.
"""

from pathlib import Path

import django_stubs_ext

from .env import database, mail, providers, read_environment, redis_url, secret_key, site_url, storage
from .logs import logging_config

django_stubs_ext.monkeypatch()  # `ModelAdmin[Task]` and the like, at run time too

ENV = read_environment()
BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = ENV.data_dir
DATA_DIR.mkdir(parents=True, exist_ok=True)

KBENCH_PUBLIC = ENV["KBENCH_PUBLIC"]
KBENCH_JUDGE = "benchmarks.judgings.judge.HarnessJudge"  # tests put a fake here
KBENCH_RULESET = ENV["KBENCH_RULESET"]
KBENCH_HEARTBEAT_S = 3
KBENCH_HOUSEKEEPING_S = 3.0  # between two looks at what is lost, late or to be sent
KBENCH_HEARTBEAT_TIMEOUT_S = ENV["KBENCH_HEARTBEAT_TIMEOUT_S"]
KBENCH_QUEUE_EXPIRE_S = ENV["KBENCH_QUEUE_EXPIRE_S"]
KBENCH_EXAMPLES = ENV["KBENCH_EXAMPLES"]
KBENCH_RECORDED = ENV["KBENCH_RECORDED"]
KBENCH_IN_FLIGHT_MAX = ENV["KBENCH_IN_FLIGHT_MAX"]
KBENCH_PUBLIC_PER_DAY = ENV["KBENCH_PUBLIC_PER_DAY"]
KBENCH_JUDGING_S_PER_DAY = ENV["KBENCH_JUDGING_S_PER_DAY"]
KBENCH_REFUNDS_PER_DAY = ENV["KBENCH_REFUNDS_PER_DAY"]
KBENCH_NEW_ACCOUNT_HOURS = ENV["KBENCH_NEW_ACCOUNT_HOURS"]
KBENCH_TRUSTED_PROXIES = ENV["KBENCH_TRUSTED_PROXIES"]
KBENCH_RUNS_PER_OWNER_MAX = ENV["KBENCH_RUNS_PER_OWNER_MAX"]
KBENCH_EXTERNAL_RUNS_PER_OWNER_MAX = ENV["KBENCH_EXTERNAL_RUNS_PER_OWNER_MAX"]
KBENCH_EXTERNAL_IDLE_S = ENV["KBENCH_EXTERNAL_IDLE_S"]
KBENCH_RUNS_MAX = ENV["KBENCH_RUNS_MAX"]
KBENCH_RUN_WORKERS = ENV["KBENCH_RUN_WORKERS"]
KBENCH_USD_PER_DAY = ENV["KBENCH_USD_PER_DAY"]
KBENCH_MODEL_PRICES = ENV["KBENCH_MODEL_PRICES"]
KBENCH_METRICS_TOKEN = ENV["KBENCH_METRICS_TOKEN"]
KBENCH_ENTRY_LICENCE = ENV["KBENCH_ENTRY_LICENCE"]
KBENCH_IMAGE = ENV["KBENCH_IMAGE"]
KBENCH_EVENT_STREAMS_MAX = 500  # of one web process
KBENCH_EVENTS_KEPT_DAYS = 7
HOST = ENV["HOST"]
PORT = ENV["PORT"]

SECRET_KEY = secret_key(ENV)
DEBUG = ENV["KBENCH_DEBUG"] and not KBENCH_PUBLIC
ALLOWED_HOSTS = list(ENV["KBENCH_ALLOWED_HOSTS"])
CSRF_TRUSTED_ORIGINS = list(ENV["KBENCH_TRUSTED_ORIGINS"])

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.github",
    "allauth.socialaccount.providers.openid_connect",
    "django_htmx",
    "ninja",  # serves the scripts of the API's page from here
    "kbench_site",
    "benchmarks",
    "agents",
]

MIDDLEWARE = [
    "kbench_site.request_log.request_log",
    "django.middleware.security.SecurityMiddleware",
    "kbench_site.middleware.StaticFilesMiddleware",
    "kbench_site.middleware.content_security_policy",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "kbench_site.middleware.bearer_tokens",
    "django.contrib.messages.middleware.MessageMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "kbench_site.urls"
ASGI_APPLICATION = "kbench_site.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

DATABASES = {"default": database(ENV)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CACHES = {
    "pages": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "pages"},  # of one process
    # apart from pages, of which visitors can ask for any number: what was kept of leaderboards would be lost
    "boards": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "boards"},
    # Where allauth counts attempts: in the database, since all processes share it and it is there whenever the site is.
    "default": {
        "BACKEND": "django.core.cache.backends.db.DatabaseCache",
        "LOCATION": "benchmarks_cachedvalue",
        "KEY_FUNCTION": "benchmarks.accounts.limits.cache_key",
        "OPTIONS": {"MAX_ENTRIES": 100_000},
    },
}

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "home"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True

STATIC_URL = "/static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "kbench_site.static_packages.PlotlyFinder",
]
STORAGES = {
    "default": storage(ENV),
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
KBENCH_STORAGE_IS_SHARED = ENV["KBENCH_STORAGE_URL"] is not None

DATA_UPLOAD_MAX_MEMORY_SIZE = 8_388_608  # of a whole request too: see body_limit.py
FILE_UPLOAD_MAX_MEMORY_SIZE = 1_048_576  # larger ones go to disk while they arrive
FILE_UPLOAD_TEMP_DIR = None

SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = KBENCH_PUBLIC
SECURE_HSTS_SECONDS = 31_536_000 if KBENCH_PUBLIC else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_SSL_REDIRECT = KBENCH_PUBLIC
SECURE_REDIRECT_EXEMPT = [r"^(healthz|readyz|metrics)$"]  # asked from inside, past the proxy
SILENCED_SYSTEM_CHECKS = ["security.W021"]  # preloading binds a domain for years: that is for its owner to say
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if KBENCH_PUBLIC else None

KBENCH_SITE_URL = site_url(ENV)
KBENCH_SENDS_MAIL = ENV["KBENCH_MAIL_URL"] is not None
MAIL = mail(ENV)
EMAIL_HOST, EMAIL_PORT = MAIL.host, MAIL.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = MAIL.user, MAIL.password
EMAIL_USE_SSL, EMAIL_USE_TLS = MAIL.use_ssl, MAIL.use_tls
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = MAIL.sender
EMAIL_BACKEND = f"django.core.mail.backends.{'smtp' if KBENCH_SENDS_MAIL else 'dummy'}.EmailBackend"

CONFIRMED = ENV["KBENCH_MAIL_CONFIRMATION"] == "required"
ACCOUNT_ADAPTER = "benchmarks.accounts.adapter.AccountAdapter"
ACCOUNT_FORMS = {"login": "benchmarks.forms.LogInForm", "signup": "benchmarks.forms.SignUpForm"}
ACCOUNT_LOGIN_METHODS = {"username"}
ASKED_FOR = ["email*" if CONFIRMED else "email"] if KBENCH_SENDS_MAIL else []
ACCOUNT_SIGNUP_FIELDS = ["username*", *ASKED_FOR, "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "mandatory" if CONFIRMED else "optional" if KBENCH_SENDS_MAIL else "none"
ACCOUNT_EMAIL_NOTIFICATIONS = KBENCH_SENDS_MAIL
ACCOUNT_EMAIL_SUBJECT_PREFIX = "[kbench] "  # allauth's is the host that the request names
ACCOUNT_MAX_EMAIL_ADDRESSES = 5
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_REAUTHENTICATION_REQUIRED = True
ACCOUNT_DEFAULT_HTTP_PROTOCOL = "https" if KBENCH_PUBLIC else "http"
ACCOUNT_RATE_LIMITS = {
    "login": "40/10m/ip",
    "login_failed": "10/10m/key",
    "signup": "20/h/ip,60/d/ip",
    "reset_password": "20/h/ip,5/h/key",
    "manage_email": "10/h/user,20/d/user",  # who adds an address chooses who gets a message
    "new_team": "20/h/user",
}

SOCIALACCOUNT_PROVIDERS = providers(ENV)
SOCIALACCOUNT_ADAPTER = "benchmarks.accounts.adapter.ProviderAdapter"
SOCIALACCOUNT_FORMS = {"signup": "benchmarks.forms.ProviderSignUpForm"}
SOCIALACCOUNT_AUTO_SIGNUP = False  # people choose their name here
SOCIALACCOUNT_EMAIL_AUTHENTICATION = False  # an address at a provider opens no account that exists

MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_RATE_LIMITS = {"webauthn_login": "80/10m/ip"}  # two requests for each attempt
MFA_FORMS = {
    "add_webauthn": "benchmarks.accounts.passkeys.AddPasskeyForm",
    "edit_webauthn": "benchmarks.accounts.passkeys.RenamePasskeyForm",
    "authenticate_webauthn": "benchmarks.accounts.passkeys.PasskeyFactorForm",
    "login_webauthn": "benchmarks.accounts.passkeys.PasskeyLogInForm",
    "reauthenticate_webauthn": "benchmarks.accounts.passkeys.PasskeyAgainForm",
}
MFA_TOTP_ISSUER = "kbench"
MFA_TOTP_TOLERANCE = 1  # of 30 seconds: clocks differ

REDIS_URL = redis_url(ENV)
REDIS_IS_EXTERNAL = ENV["REDIS_URL"] is not None
ANTHROPIC_API_KEY = ENV["ANTHROPIC_API_KEY"]
ANTHROPIC_BASE_URL = ENV["ANTHROPIC_BASE_URL"]
OPENAI_API_KEY = ENV["OPENAI_API_KEY"]
OPENAI_BASE_URL = ENV["OPENAI_BASE_URL"]
OPENAI_MODEL = ENV["OPENAI_MODEL"]

LOGGING = logging_config(ENV["KBENCH_LOG_FORMAT"])
