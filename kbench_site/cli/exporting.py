"""`kbench export`: the public record of a site as a file of lines of JSON, or as Parquet for data frames.

Does NOT continue an earlier export, because old submissions can get new evaluations.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from .client import Client
from .options import asks_the_site
from .output import WRONG_USAGE, leave, progress

TEXTS = ("id", "task", "task_licence", "task_origin", "language", "title", "by", "method", "method_kind", "moderation",
         "created", "source_sha256", "source")  # fmt: skip
OF_EVALUATION = ("id", "device", "ruleset", "reason", "verdict", "reason_text", "finished", "worst_config",
                 "timing_trust")  # fmt: skip
SCORES = ("speedup", "speedup_lo", "speedup_hi", "vs_eager", "vs_compile")
OF_CONFIG = (
    "kernel_us",
    "eager_us",
    "compile_us",
    "speedup",
    "speedup_lo",
    "speedup_hi",
    "roofline_fraction",
    "sol_score",
)


@click.command("export")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@asks_the_site
def export_command(file: Path) -> None:
    """Write every public submission with source and results to FILE (.jsonl or .parquet)."""
    write = {".jsonl": _write_lines, ".parquet": _write_parquet}.get(file.suffix)
    if write is None:
        leave("kbench: FILE must end with .jsonl or .parquet", WRONG_USAGE)
    unfinished = file.with_name(f"{file.name}.part")
    try:
        count = write(unfinished, _pages(Client()))
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)
    progress.print(f"written: {count} submissions to {file}", style="dim")


def _pages(client: Client) -> Iterator[list[dict[str, Any]]]:
    after = ""
    while True:
        page = client.get("export", after=after)
        yield page["submissions"]
        after = page["next"]
        if not after:
            return


def _write_lines(file: Path, pages: Iterator[list[dict[str, Any]]]) -> int:
    count = 0
    with file.open("w", encoding="utf-8") as lines:
        for rows in pages:
            lines.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            count += len(rows)
    return count


def _write_parquet(file: Path, pages: Iterator[list[dict[str, Any]]]) -> int:
    import pyarrow
    from pyarrow import parquet

    count, schema = 0, columns()
    with parquet.ParquetWriter(file, schema, compression="zstd") as table:
        for rows in pages:
            table.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
            count += len(rows)
    return count


def columns() -> Any:
    """The schema of the file: one row per submission, evaluations and configurations nested."""
    import pyarrow as pa

    text, number, flag = pa.string(), pa.float64(), pa.bool_()
    config = [("key", text), ("group", text), ("correct", flag), *((name, number) for name in OF_CONFIG)]
    evaluation = [
        *((name, text) for name in OF_EVALUATION),
        *((name, number) for name in SCORES),
        *(("timing_revision", pa.int32()), ("calls_library", flag), ("rank", pa.int32()), ("under_review", flag)),
        ("configs", pa.list_(pa.struct(config))),
    ]
    return pa.schema(
        [
            *((name, text) for name in TEXTS),
            ("task_version", pa.int32()),
            ("evaluations", pa.list_(pa.struct(evaluation))),
        ]
    )
