"""Reads rows of the object store's metadata in pages, each in a short transaction of its own.

A page shows one committed state. Changes that the writer makes between pages may or may not be
seen. A key or version that exists during the whole read is returned exactly once. Because no
transaction is long, a read never blocks the checkpoint of the write-ahead log.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from lakebed.base.errors import Corrupt, DataError
from lakebed.seglake.listing import ListedVersion
from lakebed.seglake.manifest import Manifest, decode
from lakebed.seglake.meta.reader import key_bytes
from lakebed.seglake.meta.rows import VersionRow
from lakebed.seglake.meta.snapshots import Snapshots
from lakebed.seglake.stored_pages import KeyRange, parts_after, versions_after, with_manifest
from lakebed.seglake.stored_rows import ListedPart, StoredVersion, VersionPlace
from lakebed.seglake.upload_rows import part_manifest

ROWS_PAGE = 10_000
MANIFESTS_PAGE = 500
PARTS_PAGE = 100


class Stored(NamedTuple):
    """A version of an object with its decoded manifest, or the reason why the manifest cannot be
    read.
    """

    version: StoredVersion
    manifest: Manifest | None
    problem: str | None


class StoredPart(NamedTuple):
    """A part of an unfinished upload with its decoded manifest, or the reason why the manifest
    cannot be read.
    """

    bucket: str
    listed: ListedPart
    manifest: Manifest | None
    problem: str | None


def object_pages(
    metadata: Snapshots, keys: KeyRange, *, rows_max: int = ROWS_PAGE
) -> Iterator[list[VersionRow]]:
    """Yields the newest versions of the keys in this range, sorted by key, in pages.

    Keys whose newest version is a delete marker are left out.
    """
    start = keys.start
    while True:
        with metadata.snapshot() as reader:
            rows = list(
                islice(reader.current_from(keys.bucket, start=start, end=keys.end), rows_max)
            )
        if rows:
            yield rows
            start = key_bytes(rows[-1].key) + b"\0"
        if len(rows) < rows_max:
            return


def version_pages(
    metadata: Snapshots, keys: KeyRange, *, rows_max: int = ROWS_PAGE
) -> Iterator[list[ListedVersion]]:
    """Yields all versions and delete markers of the keys in this range, in pages.

    They are sorted by key, and the versions of a key from new to old.
    """
    last = None
    while True:
        with metadata.snapshot() as reader:
            page = versions_after(reader, keys, last, count_max=rows_max)
        if page:
            yield page
            last = place_of(page[-1])
        if len(page) < rows_max:
            return


def manifest_pages(
    metadata: Snapshots, keys: KeyRange, *, rows_max: int = MANIFESTS_PAGE
) -> Iterator[list[Stored]]:
    """Yields the same versions as `version_pages`, with their decoded manifests.

    A manifest is read in the same transaction as its version, and decoded after the transaction.
    """
    last = None
    while True:
        with metadata.snapshot() as reader:
            page = versions_after(reader, keys, last, count_max=rows_max)
            versions = [with_manifest(reader, version) for version in page]
        if page:
            yield [stored(version) for version in versions]
            last = place_of(page[-1])
        if len(page) < rows_max:
            return


def part_pages(
    metadata: Snapshots, keys: KeyRange, *, rows_max: int = PARTS_PAGE
) -> Iterator[list[StoredPart]]:
    """Yields the parts of unfinished uploads to the keys in this range, in pages."""
    last = None
    while True:
        with metadata.snapshot() as reader:
            page = parts_after(reader, keys, last, count_max=rows_max)
        if page.parts:
            yield [stored_part(keys.bucket, part) for part in page.parts]
        last = page.next
        if last is None:
            return


def place_of(listed: ListedVersion) -> VersionPlace:
    row = listed.row
    return VersionPlace(row.key, row.hlc, row.site_id)


def stored(version: StoredVersion) -> Stored:
    try:
        if version.manifest is None:
            raise Corrupt("the version of the object has no manifest")
        manifest = decode(version.manifest, path="the manifest in the metadata")
    except DataError as error:
        return Stored(version, None, str(error))
    return Stored(version, manifest, None)


def stored_part(bucket: str, listed: ListedPart) -> StoredPart:
    try:
        return StoredPart(bucket, listed, part_manifest(listed.row), None)
    except DataError as error:
        return StoredPart(bucket, listed, None, str(error))
