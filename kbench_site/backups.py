"""Backups: one file with everything that a site cannot restore otherwise, its database and its generated secret key.

Taken while the site runs: SQLite copies itself consistently, PostgreSQL by `pg_dump`, which must be installed and not
older than the server. Caches and shared builds are left out: they are made again. Does NOT encrypt the file, which
holds everything that is private on the site.
"""

import json
import os
import shutil
import sqlite3
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

MANIFEST, DATABASE, SECRET = "manifest.json", "database", "secret_key"
FORMAT = 1


class BackupError(Exception):
    """The text says what is wrong and what to do."""


def backup(database: Mapping[str, Any], data_dir: Path, target: Path) -> None:
    """Writes `target`, readable by its owner alone; an earlier one stays until this is whole. Raises BackupError."""
    with _scratch() as folder:
        copied = folder / DATABASE
        _dump_sqlite(database, copied) if _is_sqlite(database) else _dump_postgres(database, copied)
        manifest = {"format": FORMAT, "engine": _engine(database), "created": datetime.now(UTC).isoformat()}
        (folder / MANIFEST).write_text(json.dumps(manifest))
        partial = target.with_name(f"{target.name}.partial")
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            with tarfile.open(fileobj=file, mode="w:gz") as archive:
                for path in (folder / MANIFEST, copied, data_dir / SECRET):
                    if path.exists():
                        archive.add(path, arcname=path.name)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)


def restore(database: Mapping[str, Any], data_dir: Path, source: Path) -> None:
    """Replaces the database by the one in the file; a secret key that is there already stays. Raises BackupError."""
    with _scratch() as folder:
        try:
            _unpack(source, folder)
            manifest = json.loads((folder / MANIFEST).read_text())
        except (OSError, tarfile.TarError, ValueError) as error:
            raise BackupError(f"{source} is not a kbench backup: {error}") from error
        if (manifest.get("format"), manifest.get("engine")) != (FORMAT, _engine(database)):
            raise BackupError(
                f"{source} was taken from {manifest.get('engine')}, and DATABASE_URL names {_engine(database)}: "
                "a backup can be restored only into a database of the same kind"
            )
        copied = folder / DATABASE
        _load_sqlite(database, copied) if _is_sqlite(database) else _load_postgres(database, copied)
        secret = data_dir / SECRET
        if (folder / SECRET).exists() and not secret.exists():
            with os.fdopen(os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write((folder / SECRET).read_text())


def _unpack(source: Path, folder: Path) -> None:
    """Writes the plain files that `backup` names, and nothing else that the archive holds."""
    with tarfile.open(source) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isreg() else None
            if content is not None and member.name in (MANIFEST, DATABASE, SECRET):
                with content, (folder / member.name).open("wb") as file:
                    shutil.copyfileobj(content, file)


def _engine(database: Mapping[str, Any]) -> str:
    return str(database["ENGINE"]).rpartition(".")[2]


def _is_sqlite(database: Mapping[str, Any]) -> bool:
    return _engine(database) == "sqlite3"


@contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kbench-backup-") as folder:
        yield Path(folder)


def _dump_sqlite(database: Mapping[str, Any], target: Path) -> None:
    _copy_sqlite(Path(database["NAME"]), target)


def _load_sqlite(database: Mapping[str, Any], source: Path) -> None:
    _copy_sqlite(source, Path(database["NAME"]))


def _copy_sqlite(source: Path, target: Path) -> None:
    """By SQLite's own online copy, which sees one state of the database even while others write."""
    if not source.exists():
        raise BackupError(f"there is no database at {source}: start the site once, or set KBENCH_DATA_DIR")
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)
        (said,) = new.execute("PRAGMA quick_check").fetchone()
    if said != "ok":
        raise BackupError(f"the copy of {source} is damaged: {said}")


def _dump_postgres(database: Mapping[str, Any], target: Path) -> None:
    _run_tool(database, "pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--file={target}")


def _load_postgres(database: Mapping[str, Any], source: Path) -> None:
    """All or nothing: a database that cannot be restored stays as it was."""
    how = ("--clean", "--if-exists", "--no-owner", "--no-privileges", "--single-transaction", "--exit-on-error")
    _run_tool(database, "pg_restore", *how, f"--dbname={database['NAME']}", str(source))


def _run_tool(database: Mapping[str, Any], tool: str, *arguments: str) -> None:
    names = {"PGHOST": "HOST", "PGPORT": "PORT", "PGUSER": "USER", "PGPASSWORD": "PASSWORD", "PGDATABASE": "NAME"}
    given = {variable: str(database[name]) for variable, name in names.items() if database[name]}
    options = {f"PG{name.upper()}": value for name, value in database["OPTIONS"].items() if name.startswith("ssl")}
    try:
        subprocess.run(
            [tool, *arguments], env={**os.environ, **given, **options}, check=True, capture_output=True, text=True
        )
    except FileNotFoundError as error:
        raise BackupError(f"{tool} is not installed: install PostgreSQL's client programs") from error
    except subprocess.CalledProcessError as error:
        raise BackupError(f"{tool} failed: {error.stderr.strip()}") from error
