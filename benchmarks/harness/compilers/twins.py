"""Copies of headers with equal contents, all of one time.

g++ takes two files with equal contents and times (in seconds) for one where they say `#pragma once`, so a text could
tell whether an installation wrote two such headers within one second. Not covered: the toolkit of CUDA.
"""

import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from ..hosts.locks import file_lock
from ..source import Paths


def twins(folders: Mapping[Path, str], paths: Paths, name: str) -> dict[Path, str]:
    """What to mount over files of `folders`; the copies are made once and kept with the prepared headers as `name`."""
    kept = paths.headers / name
    with file_lock(kept.with_suffix(".lock")):
        if not kept.is_dir():
            _copy(folders, kept, paths)
    return {
        path: f"{place}/{path.relative_to(kept / str(number))}"
        for number, place in enumerate(folders.values())
        for path in sorted((kept / str(number)).rglob("*"))
        if path.is_file()
    }


def _copy(folders: Mapping[Path, str], kept: Path, paths: Paths) -> None:
    """The copies of each folder below its number. They appear whole or not at all."""
    with tempfile.TemporaryDirectory(prefix="twins-", dir=paths.scratch) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        numbers = {folder: str(number) for number, folder in enumerate(folders)}
        for folder, file in _with_a_twin(folders):
            copied = made / numbers[folder] / file.relative_to(folder)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copied)
            os.utime(copied, (0, 0))
        made.rename(kept)


def _with_a_twin(folders: Collection[Path]) -> Iterator[tuple[Path, Path]]:
    """Folder and file, of each file whose contents another one has."""
    sizes = defaultdict(list)
    for folder in folders:
        for file in folder.rglob("*"):
            if file.is_file():
                sizes[file.stat().st_size].append((folder, file))
    for files in sizes.values():
        contents = defaultdict(list)
        for item in files if len(files) > 1 else ():
            contents[item[1].read_bytes()].append(item)
        for equal in contents.values():
            yield from equal if len(equal) > 1 else ()
