"""Static files from an installed package: only the script of Plotly.

Does NOT import the package, because that takes long.
"""

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from django.contrib.staticfiles.finders import FileSystemFinder
from django.core.checks import CheckMessage
from django.core.files.storage import FileSystemStorage, Storage

PREFIX, NAME = "plotly", "plotly.min.js"


class PlotlyFinder(FileSystemFinder):
    """Finds `plotly/plotly.min.js`."""

    def __init__(self, *_: object, **__: object) -> None:
        folder = str(_package() / "package_data")
        storage = FileSystemStorage(location=folder)
        storage.prefix = PREFIX  # type: ignore[attr-defined]
        self.locations = [(PREFIX, folder)]
        self.storages = {folder: storage}

    def check(self, **_: object) -> list[CheckMessage]:
        """What the settings name is checked by the finder of the settings."""
        return []

    def find_location(self, root: str, path: str, prefix: str | None = None) -> str | None:
        return super().find_location(root, path, prefix) if path == f"{PREFIX}/{NAME}" else None

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, Storage]]:
        found = super().list(ignore_patterns)
        return ((path, storage) for path, storage in found if path == NAME)


def _package() -> Path:
    spec = find_spec("plotly")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("plotly is not installed: install kbench with its dependencies.")
    return Path(spec.origin).parent
