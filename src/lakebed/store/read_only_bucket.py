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
    """The parts of an object store that reading needs, whether it is read-only or not."""

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
        """Open an object to read it in pieces: `for piece in bucket.get(key): …`.

        Reads its newest version, or version `version_id`. With `byte_range`, only those bytes.
        """
        return self._readable.objects.get(
            self.name, key, version_id=version_id, byte_range=byte_range
        )

    def read(self, key: str, *, version_id: str | None = None) -> bytes:
        """Return all bytes of an object, which must fit in memory.

        Reads its newest version, or version `version_id`.
        """
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
        """Return one page of the objects and common prefixes after `after`, sorted, as in S3.

        A common prefix is the part of a key up to the first `delimiter` after `prefix`; the keys
        that share it are not listed themselves. A page has at most `max_keys` entries, and never
        more than 1000.
        """
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
        """Return one page of versions, delete markers and common prefixes.

        `key_marker` and `version_id_marker` are `next_marker` and `next_id` of the previous page;
        without them, the first page is returned. If the setting `spec_version_listing` is true, the
        page of a bucket without versioning is empty.
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
        """List the versions and delete markers of all keys that begin with `prefix`.

        They are in order of their keys; those of one key are in order from the newest. If the
        setting `spec_version_listing` is true, nothing is listed for a bucket without versioning.
        """
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
