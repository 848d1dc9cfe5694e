"""Rows of the object store's metadata in pages, each read in a short transaction of its own.

A page is what was committed at one time; between two pages the writer goes on, and what it changes
is seen or not. No key or version that is there all the while is left out or told twice. So a long
read never keeps the write-ahead log from being carried over.
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
    """A version and its manifest, or why there is none that can be read."""

    version: StoredVersion
    manifest: Manifest | None
    problem: str | None


class StoredPart(NamedTuple):
    """A part of an upload that is under way, likewise."""

    bucket: str
    listed: ListedPart
    manifest: Manifest | None
    problem: str | None


def object_pages(
    metadata: Snapshots, one: KeyRange, *, rows_max: int = ROWS_PAGE
) -> Iterator[list[VersionRow]]:
    """The newest versions, by key; delete markers are none."""
    start = one.start
    while True:
        with metadata.snapshot() as reader:
            rows = list(islice(reader.current_from(one.bucket, start=start, end=one.end), rows_max))
        if rows:
            yield rows
            start = key_bytes(rows[-1].key) + b"\0"
        if len(rows) < rows_max:
            return


def version_pages(
    metadata: Snapshots, one: KeyRange, *, rows_max: int = ROWS_PAGE
) -> Iterator[list[ListedVersion]]:
    """All versions and delete markers, by key and then the newest first."""
    last = None
    while True:
        with metadata.snapshot() as reader:
            page = versions_after(reader, one, last, count_max=rows_max)
        if page:
            yield page
            last = place_of(page[-1])
        if len(page) < rows_max:
            return


def manifest_pages(
    metadata: Snapshots, one: KeyRange, *, rows_max: int = MANIFESTS_PAGE
) -> Iterator[list[Stored]]:
    """As `version_pages`, each with its manifest of the same time; decoded after the reading."""
    last = None
    while True:
        with metadata.snapshot() as reader:
            page = versions_after(reader, one, last, count_max=rows_max)
            found = [with_manifest(reader, each) for each in page]
        if page:
            yield [stored(each) for each in found]
            last = place_of(page[-1])
        if len(page) < rows_max:
            return


def part_pages(
    metadata: Snapshots, one: KeyRange, *, rows_max: int = PARTS_PAGE
) -> Iterator[list[StoredPart]]:
    """The parts of uploads under way to these keys."""
    last = None
    while True:
        with metadata.snapshot() as reader:
            page = parts_after(reader, one, last, count_max=rows_max)
        if page.parts:
            yield [stored_part(one.bucket, each) for each in page.parts]
        last = page.next
        if last is None:
            return


def place_of(listed: ListedVersion) -> VersionPlace:
    row = listed.row
    return VersionPlace(row.key, row.hlc, row.site_id)


def stored(version: StoredVersion) -> Stored:
    try:
        if version.manifest is None:
            raise Corrupt("it has no manifest")
        manifest = decode(version.manifest, path="its manifest in the metadata")
    except DataError as error:
        return Stored(version, None, str(error))
    return Stored(version, manifest, None)


def stored_part(bucket: str, listed: ListedPart) -> StoredPart:
    try:
        return StoredPart(bucket, listed, part_manifest(listed.row), None)
    except DataError as error:
        return StoredPart(bucket, listed, None, str(error))
