"""The small records that a judging is called with: source, folders, progress.

Not covered: reading uploads (the site's form does) and deciding anything.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .protocol import clean_text
from .shelf import Shelf


@dataclass(frozen=True)
class Source:
    """One submitted text and the language it claims to be in."""

    text: str
    language: str

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True)
class Paths:
    """Where the harness keeps what it may lose: caches and scratch. Several processes may share one `data`.

    `shelf` is what several machines share.
    """

    data: Path
    shelf: Shelf | None = None

    @property
    def builds(self) -> Path:
        return self._made("cache/builds")

    @property
    def headers(self) -> Path:
        return self._made("cache/headers")

    @property
    def baselines(self) -> Path:
        return self._made("cache/baselines")

    @property
    def bytecode(self) -> Path:
        return self._made("cache/bytecode")

    @property
    def scratch(self) -> Path:
        return self._made("scratch")

    def _made(self, name: str) -> Path:
        path = self.data.resolve() / name
        path.mkdir(parents=True, exist_ok=True)
        return path


@dataclass(frozen=True)
class Step:
    """One step of progress to report. `done` of `total` counts configurations or calls."""

    stage: str  # static, compile, prepare, load, verify, time
    state: str  # waiting, started, progress, finished
    done: int | None = None
    total: int | None = None
    text: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", clean_text(self.text))


StepListener = Callable[[Step], None]
CancelCheck = Callable[[], bool]


def ignore_steps(step: Step) -> None:
    """A listener that ignores all steps."""


def never_cancelled() -> bool:
    return False


def no_one_waits() -> bool:
    return False


@dataclass(frozen=True)
class Watcher:
    """Who watches a judging: is told every step, may cancel it, and knows who waits. The default does nothing.

    Where `others_wait` for the device, what no verdict and no score needs is left out.
    """

    on_step: StepListener = ignore_steps
    cancelled: CancelCheck = never_cancelled
    others_wait: Callable[[], bool] = no_one_waits


NOBODY = Watcher()
