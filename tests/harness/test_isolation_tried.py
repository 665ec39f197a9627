"""What counts as an answer when bubblewrap is tried: what it says itself, and no bad moment of the machine."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness.errors import IsolationError
from benchmarks.harness.sandbox import isolation, trial

TRIES = pytest.mark.parametrize("tried", ["isolation_in_force", "tasks_are_limited"])
CACHED = (isolation.isolation_in_force, isolation.tasks_are_limited)


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    for cached in CACHED:
        cached.cache_clear()
    yield
    for cached in CACHED:
        cached.cache_clear()


@pytest.fixture
def first(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Has the next program end as told, and all later ones as they do."""

    def happens(what: Any) -> None:
        run, left = subprocess.run, [what]

        def once(*arguments: Any, **how: Any) -> Any:
            if not left:
                return run(*arguments, **how)
            if isinstance(now := left.pop(), Exception):
                raise now
            return subprocess.CompletedProcess([], *now)

        monkeypatch.setattr(subprocess, "run", once)

    return happens


NO_NAMESPACE = (
    b"bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)\n"
)


def test_a_machine_that_allows_no_namespaces_has_none_later(
    first: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "max_user_namespaces").write_text("0\n")
    monkeypatch.setattr(trial, "_NAMESPACES", tmp_path)
    monkeypatch.setattr(isolation.shutil, "which", lambda _: "/usr/bin/bwrap")
    first((1, b"", NO_NAMESPACE))
    assert not isolation.isolation_in_force().strong


@pytest.mark.sandbox
@TRIES
@pytest.mark.parametrize(
    "moment",
    [
        BlockingIOError(11, "Resource temporarily unavailable"),
        subprocess.TimeoutExpired("bwrap", 20),
        (1, b"", b"bwrap: Creating new namespace failed: Resource temporarily unavailable\n"),
        (1, b"", b"bwrap: execvp /usr/bin/env: Cannot allocate memory\n"),
        (1, b"", b"bwrap: Can't open /newroot/x: Too many open files in system\n"),
        (1, b"", b"bwrap: pipe2: Too many open files\n"),
        (1, b"", b"bwrap: Can't mkdir /newroot/x: No space left on device\n"),
        (1, b"", NO_NAMESPACE),
        (-9, b"", b""),
        (137, b"", b""),
    ],
    ids=[
        "no fork",
        "no time",
        "no process inside",
        "no memory inside",
        "no file of the machine",
        "no file",
        "no space",
        "no namespace",
        "killed",
        "killed inside",
    ],
)
def test_a_bad_moment_is_no_answer_and_is_not_kept(first: Callable[[Any], None], tried: str, moment: Any) -> None:
    if not isolation.isolation_in_force().strong:
        pytest.skip("bubblewrap does not work here")
    usual = isolation.tasks_are_limited()
    for cached in CACHED if tried == "isolation_in_force" else CACHED[1:]:
        cached.cache_clear()
    first(moment)
    with pytest.raises(IsolationError, match="could not be tried"):
        getattr(isolation, tried)()
    assert isolation.isolation_in_force().strong
    assert isolation.tasks_are_limited() is usual


@pytest.mark.sandbox
@pytest.mark.parametrize(
    "said", [b"bwrap: No permissions to create new namespace\n", b"bwrap: setting up uid map: Permission denied\n"]
)
def test_what_bubblewrap_says_is_kept(
    first: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(isolation.shutil, "which", lambda _: "/usr/bin/bwrap")
    first((1, b"", said))
    assert not isolation.isolation_in_force().strong
    assert not isolation.isolation_in_force().strong


def test_a_machine_without_bubblewrap_tries_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation.shutil, "which", lambda _: None)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("it was tried"))
    assert not isolation.isolation_in_force().strong
    assert not isolation.tasks_are_limited()
