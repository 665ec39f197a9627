"""The settings from the environment: read once and checked, each with its default and its meaning.

A malformed value stops the start with the name of the variable. `docs/settings.md` lists all of `VARIABLES`; a test
keeps it complete. Does NOT cover Django's own settings, which follow from these in `settings.py`.
"""

import hashlib
import os
import secrets
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

SOCKET_PATH_MAX_BYTES = 100
# A host whose wire is cut must notice within a minute, and must not keep rows locked on the server.
POSTGRES_OPTIONS = {
    "connect_timeout": "10",
    "keepalives_idle": "20",
    "keepalives_interval": "5",
    "keepalives_count": "4",
    "tcp_user_timeout": "40000",
    "options": "-c idle_in_transaction_session_timeout=60s -c tcp_keepalives_idle=20 -c tcp_keepalives_interval=5"
    " -c tcp_keepalives_count=4",
}
Reader = Callable[[str], Any]


@dataclass(frozen=True)
class Variable:
    """One variable: how its text is read, what holds when it is absent, what it is for."""

    read: Reader
    default: Any
    meaning: str


def _flag(text: str) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if text.lower() not in words:
        raise ValueError("must be 1 or 0")
    return words[text.lower()]


def _whole(minimum: int, maximum: int) -> Reader:
    def read(text: str) -> int:
        value = int(text) if text.lstrip("-").isdigit() else minimum - 1
        if not minimum <= value <= maximum:
            raise ValueError(f"must be a whole number from {minimum} to {maximum}")
        return value

    return read


def _one_of(*words: str) -> Reader:
    def read(text: str) -> str:
        if text not in words:
            raise ValueError(f"write {' or '.join(words)}")
        return text

    return read


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _url(*schemes: str) -> Reader:
    def read(text: str) -> str:
        if urlsplit(text).scheme not in schemes:
            raise ValueError(f"write a URL that starts with {' or '.join(f'{scheme}:' for scheme in schemes)}")
        return text

    return read


def _origins(text: str) -> tuple[str, ...]:
    return tuple(_url("http", "https")(name) for name in _names(text))


def _text(text: str) -> str:
    return text


def _provider(text: str) -> str:
    """The provider's answer decides who logs in, so the connection must be authenticated."""
    url = urlsplit(text)
    if not (url.scheme == "https" and url.hostname) and not (url.scheme == "http" and url.hostname == "127.0.0.1"):
        raise ValueError("write a URL that starts with https:")
    return text


def _secret(text: str) -> str:
    if len(text) < 32:
        raise ValueError("must have at least 32 characters")
    return text


VARIABLES: dict[str, Variable] = {
    "KBENCH_DATA_DIR": Variable(Path, Path("var"), "folder of database, caches, logs and generated secrets"),
    "DATABASE_URL": Variable(
        _url("sqlite", "postgres", "postgresql"), None, "database; if absent, SQLite in the data folder"
    ),
    "REDIS_URL": Variable(
        _url("redis", "rediss", "unix"), None, "message broker; if absent, an embedded server is started"
    ),
    "KBENCH_STORAGE_URL": Variable(
        _url("file", "s3"), None, "storage through which machines share builds; if absent, each worker keeps its own"
    ),
    "KBENCH_PUBLIC": Variable(_flag, False, "the site is public: strong isolation, log-in and HTTPS are required"),
    "KBENCH_SECRET_KEY": Variable(
        _secret, None, "signs sessions; generated into the data folder when absent and the site is not public"
    ),
    "KBENCH_ALLOWED_HOSTS": Variable(
        _names, ("localhost", "127.0.0.1", "[::1]"), "host names of the site, separated by commas"
    ),
    "KBENCH_TRUSTED_ORIGINS": Variable(
        _origins, (), "origins that may send forms through a proxy, separated by commas"
    ),
    "KBENCH_GITHUB_CLIENT_ID": Variable(_text, None, "OAuth app at GitHub; if absent, nobody logs in with GitHub"),
    "KBENCH_GITHUB_CLIENT_SECRET": Variable(_text, None, "its secret"),
    "KBENCH_OPENID_URL": Variable(
        _provider, None, "OpenID Connect provider, without /.well-known/...; if absent, none"
    ),
    "KBENCH_OPENID_NAME": Variable(_text, "OpenID", "name of that provider on the pages"),
    "KBENCH_OPENID_CLIENT_ID": Variable(_text, None, "client at that provider"),
    "KBENCH_OPENID_CLIENT_SECRET": Variable(_text, None, "its secret"),
    "KBENCH_DEBUG": Variable(_flag, False, "error pages with tracebacks; never on a public site"),
    "HOST": Variable(_text, "127.0.0.1", "address the web server listens on"),
    "PORT": Variable(_whole(1, 65535), 8000, "port the web server listens on"),
    "KBENCH_HEARTBEAT_TIMEOUT_S": Variable(
        _whole(5, 600), 30, "seconds without a heartbeat after which an evaluation is taken from its worker"
    ),
    "KBENCH_QUEUE_EXPIRE_S": Variable(
        _whole(60, 31_536_000), 604_800, "seconds after which an evaluation that no worker has started expires"
    ),
    "KBENCH_RULESET": Variable(_text, "rk-2", "active rule set (a file in benchmarks/rules, without .toml)"),
    "KBENCH_EXAMPLES": Variable(_flag, True, "submit the shipped example kernels at the first start"),
    "KBENCH_RECORDED": Variable(
        _flag, True, "load the recorded results that come with kbench, and show recorded results"
    ),
    "KBENCH_IN_FLIGHT_MAX": Variable(
        _whole(0, 100_000), 20, "evaluations of one account that may be waiting or judged at the same time; 0: no limit"
    ),
    "KBENCH_PUBLIC_PER_DAY": Variable(
        _whole(0, 1_000_000), 400, "public submissions of one account within 24 hours; 0: no limit"
    ),
    "KBENCH_JUDGING_S_PER_DAY": Variable(
        _whole(0, 100_000_000),
        28_800,
        "seconds on devices that the submissions of one account may use within 24 hours; 0: no limit",
    ),
    "KBENCH_REFUNDS_PER_DAY": Variable(
        _whole(0, 1_000_000),
        5,
        "judgings of one account within 24 hours that cost nothing because they ended by our own fault; further ones "
        "are charged",
    ),
    "KBENCH_NEW_ACCOUNT_HOURS": Variable(
        _whole(0, 10_000), 24, "hours for which a new account on a public site has a quarter of these limits"
    ),
    "KBENCH_TRUSTED_PROXIES": Variable(
        _whole(0, 10), 0, "proxies in front of the site that append to X-Forwarded-For; 0: the header is ignored"
    ),
    "KBENCH_RUNS_PER_OWNER_MAX": Variable(
        _whole(1, 1000), 4, "unfinished agent runs that one account may have, and all visitors without one together"
    ),
    "KBENCH_EXTERNAL_RUNS_PER_OWNER_MAX": Variable(
        _whole(1, 1000), 2, "unfinished external runs that one account may have; they count as agent runs, too"
    ),
    "KBENCH_RUNS_MAX": Variable(_whole(1, 10_000), 20, "unfinished agent runs on the whole site, without paused ones"),
    "KBENCH_RUN_WORKERS": Variable(_whole(1, 64), 4, "agent runs that are driven at the same time"),
    "KBENCH_EXTERNAL_IDLE_S": Variable(
        _whole(60, 1_000_000), 3_600, "seconds without a candidate after which an external run ends"
    ),
    "KBENCH_USD_PER_DAY": Variable(
        _whole(0, 1_000_000), 20, "dollars that the runs one account starts within 24 hours may spend together"
    ),
    "KBENCH_MODEL_PRICES": Variable(Path, None, "TOML file with model prices that override the shipped ones"),
    "KBENCH_SITE_URL": Variable(
        _url("http", "https"), None, "address of the site in e-mails and webhooks; if absent, made of the host name"
    ),
    "KBENCH_MAIL_URL": Variable(
        _url("smtp", "smtps"), None, "mail server that the site sends e-mails through; if absent, it sends none"
    ),
    "KBENCH_MAIL_FROM": Variable(_text, "", "sender of e-mails; if absent, kbench@ the host name"),
    "KBENCH_MAIL_CONFIRMATION": Variable(
        _one_of("optional", "required"), "optional", "whether a new account needs a confirmed e-mail address"
    ),
    "KBENCH_LOG_FORMAT": Variable(_one_of("text", "json"), "text", "format of the log lines: text or json"),
    "KBENCH_METRICS_TOKEN": Variable(
        _secret, None, "token required to read /metrics; if absent, open to all, or closed on a public site"
    ),
    "KBENCH_IMAGE": Variable(
        _text, "", "name of the running container image, shown on the status page and in every report"
    ),
    "KBENCH_CGROUP": Variable(
        _text, "", "folder of cgroups in which a worker gives each sandbox a group that limits its memory as a whole"
    ),
    "KBENCH_ENTRY_LICENCE": Variable(
        _text,
        "",
        "licence under which submissions are published from now on, such as CC-BY-4.0; shown on the submit page",
    ),
    "ANTHROPIC_API_KEY": Variable(_text, "", "key for agent runs with a language model; if absent, they are disabled"),
    "ANTHROPIC_BASE_URL": Variable(_url("http", "https"), None, "alternative address of that API"),
    "OPENAI_BASE_URL": Variable(
        _url("http", "https"), None, "address of a local language model that speaks OpenAI's chat completions"
    ),
    "OPENAI_MODEL": Variable(_text, "", "the name of that model; it needs a price, which may be 0"),
    "OPENAI_API_KEY": Variable(_text, "", "key for that address, if it needs one"),
}


@dataclass(frozen=True)
class Environment:
    """The values of `VARIABLES` by name."""

    values: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def data_dir(self) -> Path:
        folder: Path = self["KBENCH_DATA_DIR"]
        return folder.absolute()


def read_environment(source: Mapping[str, str] = os.environ) -> Environment:
    """Raises ImproperlyConfigured naming the variable whose value cannot be read. Empty counts as absent."""
    return Environment({name: _value(name, variable, source) for name, variable in VARIABLES.items()})


def _value(name: str, variable: Variable, source: Mapping[str, str]) -> Any:
    text = source.get(name, "").strip()
    if not text:
        return variable.default
    try:
        return variable.read(text)
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} is malformed: {error}") from error


def secret_key(env: Environment) -> str:
    """The given key, or one that is generated once into the data folder; a public site must bring its own."""
    given: str | None = env["KBENCH_SECRET_KEY"]
    if given:
        return given
    if env["KBENCH_PUBLIC"]:
        raise ImproperlyConfigured("KBENCH_SECRET_KEY must be set when KBENCH_PUBLIC is on")
    path = env.data_dir / "secret_key"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        # O_EXCL: of two processes that start together one writes, the other reads.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(48))
    except FileExistsError:
        pass
    return path.read_text()


def database(env: Environment) -> dict[str, Any]:
    """Django's DATABASES entry. SQLite runs in WAL mode and takes its write lock when a transaction begins."""
    url = urlsplit(env["DATABASE_URL"] or f"sqlite:///{env.data_dir / 'kbench.sqlite3'}")
    if url.scheme == "sqlite":
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": unquote(url.path[1:]),
            "OPTIONS": {
                "timeout": 30,
                "transaction_mode": "IMMEDIATE",
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            },
        }
    return _postgres(url)


def _postgres(url: SplitResult) -> dict[str, Any]:
    """What stands in the query goes to libpq: `?sslmode=verify-full`, `?host=/folder/of/the/socket`."""
    options = {**POSTGRES_OPTIONS, **dict(parse_qsl(url.query))}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(url.path[1:]),
        "USER": unquote(url.username or ""),
        "PASSWORD": unquote(url.password or ""),
        "HOST": options.pop("host", unquote(url.hostname or "")),
        "PORT": str(url.port or ""),
        "OPTIONS": options,
        "CONN_HEALTH_CHECKS": True,
    }


def storage(env: Environment) -> dict[str, Any]:
    """Django's entry for its default storage: a folder, or a bucket by `s3://BUCKET/PREFIX?endpoint_url=...`.

    The options of the query go to django-storages; keys come from the places where AWS's own library looks for them.
    """
    url = urlsplit(env["KBENCH_STORAGE_URL"] or (env.data_dir / "storage").as_uri())
    if url.scheme == "file":
        options = {"location": unquote(url.path), "allow_overwrite": True}
        return {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": options}
    if find_spec("storages") is None:
        raise ImproperlyConfigured("KBENCH_STORAGE_URL names a bucket: install the extra `s3` (pip install kbench[s3])")
    options = {
        "bucket_name": url.netloc,
        "location": url.path.strip("/"),
        "default_acl": None,
        **dict(parse_qsl(url.query)),
    }
    return {"BACKEND": "storages.backends.s3.S3Storage", "OPTIONS": options}


def site_url(env: Environment) -> str:
    """The address of the site without a slash at its end, for links that are read outside of it."""
    given: str | None = env["KBENCH_SITE_URL"]
    if given:
        return given.rstrip("/")
    host = next((name for name in env["KBENCH_ALLOWED_HOSTS"] if not name.startswith((".", "*"))), "localhost")
    return f"https://{host}" if env["KBENCH_PUBLIC"] else f"http://{host}:{env['PORT']}"


def providers(env: Environment) -> dict[str, Any]:
    """allauth's SOCIALACCOUNT_PROVIDERS: who else an account can log in with."""
    found: dict[str, Any] = {}
    if env["KBENCH_GITHUB_CLIENT_ID"]:
        found["github"] = {"APPS": [_client(env, "KBENCH_GITHUB")]}
    if env["KBENCH_OPENID_URL"]:
        app = {
            **_client(env, "KBENCH_OPENID"),
            "provider_id": "openid",
            "name": env["KBENCH_OPENID_NAME"],
            "settings": {"server_url": env["KBENCH_OPENID_URL"].rstrip("/")},
        }
        bound = "benchmarks.accounts.openid.IssuerBoundProvider"
        found["openid_connect"] = {"APPS": [app], "OAUTH_PKCE_ENABLED": True, "provider_class": bound}
    return found


def _client(env: Environment, prefix: str) -> dict[str, str]:
    for name in (f"{prefix}_CLIENT_ID", f"{prefix}_CLIENT_SECRET"):
        if not env[name]:
            raise ImproperlyConfigured(f"{name} must be set for logging in with this provider")
    return {"client_id": env[f"{prefix}_CLIENT_ID"], "secret": env[f"{prefix}_CLIENT_SECRET"]}


@dataclass(frozen=True)
class MailServer:
    """Whom the site gives its e-mails to; without a host it sends none."""

    host: str
    port: int
    user: str
    password: str
    use_ssl: bool
    use_tls: bool
    sender: str


def mail(env: Environment) -> MailServer:
    """`smtp://USER:PASSWORD@HOST:587` begins with STARTTLS unless `?tls=none` says otherwise, `smtps://` with TLS."""
    if env["KBENCH_MAIL_CONFIRMATION"] == "required" and not env["KBENCH_MAIL_URL"]:
        raise ImproperlyConfigured("KBENCH_MAIL_CONFIRMATION is required, but KBENCH_MAIL_URL is not set")
    url = urlsplit(env["KBENCH_MAIL_URL"] or "")
    return MailServer(
        host=url.hostname or "",
        port=url.port or (465 if url.scheme == "smtps" else 587),
        user=unquote(url.username or ""),
        password=unquote(url.password or ""),
        use_ssl=url.scheme == "smtps",
        use_tls=url.scheme == "smtp" and url.query != "tls=none",
        sender=env["KBENCH_MAIL_FROM"] or f"kbench@{urlsplit(site_url(env)).hostname}",
    )


def redis_url(env: Environment) -> str:
    """The given server, or the socket on which `manage.py up` runs its own."""
    given: str | None = env["REDIS_URL"]
    return given or f"unix://{redis_socket(env)}"


def redis_socket(env: Environment) -> Path:
    """In the data folder, unless its path is longer than the kernel takes for a socket."""
    path = env.data_dir / "redis.sock"
    if len(os.fsencode(path)) <= SOCKET_PATH_MAX_BYTES:
        return path
    name = hashlib.sha256(os.fsencode(env.data_dir)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"kbench-{os.getuid()}-{name}" / "redis.sock"
