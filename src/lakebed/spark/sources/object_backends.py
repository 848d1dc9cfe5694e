"""Reads the metadata of the object store, from the files or through the HTTP API.

Both ways return the same rows, in pages. Manifests are decoded by the reader, not by the server.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from secrets import randbits
from typing import Protocol

from lakebed.api.objects import LIST_BUCKETS
from lakebed.base.runner import ThreadRunner
from lakebed.client.address import address_of
from lakebed.client.caller import ANSWER_S, Caller
from lakebed.client.retry_schedule import RETRY_S
from lakebed.client.stored_objects import RemoteStoredObjects
from lakebed.seglake.listing import ListedVersion
from lakebed.seglake.meta.reader import key_bytes
from lakebed.seglake.meta.rows import VersionRow
from lakebed.seglake.model import BucketInfo
from lakebed.seglake.stored_pages import KeyRange, StoredObjects
from lakebed.seglake.stored_rows import VERSIONS_MAX, KeySample, PartPlace, StoredVersions
from lakebed.spark.backends import Backend
from lakebed.spark.sources.object_ranges import KeyPlace, cut, listing_of
from lakebed.spark.sources.object_rows import (
    MANIFESTS_PAGE,
    PARTS_PAGE,
    Stored,
    StoredPart,
    manifest_pages,
    object_pages,
    part_pages,
    stored,
    stored_part,
    version_pages,
)
from lakebed.store.read_only import ReadOnlyStore

VERSIONS_PAGE = VERSIONS_MAX

_PARTITIONS_MAX = 64


class ObjectBackend(Protocol):
    """The interface through which queries read the metadata of the object store."""

    def buckets(self) -> list[BucketInfo]: ...

    def split(
        self, ranges: list[KeyRange], *, only_current: bool, rows_max: int
    ) -> list[list[KeyRange]]:
        """Divides the ranges of keys, in order, into parts of about `rows_max` rows, one per task.

        There are at most 64 parts, so the parts of a large store are larger. `only_current` means
        that only the newest versions count as rows.
        """

    def objects(self, keys: KeyRange) -> Iterator[list[VersionRow]]: ...

    def versions(self, keys: KeyRange) -> Iterator[list[ListedVersion]]: ...

    def manifests(self, keys: KeyRange) -> Iterator[list[Stored]]: ...

    def parts(self, keys: KeyRange) -> Iterator[list[StoredPart]]: ...


@contextmanager
def open_objects(backend: Backend) -> Iterator[ObjectBackend]:
    if backend.path:
        with ReadOnlyStore(backend.path) as store:
            yield FilesObjects(store)
        return
    address = address_of(
        backend.endpoint,
        access_key=backend.access_key or None,
        secret_key=backend.secret_key or None,
        ca_file=backend.ca_file or None,
    )
    with ThreadRunner() as runner:
        random = Random(randbits(64))
        caller = Caller(address, runner=runner, random=random, retry_s=RETRY_S, answer_s=ANSWER_S)
        try:
            yield EndpointObjects(caller)
        finally:
            caller.close()


class FilesObjects:
    """Reads the metadata of the object store from the files; implements `ObjectBackend`."""

    def __init__(self, store: ReadOnlyStore) -> None:
        self._store = store
        self._metadata = store.lake.metadata

    def buckets(self) -> list[BucketInfo]:
        return self._store.buckets()

    def split(
        self, ranges: list[KeyRange], *, only_current: bool, rows_max: int
    ) -> list[list[KeyRange]]:
        sample = StoredObjects(self._metadata).sample(only_current=only_current)
        return _split(ranges, sample, rows_max=rows_max)

    def objects(self, keys: KeyRange) -> Iterator[list[VersionRow]]:
        return object_pages(self._metadata, keys)

    def versions(self, keys: KeyRange) -> Iterator[list[ListedVersion]]:
        return version_pages(self._metadata, keys)

    def manifests(self, keys: KeyRange) -> Iterator[list[Stored]]:
        return manifest_pages(self._metadata, keys)

    def parts(self, keys: KeyRange) -> Iterator[list[StoredPart]]:
        return part_pages(self._metadata, keys)


class EndpointObjects:
    """Reads the metadata of the object store over the HTTP API; implements `ObjectBackend`.

    Never creates a bucket. The API lists keys by prefix and marker, so a page may have keys outside
    the range; these are dropped.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._stored = RemoteStoredObjects(caller)

    def buckets(self) -> list[BucketInfo]:
        return self._caller.call(LIST_BUCKETS).buckets

    def split(
        self, ranges: list[KeyRange], *, only_current: bool, rows_max: int
    ) -> list[list[KeyRange]]:
        sample = self._stored.sample(only_current=only_current)
        return _split(ranges, sample, rows_max=rows_max)

    def objects(self, keys: KeyRange) -> Iterator[list[VersionRow]]:
        for page in self._version_pages(keys, only_current=True):
            if rows := [version.row for version in page.versions if _is_in(version.row.key, keys)]:
                yield rows

    def versions(self, keys: KeyRange) -> Iterator[list[ListedVersion]]:
        for page in self._version_pages(keys):
            listed = [version for version in page.versions if _is_in(version.row.key, keys)]
            if listed:
                yield [ListedVersion(version.row, version.is_latest) for version in listed]

    def manifests(self, keys: KeyRange) -> Iterator[list[Stored]]:
        for page in self._version_pages(keys, manifests=True):
            if versions := [
                stored(version) for version in page.versions if _is_in(version.row.key, keys)
            ]:
                yield versions

    def parts(self, keys: KeyRange) -> Iterator[list[StoredPart]]:
        prefix, after = listing_of(keys)
        place: PartPlace | None = None
        while True:
            page = self._stored.parts(
                keys.bucket,
                prefix=prefix,
                after=after if place is None else place.key,
                upload_id=None if place is None else place.upload_id,
                part=0 if place is None else place.number,
                max_parts=PARTS_PAGE,
            )
            parts = [part for part in page.parts if _is_in(part.key, keys)]
            if parts:
                yield [stored_part(keys.bucket, part) for part in parts]
            place = page.next
            if place is None or key_bytes(place.key) >= keys.end:
                return

    def _version_pages(
        self, keys: KeyRange, *, manifests: bool = False, only_current: bool = False
    ) -> Iterator[StoredVersions]:
        prefix, after = listing_of(keys)
        count_max = MANIFESTS_PAGE if manifests else VERSIONS_PAGE
        hlc, site_id = None, ""
        while True:
            page = self._stored.versions(
                keys.bucket,
                prefix=prefix,
                after=after,
                hlc=hlc,
                site_id=site_id,
                max_versions=count_max,
                manifests=manifests,
                only_current=only_current,
            )
            yield page
            if not page.has_more or key_bytes(page.versions[-1].row.key) >= keys.end:
                return
            last = page.versions[-1].row
            after, hlc, site_id = last.key, last.hlc, last.site_id


def _split(ranges: list[KeyRange], sample: KeySample, *, rows_max: int) -> list[list[KeyRange]]:
    part_count = -(-sample.row_count // rows_max)
    places = [KeyPlace(sampled.bucket, key_bytes(sampled.key)) for sampled in sample.keys]
    return cut(ranges, places, max(1, min(part_count, _PARTITIONS_MAX)))


def _is_in(key: str, keys: KeyRange) -> bool:
    return keys.start <= key_bytes(key) < keys.end
