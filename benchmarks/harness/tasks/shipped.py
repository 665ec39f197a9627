"""The kernels that come with a task, in its folder.

Not covered: which of them a site judges (`catalogue/folders.py`).
"""

from ..languages import LANGUAGES
from .spec import TaskSpec


def shipped_kernel(task: TaskSpec, language: str) -> str | None:
    """The text of the kernel that comes with the task in this language; None where none does."""
    ending = LANGUAGES[language].example
    file = task.folder / "kernels" / f"{task.direction}_{ending}"
    return file.read_text() if ending and file.is_file() else None
