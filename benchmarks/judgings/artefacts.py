"""Stores builds for all hosts, so that a kernel compiled on one machine is judged on another without compiling again.

Each build is sealed with the site's secret key, and a build without a valid seal is ignored: write access to the
storage can cost time but cannot replace a kernel. Such files, as all are after a change of the key, are replaced when
their builds are made again. Without `KBENCH_STORAGE_URL` nothing is shared. Does NOT know what a build is (the harness
packs it) and deletes nothing else: give the storage a rule for old files.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import Storage, default_storage
from django.utils.crypto import constant_time_compare, salted_hmac

from ..harness import Shelf

logger = logging.getLogger(__name__)
SEAL_CHARS = 64
BUILD_MAX_BYTES = 300 << 20  # packed and sealed
SALT = "kbench.builds"


class StorageShelf:
    """A `Shelf` of the harness over one of Django's storages."""

    def __init__(self, storage: Storage = default_storage) -> None:
        self.storage = storage

    def put(self, key: str, packed: bytes) -> None:
        with _unshared(key, "stored"):
            name = _name(key)
            self.storage.delete(name)  # some storages put a new file beside one that is there
            saved = self.storage.save(name, ContentFile(_seal(key, packed) + packed))
            if saved != name:  # another machine has put the same build there meanwhile
                self.storage.delete(saved)

    def get(self, key: str) -> bytes | None:
        data: bytes | None = None
        with _unshared(key, "fetched"):
            if self.storage.exists(_name(key)):
                with self.storage.open(_name(key)) as file:
                    data = file.read(BUILD_MAX_BYTES + 1)
        if data is None:
            return None
        if len(data) > BUILD_MAX_BYTES:
            logger.warning("the build %s is larger than any build and is not used", key)
            return None
        seal, packed = data[:SEAL_CHARS], data[SEAL_CHARS:]
        if constant_time_compare(seal, _seal(key, packed)):
            return packed
        logger.warning("the build %s does not bear the seal of this site and is not used", key)
        return None


@contextmanager
def _unshared(key: str, undone: str) -> Iterator[None]:
    """Logs and ends what a storage of any kind raises: a build that is not shared is made again."""
    try:
        yield
    except Exception:
        logger.exception("the build %s could not be %s", key, undone)


def site_shelf() -> Shelf | None:
    return StorageShelf() if settings.KBENCH_STORAGE_IS_SHARED else None


def _name(key: str) -> str:
    return f"builds/{key[:2]}/{key}"


def _seal(key: str, packed: bytes) -> bytes:
    return salted_hmac(SALT, key.encode() + packed, algorithm="sha256").hexdigest().encode()
