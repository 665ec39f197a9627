"""What lies in the shared storage: sealed, and believed only under its seal."""

import os
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.files.storage import FileSystemStorage, Storage
from django.test import override_settings

from benchmarks.judgings import artefacts
from benchmarks.judgings.artefacts import StorageShelf, site_shelf
from kbench_site import env

KEY = "ab" * 32


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture(params=[True, False], ids=["overwrites", "keeps what is there"])
def shelf(folder: Path, request: pytest.FixtureRequest) -> StorageShelf:
    """Storages of both kinds: Django's own for folders puts a new file beside one that is there unless it is told."""
    return StorageShelf(FileSystemStorage(folder, allow_overwrite=request.param))


def test_what_was_put_is_found(shelf: StorageShelf) -> None:
    assert shelf.get(KEY) is None
    for packed in (b"first", b"second"):
        shelf.put(KEY, packed)
    assert shelf.get(KEY) == b"second"


def test_one_file_per_build(shelf: StorageShelf, folder: Path) -> None:
    for _ in range(2):
        shelf.put(KEY, b"the same")
    assert [path.name for path in folder.rglob("*") if path.is_file()] == [KEY]


@pytest.mark.parametrize("spoil", [lambda data: data[:-1], lambda data: data[:70] + b"x" + data[71:], lambda _: b""])
def test_what_was_changed_in_the_storage_is_not_used(shelf: StorageShelf, folder: Path, spoil: object) -> None:
    shelf.put(KEY, b"a module" * 20)
    file = folder / "builds" / KEY[:2] / KEY
    file.write_bytes(spoil(file.read_bytes()))  # type: ignore[operator]
    assert shelf.get(KEY) is None


def test_a_build_cannot_pass_for_another_one(shelf: StorageShelf, folder: Path) -> None:
    shelf.put(KEY, b"a module")
    other = "cd" * 32
    (folder / "builds/cd").mkdir()
    (folder / "builds/cd" / other).write_bytes((folder / "builds" / KEY[:2] / KEY).read_bytes())
    assert shelf.get(other) is None


def test_another_sites_seal_counts_for_nothing(shelf: StorageShelf) -> None:
    shelf.put(KEY, b"a module")
    with override_settings(SECRET_KEY="another" * 6):
        assert shelf.get(KEY) is None


def test_a_build_that_is_made_again_after_a_change_of_the_key_replaces_the_old_one(
    shelf: StorageShelf, folder: Path
) -> None:
    shelf.put(KEY, b"a module")
    with override_settings(SECRET_KEY="another" * 6):
        for _ in range(3):
            shelf.put(KEY, b"the same module")
        assert shelf.get(KEY) == b"the same module"
    assert [path.name for path in folder.rglob("*") if path.is_file()] == [KEY]


def test_of_two_machines_that_put_a_build_at_once_one_leaves_a_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = StorageShelf(FileSystemStorage(folder))
    monkeypatch.setattr(shelf.storage, "delete", lambda name: None if name.endswith(KEY) else os.unlink(folder / name))
    for _ in range(2):
        shelf.put(KEY, b"a module")
    assert [path.name for path in folder.rglob("*") if path.is_file()] == [KEY]


def test_a_storage_that_is_away_costs_time_and_nothing_else() -> None:
    class Away(Storage):
        def exists(self, name: str) -> bool:
            raise ConnectionError("no route to host")

    shelf = StorageShelf(Away())
    shelf.put(KEY, b"a module")
    assert shelf.get(KEY) is None


def test_nothing_is_shared_unless_a_storage_is_named() -> None:
    assert site_shelf() is None
    with override_settings(KBENCH_STORAGE_IS_SHARED=True):
        assert isinstance(site_shelf(), StorageShelf)


def read(url: str) -> env.Environment:
    return env.read_environment({"KBENCH_STORAGE_URL": url, "KBENCH_DATA_DIR": "/srv/kbench"})


def test_a_folder_is_the_default() -> None:
    assert env.storage(read(""))["OPTIONS"]["location"] == "/srv/kbench/storage"
    assert env.storage(read("file:///mnt/all%20hosts"))["OPTIONS"]["location"] == "/mnt/all hosts"


def test_a_bucket_is_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env, "find_spec", lambda _: True)
    entry = env.storage(read("s3://kernels/site/one?endpoint_url=https://s3.example:9000&region_name=eu-1"))
    assert entry["BACKEND"] == "storages.backends.s3.S3Storage"
    wanted = {"bucket_name": "kernels", "location": "site/one", "endpoint_url": "https://s3.example:9000"}
    assert entry["OPTIONS"] == {**wanted, "region_name": "eu-1", "default_acl": None}


def test_a_bucket_without_its_library_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env, "find_spec", lambda _: None)
    with pytest.raises(ImproperlyConfigured, match="KBENCH_STORAGE_URL"):
        env.storage(read("s3://kernels"))


def test_what_is_larger_than_builds_are_is_not_read_to_its_end(
    shelf: StorageShelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.put(KEY, b"a module")
    monkeypatch.setattr(artefacts, "BUILD_MAX_BYTES", 64 + len(b"a module"))
    assert shelf.get(KEY) == b"a module"
    monkeypatch.setattr(artefacts, "BUILD_MAX_BYTES", 64 + len(b"a modul"))
    assert shelf.get(KEY) is None
