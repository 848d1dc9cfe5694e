"""A bucket of a remote store: the remote form of `lakebed.store.bucket.Bucket`.

Objects of any size are sent and received in pieces. The server verifies bytes before it sends them;
the client relies on TCP and TLS and does not verify them again. A read returns the bytes of the
version that `get` found, even if the key has a newer version by then, and never a mixture of two
versions. Unlike an embedded reader, which later writes do not affect, a read raises `NoSuchVersion`
if that version was removed before the read began. In a bucket without versioning, each write
removes the previous version.
"""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Iterable, Iterator, Mapping

from lakebed.api import media
from lakebed.api import objects as wire
from lakebed.api.problems import Unreachable, error_of
from lakebed.base.errors import InputError, LakebedError
from lakebed.base.units import MIB, shown
from lakebed.client.caller import Caller
from lakebed.client.connection import Body, Pieces
from lakebed.client.stored_objects import RemoteStoredObjects
from lakebed.seglake.body import Source, pieces_of
from lakebed.seglake.errors import BadRange, MethodNotAllowed, NoSuchVersion
from lakebed.seglake.listing import ListedVersion
from lakebed.seglake.meta.rows import VersionRow
from lakebed.seglake.model import (
    Algorithm,
    BucketInfo,
    Content,
    Deleted,
    ObjectInfo,
    ObjectToDelete,
    Page,
    Versioning,
)
from lakebed.seglake.objects import DELETED_AT_ONCE_MAX
from lakebed.seglake.ranges import ByteRange

HELD_BYTES_MAX = 1 * MIB  # a file or iterable up to this size is read into memory before it is sent


class RemoteObject:
    """One version of an object, or a byte range of it. It can be iterated several times.

    Each iteration raises `NoSuchVersion` if the version was removed or replaced before it began.
    """

    def __init__(self, caller: Caller, info: ObjectInfo, *, start: int, end: int) -> None:
        self.info = info
        self.start = start
        self.end = end
        self._caller = caller

    def __len__(self) -> int:
        return self.end - self.start

    def __iter__(self) -> Iterator[memoryview]:
        end = min(self.end, self.info.size)
        if self.start >= end:
            return
        names = {"bucket": self.info.bucket, "key": self.info.key}
        version_id = self.info.shown_version_id
        query = wire.GetQuery(version_id=version_id, first=self.start, last=end - 1)
        left = end - self.start
        try:
            with self._caller.stream(wire.GET_OBJECT, names, query=query) as (headers, pieces):
                if headers.get("lakebed-version-id") != self.info.version_id:
                    raise self._replaced()
                for piece in pieces:
                    left -= len(piece)
                    yield memoryview(piece)
        except (BadRange, MethodNotAllowed):  # the new null version is shorter, or a delete marker
            raise self._replaced() from None
        if left:
            raise Unreachable(
                f"{self.info.key}: the response ended {left} bytes early; read the object again"
            )

    def between(self, start: int, end: int) -> RemoteObject:
        """Returns the byte range `[start, end)` of the same version, to be read in the same way.
        The positions count from the start of the whole object."""
        return RemoteObject(self._caller, self.info, start=start, end=end)

    def read(self) -> bytes:
        """Returns all bytes of this object or range."""
        return b"".join(self)

    def _replaced(self) -> NoSuchVersion:
        return NoSuchVersion(
            f"{self.info.bucket}/{shown(self.info.key)}: this version was replaced after it was "
            "opened; open the object again"
        )


class RemoteBucket:
    """A bucket of a remote store. Thread-safe.

    All calls to the server raise `NoSuchBucket` if the bucket does not exist.
    """

    def __init__(self, caller: Caller, name: str) -> None:
        self._caller = caller
        self.name = name
        self._names = {"bucket": name}

    @property
    def info(self) -> BucketInfo:
        return self._caller.call(wire.DESCRIBE_BUCKET, self._names)

    def set_versioning(self, versioning: Versioning) -> BucketInfo:
        body = wire.SetVersioning(versioning=versioning)
        return self._caller.call(wire.SET_VERSIONING, self._names, body=body)

    def get(
        self, key: str, *, version_id: str | None = None, byte_range: ByteRange | None = None
    ) -> RemoteObject:
        """Opens the current version of an object, or version `version_id`. Iterating over the
        result yields the bytes in pieces; with `byte_range`, only those of the range."""
        info = self.head(key, version_id=version_id)
        start, end = (0, info.size) if byte_range is None else byte_range.resolve(info.size)
        return RemoteObject(self._caller, info, start=start, end=end)

    def read(self, key: str, *, version_id: str | None = None) -> bytes:
        """Returns all bytes of the current version of an object, or of version `version_id`."""
        query = wire.GetQuery(version_id=version_id)
        with self._caller.stream(wire.GET_OBJECT, self._of(key), query=query) as (_, pieces):
            return b"".join(pieces)

    def head(self, key: str, *, version_id: str | None = None) -> ObjectInfo:
        query = wire.VersionQuery(version_id=version_id)
        return self._caller.call(wire.DESCRIBE_OBJECT, self._of(key), query=query)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[VersionRow]:
        """Iterates over the objects whose keys begin with `prefix` and sort after `after`, in key
        order."""
        return self._later_pages(prefix, self.list_page(prefix, after=after))

    def list_page(
        self, prefix: str = "", *, delimiter: str = "", after: str = "", max_keys: int = 1000
    ) -> Page[VersionRow]:
        """Lists one page of objects and common prefixes that sort after `after`: up to `max_keys`
        of both together.

        A common prefix is the part of a key up to the first `delimiter` after `prefix`; the keys
        that share it are not listed themselves. A `max_keys` above 1,000 counts as 1,000.
        """
        count_max = min(max_keys, wire.KEYS_MAX)
        query = wire.ListQuery(prefix=prefix, delimiter=delimiter, after=after, max_keys=count_max)
        return self._caller.call(wire.LIST_OBJECTS, self._names, query=query)

    def put(
        self,
        key: str,
        source: Source,
        *,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
        content: Content | None = None,
        if_match: str | None = None,
        if_none_match: str | None = None,
        algorithm: Algorithm | None = None,
    ) -> ObjectInfo:
        """Stores an object from bytes, a file or an iterable of bytes, of any size, with bounded
        memory.

        With `if_none_match="*"`, stores the object only if the key has no object yet; with
        `if_match=etag`, only if it replaces the object with that ETag. If the condition is not met,
        raises `PreconditionFailed`; with `if_match`, raises `NoSuchKey` if the key has no object.
        If `content` is given, `content_type` and `metadata` are ignored.
        """
        if content is None:
            content = Content(content_type=content_type, metadata=dict(metadata or {}))
        query = wire.PutQuery(
            content_type=content.content_type,
            metadata=_metadata_text(content.metadata),
            cache_control=content.cache_control,
            content_disposition=content.content_disposition,
            content_encoding=content.content_encoding,
            content_language=content.content_language,
            expires=content.expires,
            if_match=if_match,
            if_none_match=if_none_match,
            algorithm=None if algorithm is None else algorithm.value,
        )
        return self._caller.send(wire.PUT_OBJECT, self._of(key), query=query, body=_body_of(source))

    def delete(
        self, key: str, *, version_id: str | None = None, if_match: str | None = None
    ) -> Deleted:
        """Hides an object with a delete marker; with `version_id`, permanently removes that version
        instead.

        In a bucket whose versioning was never enabled, the object itself is removed. `if_match` is
        a condition on the current object, as in `put`.
        """
        query = wire.DeleteQuery(version_id=version_id, if_match=if_match)
        return self._caller.call(wire.DELETE_OBJECT, self._of(key), query=query)

    def delete_many(
        self, keys: Iterable[str | ObjectToDelete]
    ) -> builtins.list[Deleted | LakebedError]:
        """Deletes any number of objects, each independently of the others. Returns the result or
        the error for each, in the order of `keys`."""
        objects = [key if isinstance(key, ObjectToDelete) else ObjectToDelete(key) for key in keys]
        if any(target.condition.if_none_match is not None for target in objects):
            raise InputError(
                "delete_many: if_none_match is not allowed: it is a condition for writing an object"
            )
        results: list[Deleted | LakebedError] = []
        for start in range(0, len(objects), DELETED_AT_ONCE_MAX):
            results += self._delete_some(objects[start : start + DELETED_AT_ONCE_MAX])
        return results

    def _delete_some(
        self, objects: builtins.list[ObjectToDelete]
    ) -> builtins.list[Deleted | LakebedError]:
        deletions = [
            wire.ObjectDeletion(target.key, target.version_id, target.condition.if_match)
            for target in objects
        ]
        body = wire.DeleteMany(objects=deletions)
        outcomes = self._caller.call(wire.DELETE_OBJECTS, self._names, body=body).outcomes
        return [
            outcome.deleted or error_of(outcome.problem or {})
            for _, outcome in zip(objects, outcomes, strict=True)
        ]

    def copy(
        self,
        key: str,
        target: str,
        *,
        bucket: str | None = None,
        version_id: str | None = None,
        content: Content | None = None,
        if_match: str | None = None,
        if_none_match: str | None = None,
    ) -> ObjectInfo:
        """Copies an object to the key `target` of `bucket`, by default of the same bucket. The copy
        shares the stored bytes of the original.

        By default the current version is copied; `version_id` names another. `content` replaces the
        headers and metadata of the original, which are copied by default. `if_match` and
        `if_none_match` are conditions on the target, as in `put`.
        """
        body = wire.CopyObject(
            target=target,
            bucket=bucket,
            version_id=version_id,
            content=content,
            if_match=if_match,
            if_none_match=if_none_match,
        )
        return self._caller.call(wire.COPY_OBJECT, self._of(key), body=body)

    def version_page(
        self,
        prefix: str = "",
        *,
        delimiter: str = "",
        key_marker: str = "",
        version_id_marker: str | None = None,
        max_keys: int = 1000,
    ) -> Page[ListedVersion]:
        """Lists one page of versions, delete markers and common prefixes.

        The page begins after `key_marker` and `version_id_marker`, which are the `next_marker` and
        `next_id` of the previous page. By default, returns the first page. A `max_keys` above 1,000
        counts as 1,000.
        """
        query = wire.VersionsQuery(
            prefix=prefix,
            delimiter=delimiter,
            key_marker=key_marker,
            version_id_marker=version_id_marker,
            max_keys=min(max_keys, wire.KEYS_MAX),
        )
        return self._caller.call(wire.LIST_VERSIONS, self._names, query=query)

    def versions(self, prefix: str = "") -> Iterator[ListedVersion]:
        """Iterates over all versions and delete markers of the keys that begin with `prefix`:
        sorted by key, and for each key newest first."""
        stored = RemoteStoredObjects(self._caller)
        after, hlc, site_id = "", None, ""
        while True:
            page = stored.versions(self.name, prefix=prefix, after=after, hlc=hlc, site_id=site_id)
            for version in page.versions:
                yield ListedVersion(version.row, version.is_latest)
            if not page.has_more:
                return
            last = page.versions[-1].row
            after, hlc, site_id = last.key, last.hlc, last.site_id

    def _later_pages(self, prefix: str, page: Page[VersionRow]) -> Iterator[VersionRow]:
        while True:
            yield from page.items
            if page.next_marker is None:
                return
            page = self.list_page(prefix, after=page.next_marker)

    def _of(self, key: str) -> dict[str, str]:
        return {**self._names, "key": key}


def _metadata_text(metadata: Mapping[str, str]) -> str | None:
    return media.encode(dict(metadata), media.JSON).decode() if metadata else None


def _body_of(source: Source) -> Body:
    """Returns the body to send: `Pieces` for a file or iterable of more than `HELD_BYTES_MAX`
    bytes, otherwise bytes.

    Bytes can be sent again if the server was not ready; `Pieces` cannot once they are partly read.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return memoryview(source).cast("B")
    pieces = pieces_of(source)
    held, size = [], 0
    for piece in pieces:
        held.append(bytes(piece))
        size += len(piece)
        if size > HELD_BYTES_MAX:
            return Pieces(itertools.chain(held, pieces))
    return b"".join(held)
