"""Makes a task with a folder from the row of an imported version, for workers.

The folder is part of the caches, holds only the reference and is named after its content, so any host can make it when
it first judges the task. Does NOT import anything: that is `importing.py`.
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
    """Writes the file atomically, unless it is already there. A file with other content is replaced."""
    if path.is_file() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(text)
    partial.replace(path)
