"""Imported tasks as workers need them: from the row of a version to a task with a folder.

The folder holds the reference alone, lies among the caches and is named by its content, so any host makes it when it
first judges the task. Does NOT import anything: that is `importing.py`.
"""

import os
from pathlib import Path

from django.conf import settings

from ..harness import TaskSpec, spec_from_json
from ..models import StoredTask, TaskVersion


def stored_spec(version: TaskVersion) -> TaskSpec | None:
    """The task of an imported version; None for one that comes with the software. Raises TaskError."""
    try:
        stored = version.stored
    except StoredTask.DoesNotExist:
        return None
    folder = Path(settings.DATA_DIR) / "cache" / "tasks" / version.content_sha256
    _write_once(folder / "reference.py", version.reference_source)
    return spec_from_json(stored.spec, version.reference_source, folder)


def _write_once(path: Path, text: str) -> None:
    """In one step; whoever comes second finds it there. A file that is not what it should be is replaced."""
    if path.is_file() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(text)
    partial.replace(path)
