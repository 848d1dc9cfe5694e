"""A Tier 2 store in a folder on disk: each object is one file.

An object's key is its file's path below the folder. `put` writes the file under a temporary name,
syncs and renames it, and syncs the folder. `delete` is also durable when it returns. If a crash
interrupts a `put`, a file whose name ends in `.tmp` may remain; it is never listed, and
`remove_leftovers` removes it.

If a process is killed between the rename and the sync of the folder, a power loss may still remove
the object. So `head` and `list` sync a folder before they first report an object in it.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Iterator, Mapping, Sequence

from lakebed.aof.tiers.errors import Missing, Tier2Error, Unauthorised, Unavailable
from lakebed.aof.tiers.folder_object import (
    TRAILER_BYTES_MAX,
    FolderObject,
    decode_trailer,
    encode_trailer,
)
from lakebed.aof.tiers.object_store import (
    ObjectInfo,
    PutResult,
    check_key,
    check_metadata,
    check_prefix,
    is_key,
)
from lakebed.aof.tiers.ranges import RangeSource, pieces
from lakebed.base.errors import AlreadyExists, DataError, DiskError, LakebedError, NoSpace, NotFound
from lakebed.base.events import event
from lakebed.base.files import Disk, File, build_atomically, make_folders, remove_temporaries
from lakebed.kernels import crc64nvme

_log = logging.getLogger(__name__)
_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class FolderStore:
    """An `ObjectStore` in a folder on disk; the first `put` creates the folder. Thread-safe."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder
        # Two threads may add the same folder twice without harm.
        self._durable_folders: set[str] = set()
        self._settled: set[str] = set()  # folders that were synced: see the module's docstring

    def put(self, key: str, source: RangeSource, *, metadata: Mapping[str, str]) -> PutResult:
        check_key(key)
        check_metadata(metadata)
        path = self._path(key)
        tracked_source = _TrackedSource(source)
        stored: list[FolderObject] = []

        def build(file: File) -> None:
            position, crc = 0, 0
            for piece in pieces(tracked_source):
                file.pwrite(position, piece)
                crc = crc64nvme(piece, crc)
                position += len(piece)
            stored.append(FolderObject(position, crc, metadata))
            file.write_and_sync(position, [encode_trailer(stored[0])])

        with _translating("put", key, source=tracked_source):
            try:
                self._make_folder(os.path.dirname(path))
                build_atomically(self._disk, path, build)
            except NotFound:  # the folder was removed: the next attempt creates it again
                self._durable_folders.clear()
                self._settled.clear()
                raise
        return PutResult(stored[0].etag)

    def get_range(self, key: str, *, offset: int, length: int) -> bytes:
        check_key(key)
        with _translating("get", key), self._open(key) as file:
            stored = _trailer(file)
            return file.pread(offset, max(0, min(length, stored.size - offset)))

    def head(self, key: str) -> ObjectInfo:
        check_key(key)
        with _translating("head", key):
            self._settle(os.path.dirname(self._path(key)))
            with self._open(key) as file:
                stored = _trailer(file)
        return ObjectInfo(key, stored.size, stored.etag, stored.metadata)

    def delete(self, key: str) -> None:
        check_key(key)
        path = self._path(key)
        with contextlib.suppress(Missing), _translating("delete", key):
            if self._disk.is_folder(path):
                return
            # An earlier attempt may have unlinked the file without the sync.
            with contextlib.suppress(NotFound):
                self._disk.unlink(path)
            with contextlib.suppress(NotFound):
                self._disk.sync_folder(os.path.dirname(path))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Yields the objects below `prefix`. Damaged objects are logged and left out."""
        check_prefix(prefix)
        with _translating("list", prefix):
            for key in self._keys(prefix):
                try:
                    yield self.head(key)._replace(metadata=None)
                except Missing:  # deleted meanwhile
                    continue
                except DataError as error:
                    event(_log, "tier2_object_damaged", level=logging.ERROR, key=key, error=error)

    def remove_leftovers(self) -> Sequence[str]:
        """Removes the files that interrupted puts left, and returns their names.

        No `put` may run at the same time.
        """
        with _translating("clean", self._folder):
            return [
                name
                for folder in self._folders(self._folder)
                for name in remove_temporaries(self._disk, folder)
            ]

    def _keys(self, prefix: str) -> Iterator[str]:
        top = self._path(prefix.rstrip("/")) if prefix else self._folder
        for folder in self._folders(top):
            for name in self._names(folder):
                path = os.path.join(folder, name)
                key = os.path.relpath(path, self._folder)
                if is_key(key) and not self._disk.is_folder(path):
                    yield key

    def _folders(self, top: str) -> Iterator[str]:
        """Yields the folder `top` and all folders below it; nothing if it does not exist."""
        if not self._disk.is_folder(top):
            return
        yield top
        for name in self._names(top):
            yield from self._folders(os.path.join(top, name))

    def _names(self, folder: str) -> Sequence[str]:
        with contextlib.suppress(NotFound):
            return self._disk.names(folder)
        return []

    def _make_folder(self, folder: str) -> None:
        if folder not in self._durable_folders:
            try:
                make_folders(self._disk, folder)
            except AlreadyExists:  # another thread created it
                make_folders(self._disk, folder)
            self._durable_folders.add(folder)

    def _settle(self, folder: str) -> None:
        if folder not in self._settled:
            self._disk.sync_folder(folder)
            self._settled.add(folder)

    def _open(self, key: str) -> File:
        path = self._path(key)
        if self._disk.is_folder(path):
            raise NotFound(f"{path}: the path is a folder, not an object")
        return self._disk.open(path)

    def _path(self, key: str) -> str:
        return os.path.join(self._folder, key)


class _TrackedSource:
    """Wraps a source and stores the source's last error.

    So the caller can distinguish an error of the source from an error of the target disk.
    """

    def __init__(self, source: RangeSource) -> None:
        self._source = source
        self.name = source.name
        self.size = source.size
        self.failure: LakebedError | None = None

    def read_range(self, offset: int, length: int) -> bytes:
        try:
            return self._source.read_range(offset, length)
        except LakebedError as error:
            self.failure = error
            raise

    def close(self) -> None:
        self._source.close()


@contextlib.contextmanager
def _translating(
    operation: str, key: str, *, source: _TrackedSource | None = None
) -> Iterator[None]:
    try:
        yield
    except (AlreadyExists, DiskError, NoSpace, NotFound) as error:
        if (source is not None and error is source.failure) or isinstance(error, Missing):
            raise
        raise _meaning(error, operation)(f"{operation} {key}: {error}") from error


def _meaning(error: LakebedError, operation: str) -> type[Tier2Error]:
    code = error.code if isinstance(error, DiskError) else None
    if operation != "put" and (isinstance(error, NotFound) or code == errno.ENOTDIR):
        return Missing
    return Unauthorised if code in _REFUSED else Unavailable


def _trailer(file: File) -> FolderObject:
    size = file.size()
    end = file.pread(max(0, size - TRAILER_BYTES_MAX), TRAILER_BYTES_MAX)
    return decode_trailer(end, path=file.path, file_bytes=size)
