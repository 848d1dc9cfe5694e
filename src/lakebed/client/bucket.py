"""A bucket of a store that another process has open: as `lakebed.store.bucket.Bucket`.

Objects are sent and received in pieces, of any size. What the server verified before it sent it is
not verified again here: on the way TCP and TLS are trusted. A reader that is not done when its
object is replaced in a bucket without versions gets `Busy`, and no mixture of both.
"""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Iterable, Iterator, Mapping

from lakebed.api import media
from lakebed.api import objects as wire
from lakebed.api.problems import Unreachable, error_of
from lakebed.base.errors import Busy, InputError, LakebedError
from lakebed.base.units import MIB
from lakebed.client.caller import Caller
from lakebed.client.connection import Body, Pieces
from lakebed.seglake.body import Source, pieces_of
from lakebed.seglake.meta.rows import VersionRow
from lakebed.seglake.model import (
    Algorithm,
    BucketInfo,
    Checksum,
    Content,
    Deleted,
    ObjectInfo,
    ObjectToDelete,
    Page,
    State,
    Versioning,
)
from lakebed.seglake.objects import DELETED_AT_ONCE_MAX
from lakebed.seglake.ranges import ByteRange

HELD_BYTES_MAX = 1 * MIB  # of a body that can be sent again


class RemoteObject:
    """Some bytes of a version, to be iterated once or more: as `seglake.reading.ObjectReader`."""

    def __init__(
        self, caller: Caller, info: ObjectInfo, *, version_id: str | None, start: int, end: int
    ) -> None:
        self.info = info
        self.start = start
        self.end = end
        self._caller = caller
        self._version_id = version_id  # as it was asked for

    def __len__(self) -> int:
        return self.end - self.start

    def __iter__(self) -> Iterator[memoryview]:
        if self.start >= self.end:
            return
        names = {"bucket": self.info.bucket, "key": self.info.key}
        query = wire.GetQuery(version_id=self._version_id, first=self.start, last=self.end - 1)
        left = len(self)
        with self._caller.stream(wire.GET_OBJECT, names, query=query) as (headers, pieces):
            if headers.get("lakebed-version-id") != self.info.version_id:
                raise Busy(f"{self.info.key}: it was replaced before it was read; read it again")
            for piece in pieces:
                left -= len(piece)
                yield memoryview(piece)
        if left:
            raise Unreachable(f"{self.info.key}: {left} bytes of it did not come")

    def between(self, start: int, end: int) -> RemoteObject:
        """Other bytes of the same version."""
        return RemoteObject(
            self._caller, self.info, version_id=self._version_id, start=start, end=end
        )

    def read(self) -> bytes:
        """All of it."""
        return b"".join(self)


class RemoteBucket:
    """Thread-safe. `NoSuchBucket` comes from whatever is asked of a bucket that is not there."""

    def __init__(self, caller: Caller, name: str) -> None:
        self._caller = caller
        self.name = name
        self._names = {"bucket": name}

    @property
    def info(self) -> BucketInfo:
        return bucket_info_of(self._caller.call(wire.DESCRIBE_BUCKET, self._names))

    def set_versioning(self, versioning: Versioning) -> BucketInfo:
        body = wire.SetVersioning(versioning=versioning.value)
        return bucket_info_of(self._caller.call(wire.SET_VERSIONING, self._names, body=body))

    def get(
        self, key: str, *, version_id: str | None = None, byte_range: ByteRange | None = None
    ) -> RemoteObject:
        """The object, to be read in pieces: `for piece in bucket.get(key): …`."""
        info = self.head(key, version_id=version_id)
        start, end = (0, info.size) if byte_range is None else byte_range.resolve(info.size)
        return RemoteObject(self._caller, info, version_id=version_id, start=start, end=end)

    def read(self, key: str, *, version_id: str | None = None) -> bytes:
        """All of an object that fits in memory."""
        query = wire.GetQuery(version_id=version_id)
        with self._caller.stream(wire.GET_OBJECT, self._of(key), query=query) as (_, pieces):
            return b"".join(pieces)

    def head(self, key: str, *, version_id: str | None = None) -> ObjectInfo:
        query = wire.VersionQuery(version_id=version_id)
        return object_info_of(self._caller.call(wire.DESCRIBE_OBJECT, self._of(key), query=query))

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[VersionRow]:
        """Objects whose keys begin with `prefix`, by key; pages are fetched as they are needed."""
        return self._rest(prefix, self.list_page(prefix, after=after))

    def list_page(
        self, prefix: str = "", *, delimiter: str = "", after: str = "", max_keys: int = 1000
    ) -> Page[VersionRow]:
        """One page, with the common prefixes up to the delimiter; it has a thousand at most."""
        wanted = min(max_keys, wire.KEYS_MAX)
        query = wire.ListQuery(prefix=prefix, delimiter=delimiter, after=after, max_keys=wanted)
        page = self._caller.call(wire.LIST_OBJECTS, self._names, query=query)
        items = [self._row(one) for one in page.objects]
        return Page(items, page.prefixes, page.next_marker)

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
        """Store bytes, a file or an iterable of bytes, of any size; memory stays bounded.

        `if_none_match="*"` stores it only if there is none, `if_match=etag` only in place of that
        one: `PreconditionFailed` otherwise.
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
        state = self._caller.send(
            wire.PUT_OBJECT, self._of(key), query=query, body=_body_of(source)
        )
        return object_info_of(state)

    def delete(
        self, key: str, *, version_id: str | None = None, if_match: str | None = None
    ) -> Deleted:
        """Hide the object behind a delete marker, or remove the version that is given."""
        query = wire.DeleteQuery(version_id=version_id, if_match=if_match)
        state = self._caller.call(wire.DELETE_OBJECT, self._of(key), query=query)
        return Deleted(key, state.version_id, state.is_marker)

    def delete_many(
        self, keys: Iterable[str | ObjectToDelete]
    ) -> builtins.list[Deleted | LakebedError]:
        """Any number; each by itself, its error in its place."""
        doomed = [one if isinstance(one, ObjectToDelete) else ObjectToDelete(one) for one in keys]
        if any(one.condition.is_given for one in doomed):
            raise InputError("delete_many: conditions are for deletes one by one")
        results: list[Deleted | LakebedError] = []
        for start in range(0, len(doomed), DELETED_AT_ONCE_MAX):
            results += self._delete_some(doomed[start : start + DELETED_AT_ONCE_MAX])
        return results

    def _delete_some(
        self, doomed: builtins.list[ObjectToDelete]
    ) -> builtins.list[Deleted | LakebedError]:
        body = wire.DeleteMany(objects=[wire.WireDoomed(one.key, one.version_id) for one in doomed])
        found = self._caller.call(wire.DELETE_OBJECTS, self._names, body=body).outcomes
        return [
            Deleted(one.key, outcome.deleted.version_id, outcome.deleted.is_marker)
            if outcome.deleted is not None
            else error_of(outcome.problem or {})
            for one, outcome in zip(doomed, found, strict=True)
        ]

    def _rest(self, prefix: str, page: Page[VersionRow]) -> Iterator[VersionRow]:
        while True:
            yield from page.items
            if page.next_marker is None:
                return
            page = self.list_page(prefix, after=page.next_marker)

    def _row(self, one: wire.ListedObject) -> VersionRow:
        """What only the sites of a store tell one another is not told."""
        return VersionRow(
            version_id=one.version_id,
            bucket=self.name,
            key=one.key,
            state=State(one.state),
            is_null=one.is_null,
            etag=one.etag,
            size=one.size,
            content_type=one.content_type,
            modified_ms=one.modified_ms,
            hlc="",
            site_id="",
        )

    def _of(self, key: str) -> dict[str, str]:
        return {**self._names, "key": key}


def bucket_info_of(state: wire.BucketState) -> BucketInfo:
    return BucketInfo(
        name=state.name, created_ms=state.created_ms, versioning=Versioning(state.versioning)
    )


def object_info_of(state: wire.ObjectState) -> ObjectInfo:
    return ObjectInfo(
        bucket=state.bucket,
        key=state.key,
        version_id=state.version_id,
        is_null=state.is_null,
        is_latest=state.is_latest,
        state=State(state.state),
        etag=state.etag,
        size=state.size,
        modified_ms=state.modified_ms,
        content=Content(**state.content, metadata=state.metadata),
        checksums=tuple(
            Checksum(Algorithm(one.algorithm), one.value, one.is_composite)
            for one in state.checksums
        ),
        part_sizes=tuple(state.part_sizes),
    )


def _metadata_text(metadata: Mapping[str, str]) -> str | None:
    return media.encode(dict(metadata), media.JSON).decode() if metadata else None


def _body_of(source: Source) -> Body:
    """A short one as a whole, so that it can be sent again if the server was not ready."""
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
