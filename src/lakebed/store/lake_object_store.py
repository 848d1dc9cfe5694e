"""An `ObjectStore` for Tier 2 that keeps a log's objects in the store's own object store.

It needs no network and no second root. The objects are in the bucket `lakebed-tier2`, which the
first `put` creates without versioning: an object that is replaced or deleted leaves no old version.
The bucket is reserved; only this module changes it. The first operation opens the object store. If
the store is open for writing, it creates an object store if there is none; logs that do not use
Tier 2 do not need one.

Invariants:
- The object store gives the guarantees that `aof.tiers.object_store` requires: an object is
  complete or absent, it is durable when it is acknowledged, and every byte is verified before it is
  returned.
- Reading an object with wrong bytes raises `Corrupt`, not `Missing`. An object that is marked as
  damaged is left out of listings; `head` reads all of it again and raises `Corrupt` if it is still
  damaged.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from lakebed.aof.identity import OWN_STORE
from lakebed.aof.tiers.errors import Missing, Tier2Error, Transient, Unauthorised, Unavailable
from lakebed.aof.tiers.object_store import (
    ObjectInfo,
    PutResult,
    check_key,
    check_metadata,
    check_prefix,
    is_key,
)
from lakebed.aof.tiers.ranges import RangeSource, pieces
from lakebed.base.errors import (
    Closed,
    Corrupt,
    DataError,
    DiskError,
    InputError,
    LakebedError,
    NoSpace,
    NotFound,
    RetryError,
)
from lakebed.seglake.errors import BadRange, Damaged, NoSuchBucket, NoSuchKey
from lakebed.seglake.model import CHUNK_BYTES, Content, State, Versioning
from lakebed.seglake.paths import DATABASE_NAME
from lakebed.seglake.ranges import ByteRange

# Only for types: importing this module must not import SQLite.
if TYPE_CHECKING:
    from lakebed.seglake.lake import Lake
    from lakebed.seglake.object_reader import ReadableObjects
    from lakebed.store.read_only_bucket import ReadableLake

BUCKET = OWN_STORE.rpartition("/")[2]

Opened = TypeVar("Opened")

_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class ReadOnlyLakeObjectStore:
    """The Tier 2 `ObjectStore` of a store that is open read-only. Thread-safe.

    It refuses all changes.
    """

    def __init__(self, open_lake: Callable[[], ReadableLake]) -> None:
        """`open_lake` returns the object store; it is called for every operation."""
        self._open_lake = open_lake

    def put(self, key: str, source: RangeSource, *, metadata: Mapping[str, str]) -> PutResult:  # noqa: ARG002
        raise Unauthorised(f"put {key}: refused, because the store is open read-only")

    def delete(self, key: str) -> None:
        raise Unauthorised(f"delete {key}: refused, because the store is open read-only")

    def get_range(self, key: str, *, offset: int, length: int) -> bytes:
        check_key(key)
        if length <= 0:
            return b""
        with _translating("get", key), contextlib.suppress(BadRange):
            byte_range = ByteRange(offset, offset + length - 1)
            return self._reading.get(BUCKET, key, byte_range=byte_range).read()
        return b""  # the range begins after the object's end

    def head(self, key: str) -> ObjectInfo:
        check_key(key)
        with _translating("head", key):
            info = self._reading.head(BUCKET, key)
            if info.state is State.DAMAGED:
                for _ in self._reading.get(BUCKET, key):
                    pass  # raises if it is still damaged; the first read error may have passed
        return ObjectInfo(key, info.size, info.etag, info.content.metadata)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        check_prefix(prefix)
        after: str | None = ""
        while after is not None:
            with _translating("list", prefix):
                try:
                    page = self._reading.list(BUCKET, prefix=prefix, after=after)
                except NoSuchBucket:  # nothing was put yet
                    return
            for row in page.items:
                if row.state is not State.DAMAGED and is_key(row.key):
                    yield ObjectInfo(row.key, row.size, row.etag, None)
            after = page.next_marker

    @property
    def _reading(self) -> ReadableObjects:
        return _opened(self._open_lake).objects


class LakeObjectStore(ReadOnlyLakeObjectStore):
    """The Tier 2 `ObjectStore` of a store that is open for writing. Thread-safe."""

    def __init__(self, open_lake: Callable[[], Lake]) -> None:
        super().__init__(open_lake)
        self._open_writing = open_lake
        self._has_bucket = False  # not locked: creating the bucket twice does no harm

    def put(self, key: str, source: RangeSource, *, metadata: Mapping[str, str]) -> PutResult:
        check_key(key)
        check_metadata(metadata)
        with _translating("put", key):
            lake = _opened(self._open_writing)
            self._ensure_bucket(lake)
            put = lake.objects.begin_put(
                BUCKET,
                key,
                content=Content(metadata=dict(metadata)),
                size=source.size,
                as_owner=True,
            )
        with put:
            # Errors of reading the source are not translated: they are not Tier 2's.
            for piece in pieces(source, bytes_max=CHUNK_BYTES):
                with _translating("put", key):
                    put.write(piece)
            with _translating("put", key):
                return PutResult(put.finish().etag)

    def delete(self, key: str) -> None:
        check_key(key)
        with contextlib.suppress(Missing), _translating("delete", key):
            _opened(self._open_writing).objects.delete(BUCKET, key, as_owner=True)

    def _ensure_bucket(self, lake: Lake) -> None:
        if not self._has_bucket:
            lake.buckets.create(BUCKET, versioning=Versioning.DISABLED, as_owner=True)
            self._has_bucket = True


def _opened(open_lake: Callable[[], Opened]) -> Opened:
    """Opens the object store.

    Raises `Unavailable` if the object store as a whole is damaged, because `Corrupt` means that one
    object is damaged.
    """
    try:
        return open_lake()
    except DataError as error:
        raise Unavailable(str(error)) from error


@contextlib.contextmanager
def _translating(operation: str, key: str) -> Iterator[None]:
    try:
        yield
    except Damaged as error:
        raise Corrupt(
            f"{key}: {error.problem}",
            path=error.path,
            offset=error.offset,
            expected=error.expected,
            found=error.found,
        ) from error
    except DataError as error:
        if os.path.basename(error.path or "") == DATABASE_NAME:
            raise Unavailable(f"{operation} {key}: {error}") from error
        raise
    except Closed:
        raise
    except LakebedError as error:
        raise _meaning(error, operation)(f"{operation} {key}: {error}") from error


def _meaning(error: LakebedError, operation: str) -> type[Tier2Error]:
    match error:
        case NoSuchKey() | NoSuchBucket() if operation != "put":
            return Missing
        case DiskError():
            return Unauthorised if error.code in _REFUSED else Unavailable
        case NoSpace() | NotFound() | Unavailable():
            return Unavailable
        case RetryError():
            return Transient
        case InputError():
            return Unauthorised  # retrying does not help: the cause has to be fixed first
        case _:
            return Unavailable
