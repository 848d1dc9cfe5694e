"""A bucket of a store that is open read-only.

photos = store.bucket("photos")
photos.read("2025/city.jpg")
for item in photos.list(prefix="2025/"):
    print(item.key, item.size)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from lakebed.seglake.listing import ListedVersion
from lakebed.seglake.meta.rows import VersionRow
from lakebed.seglake.model import BucketInfo, ObjectInfo, Page
from lakebed.seglake.object_reader import ObjectReader, ReadableObjects
from lakebed.seglake.ranges import ByteRange


class _Buckets(Protocol):
    def get(self, name: str) -> BucketInfo: ...


class ReadableLake(Protocol):
    """The methods of an object store that reading needs, open for writing or read-only."""

    @property
    def buckets(self) -> _Buckets: ...

    @property
    def objects(self) -> ReadableObjects: ...


class ReadOnlyBucket:
    """A bucket that is open for reading only. Thread-safe."""

    def __init__(self, lake: ReadableLake, name: str) -> None:
        self.name = name
        self._readable = lake

    @property
    def info(self) -> BucketInfo:
        return self._readable.buckets.get(self.name)

    def get(
        self, key: str, *, version_id: str | None = None, byte_range: ByteRange | None = None
    ) -> ObjectReader:
        """Open an object to read it in pieces: `for piece in bucket.get(key): …`."""
        return self._readable.objects.get(
            self.name, key, version_id=version_id, byte_range=byte_range
        )

    def read(self, key: str, *, version_id: str | None = None) -> bytes:
        """Return all bytes of an object, which must fit in memory."""
        return self.get(key, version_id=version_id).read()

    def head(self, key: str, *, version_id: str | None = None) -> ObjectInfo:
        return self._readable.objects.head(self.name, key, version_id=version_id)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[VersionRow]:
        """List the objects whose keys begin with `prefix`, in order of their keys.

        With `after`, only keys after that one. Pages are read as they are needed.
        """

        def page(marker: str) -> Page[VersionRow]:
            return self._readable.objects.list(self.name, prefix=prefix, after=marker)

        return _items(page, after)

    def list_page(
        self, prefix: str = "", *, delimiter: str = "", after: str = "", max_keys: int = 1000
    ) -> Page[VersionRow]:
        """Return one page of a listing: objects, and common prefixes up to the delimiter."""
        return self._readable.objects.list(
            self.name, prefix=prefix, delimiter=delimiter, after=after, max_keys=max_keys
        )

    def version_page(
        self,
        prefix: str = "",
        *,
        delimiter: str = "",
        key_marker: str = "",
        version_id_marker: str | None = None,
        max_keys: int = 1000,
    ) -> Page[ListedVersion]:
        """Return one page of all versions and delete markers, and common prefixes.

        `key_marker` and `version_id_marker` are those that the previous page returned.
        """
        return self._readable.objects.list_versions(
            self.name,
            prefix=prefix,
            delimiter=delimiter,
            key_marker=key_marker,
            version_id_marker=version_id_marker,
            max_keys=max_keys,
        )

    def versions(self, prefix: str = "") -> Iterator[ListedVersion]:
        """List all versions and delete markers in order of their keys, newest first for each."""
        key_marker: str | None = ""
        version_id_marker: str | None = None
        while key_marker is not None:
            page = self.version_page(
                prefix, key_marker=key_marker, version_id_marker=version_id_marker
            )
            yield from page.items
            key_marker, version_id_marker = page.next_marker, page.next_id


def _items(
    page_after: Callable[[str], Page[VersionRow]], after: str | None
) -> Iterator[VersionRow]:
    while after is not None:
        page = page_after(after)
        yield from page.items
        after = page.next_marker
