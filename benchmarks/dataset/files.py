"""Writes the public data set and finds its files: all of one export are published in one step, or none.

An export lies in a folder of its own below `DATA_DIR/dataset`. `current.json`, which is replaced as a whole, names the
folder and describes its files; what it does not name is removed by the next export. Readers who have opened a file read
it to its end. Memory is bounded: rows are made some objects at a time and written in groups.
"""

import fcntl
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from ..data_tables import ColumnKind, DataRow, DataTable, Key, RowSource
from .tables import SCHEMA_VERSION, tables

ROWS_PER_GROUP = 10_000
GROUP_CHARS_MAX = 16 << 20  # of all texts of a group: sources may be long
OBJECTS_AT_ONCE = 50
NIGHT_HOUR = 3  # UTC
CURRENT = "current.json"

Manifest = dict[str, Any]


class AlreadyExporting(Exception):
    """Another process is writing the data set."""


def folder() -> Path:
    return Path(settings.DATA_DIR) / "dataset"


def current() -> Manifest | None:
    """What was published last; None before the first export."""
    try:
        found: Manifest = json.loads((folder() / CURRENT).read_text())
    except FileNotFoundError:
        return None
    return found


def file_of(manifest: Manifest, name: str) -> tuple[Path, Manifest] | None:
    """The file of a table with its description; None for what is no table of this export."""
    table = next((table for table in manifest["tables"] if table["name"] == name), None)
    return (folder() / manifest["folder"] / table["file"], table) if table else None


def is_due() -> bool:
    """There is none, the night has come, or something in it is no longer public."""
    manifest = current()
    if manifest is None:
        return True
    now = timezone.now()
    night = now.replace(hour=NIGHT_HOUR, minute=0, second=0, microsecond=0)
    last_night = night if night <= now else night - timedelta(days=1)
    return datetime.fromisoformat(manifest["made_at"]) < last_night or is_outdated(manifest)


def is_outdated(manifest: Manifest) -> bool:
    """Whether an object of the export is not public now, its account or team is another, or the schema has changed."""
    place, sources = folder() / manifest["folder"], _sources(tables())
    if manifest["schema_version"] != SCHEMA_VERSION or not all(_key_file(place, item).exists() for item in sources):
        return True
    return not all(_are_among(_read_keys(place, item), item.read()) for item in sources)


def _are_among(known: Iterable[Key], now: Iterator[Key]) -> bool:
    """Both ascend, so one pass is enough."""
    return all(key in now for key in known)


def export(*, rows_per_group: int = ROWS_PER_GROUP) -> Manifest:
    """Write all tables anew and publish them together. Raises AlreadyExporting, OSError."""
    folder().mkdir(parents=True, exist_ok=True)
    with _alone():
        _remove_unnamed()
        made_at = timezone.now().astimezone(UTC)
        place = folder() / f"{made_at:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
        place.mkdir()
        found = tables()
        for source in _sources(found):
            _write_keys(place, source)
        manifest = {
            "schema_version": SCHEMA_VERSION,
            "made_at": made_at.isoformat(timespec="seconds"),
            "folder": place.name,
            "tables": [_written(place, table, rows_per_group) for table in found],
        }
        _publish(manifest)
        _remove_unnamed()
    return manifest


@contextmanager
def _alone() -> Iterator[None]:
    with (folder() / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise AlreadyExporting("the data set is being written by another process") from error
        yield


def _remove_unnamed() -> None:
    """What an export left that was interrupted, and the one before the current."""
    manifest = current()
    for path in folder().iterdir():
        if path.is_dir() and not (manifest and path.name == manifest["folder"]):
            shutil.rmtree(path)


def _publish(manifest: Manifest) -> None:
    partial = folder() / f"{CURRENT}.part"
    with partial.open("w") as file:
        json.dump(manifest, file, indent=1)
        _flush(file.fileno())
    partial.replace(folder() / CURRENT)


def _flush(descriptor: int) -> None:
    os.fsync(descriptor)


def _sources(found: Iterable[DataTable]) -> list[RowSource]:
    return list({table.source.name: table.source for table in found}.values())


def _key_file(place: Path, source: RowSource) -> Path:
    return place / f"{source.name}.keys"


def _write_keys(place: Path, source: RowSource) -> None:
    with _key_file(place, source).open("w") as file:
        file.writelines(" ".join(map(str, key)) + "\n" for key in source.read())


def _read_keys(place: Path, source: RowSource) -> Iterator[Key]:
    with _key_file(place, source).open() as file:
        for line in file:
            yield tuple(map(int, line.split()))


def _written(place: Path, table: DataTable, rows_per_group: int) -> Manifest:
    """The description of a table that was just written, as it stands in the manifest."""
    path = place / f"{table.name}.parquet"
    rows = _write_table(path, table, _rows(place, table), rows_per_group)
    with path.open("rb") as file:
        _flush(file.fileno())
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "name": table.name,
        "about": table.about,
        "file": path.name,
        "rows": rows,
        "size_bytes": path.stat().st_size,
        "sha256": sha256,
        "columns": [
            {"name": item.name, "type": str(item.kind), "unit": item.unit, "about": item.about}
            for item in table.columns
        ],
    }


def _rows(place: Path, table: DataTable) -> Iterator[DataRow]:
    objects = (key[0] for key in _read_keys(place, table.source))
    while some := list(islice(objects, OBJECTS_AT_ONCE)):
        yield from table.rows(some)


def _write_table(path: Path, table: DataTable, rows: Iterator[DataRow], rows_per_group: int) -> int:
    import pyarrow  # 0.1 s and 60 MB, for those alone who write the data set
    from pyarrow import parquet

    schema, count = _schema(table), 0
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for group in _groups(rows, rows_per_group):
            writer.write_table(pyarrow.Table.from_pylist(group, schema=schema))
            count += len(group)
    return count


def _groups(rows: Iterator[DataRow], rows_max: int) -> Iterator[Sequence[DataRow]]:
    """At most so many rows, fewer where their texts are long."""
    group: list[DataRow] = []
    chars = 0
    for row in rows:
        group.append(row)
        chars += sum(len(value) for value in row.values() if isinstance(value, str))
        if len(group) >= rows_max or chars >= GROUP_CHARS_MAX:
            yield group
            group, chars = [], 0
    if group:
        yield group


def _schema(table: DataTable) -> Any:
    """Units and meanings stand in the file, too."""
    import pyarrow

    types = {
        ColumnKind.TEXT: pyarrow.string(),
        ColumnKind.TEXTS: pyarrow.list_(pyarrow.string()),
        ColumnKind.INTEGER: pyarrow.int64(),
        ColumnKind.NUMBER: pyarrow.float64(),
        ColumnKind.FLAG: pyarrow.bool_(),
        ColumnKind.TIME: pyarrow.timestamp("us", tz="UTC"),
    }
    fields = [
        pyarrow.field(item.name, types[item.kind], metadata={"unit": item.unit, "about": item.about})
        for item in table.columns
    ]
    return pyarrow.schema(fields, metadata={"about": table.about, "schema_version": str(SCHEMA_VERSION)})
