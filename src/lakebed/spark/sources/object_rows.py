"""Rows of the object store's metadata in pages, each read in a short transaction of its own.

A page is what was committed at one time; between two pages the writer goes on, and what it changes
is seen or not. No key or version that is there all the while is left out or told twice. So a long
read never keeps the write-ahead log from being carried over.

How the keys are spread is found from a sample of the operation log, a few hundred look-ups,
however large the store is. Nothing but the balance of tasks depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import NamedTuple

from lakebed.base.errors import Corrupt, DataError
from lakebed.client.bucket import RemoteBucket
from lakebed.seglake.manifest import Manifest, decode
from lakebed.seglake.meta.reader import Reader, key_bytes
from lakebed.seglake.meta.rows import PartRow, PendingManifest, UploadRow, VersionRow
from lakebed.seglake.meta.snapshots import Snapshots
from lakebed.seglake.model import State
from lakebed.seglake.upload_rows import part_manifest
from lakebed.spark.sources.object_ranges import KeyRange, Place, listing_of

ROWS_PAGE = 10_000
MANIFESTS_PAGE = 500
PARTS_PAGE = 100
SAMPLES_MAX = 512
_SEQUENCE_MAX = 1 << 62


class Listed(NamedTuple):
    """A version, as a listing tells it."""

    row: VersionRow
    is_latest: bool


class Stored(NamedTuple):
    """A version and its manifest, or why there is none that can be read."""

    listed: Listed
    pending: PendingManifest | None
    manifest: Manifest | None
    problem: str | None


class StoredPart(NamedTuple):
    """A part of an upload that is under way, likewise."""

    upload: UploadRow
    part: PartRow
    manifest: Manifest | None
    problem: str | None


class Sample(NamedTuple):
    keys: list[Place]
    row_count: int  # of all rows, about


def object_pages(
    metadata: Snapshots, one: KeyRange, *, rows_max: int = ROWS_PAGE
) -> Iterator[list[VersionRow]]:
    """The newest versions, by key; delete markers are none."""
    start = one.start
    while True:
        with metadata.reading() as reader:
            rows = list(islice(reader.current_from(one.bucket, start=start, end=one.end), rows_max))
        if rows:
            yield rows
            start = key_bytes(rows[-1].key) + b"\0"
        if len(rows) < rows_max:
            return


def version_pages(
    metadata: Snapshots, one: KeyRange, *, rows_max: int = ROWS_PAGE
) -> Iterator[list[Listed]]:
    """All versions and delete markers, by key and then the newest first."""
    last = None
    while True:
        with metadata.reading() as reader:
            page = _versions_behind(reader, one, last, rows_max)
        if page:
            yield page
            last = page[-1].row
        if len(page) < rows_max:
            return


def manifest_pages(
    metadata: Snapshots, one: KeyRange, *, rows_max: int = MANIFESTS_PAGE
) -> Iterator[list[Stored]]:
    """As `version_pages`, each with its manifest of the same time; decoded after the reading."""
    last = None
    while True:
        with metadata.reading() as reader:
            page = _versions_behind(reader, one, last, rows_max)
            found = [(each, reader.manifest_file(each.row.version_id)) for each in page]
        if page:
            yield [_stored(each, pending) for each, pending in found]
            last = page[-1].row
        if len(page) < rows_max:
            return


def part_pages(
    metadata: Snapshots, one: KeyRange, *, uploads_max: int = ROWS_PAGE
) -> Iterator[list[StoredPart]]:
    """The parts of uploads under way to these keys."""
    last: UploadRow | None = None
    while True:
        with metadata.reading() as reader:
            uploads = _uploads_behind(reader, one, last, uploads_max)
        for upload in uploads:
            yield from _parts(metadata, upload)
            last = upload
        if len(uploads) < uploads_max:
            return


def remote_pages(bucket: RemoteBucket, one: KeyRange) -> Iterator[list[VersionRow]]:
    """As `object_pages`, over the HTTP API, which has its own pages."""
    prefix, after = listing_of(one)
    while True:
        page = bucket.list_page(prefix, after=after)
        rows = [row for row in page.items if one.start <= key_bytes(row.key) < one.end]
        if rows:
            yield rows
        is_past = bool(page.items) and key_bytes(page.items[-1].key) >= one.end
        if page.next_marker is None or is_past:
            return
        after = page.next_marker


def sampled(reader: Reader, *, only_current: bool, count_max: int = SAMPLES_MAX) -> Sample:
    """Keys, as often as they have versions (or once, if they have an object), and how many rows."""
    oldest = reader.oplog(limit=1)
    if not oldest:
        return Sample([], 0)
    first, last = oldest[0].sequence, _last_sequence(reader)
    total = last - first + 1
    count = min(total, count_max)
    keys = []
    for number in range(count):
        found = reader.oplog(after=first + total * number // count - 1, limit=1)
        if found and _is_there(reader, found[0].bucket, found[0].key, found[0].version_id,
                               only_current):  # fmt: skip
            keys.append(Place(found[0].bucket, key_bytes(found[0].key)))
    return Sample(sorted(keys), total * len(keys) // count)


def _is_there(reader: Reader, bucket: str, key: str, version_id: str, only_current: bool) -> bool:
    if not key or not version_id:
        return False  # about a bucket
    if only_current:
        current = reader.current(bucket, key)
        if current is None or current.state is State.DELETED:
            return False
        return current.version_id == version_id
    return reader.version(bucket, key, version_id) is not None


def _last_sequence(reader: Reader) -> int:
    """Found by halving: a look-up behind the last one finds nothing."""
    low, high = 0, 1
    while high < _SEQUENCE_MAX and reader.oplog(after=high, limit=1):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        if reader.oplog(after=middle, limit=1):
            low = middle
        else:
            high = middle
    return high


def _versions_behind(
    reader: Reader, one: KeyRange, last: VersionRow | None, rows_max: int
) -> list[Listed]:
    """`last` was told; it may have been removed since."""
    older: Iterable[VersionRow] = ()
    start, key = one.start, None
    if last is not None:
        older = reader.versions_older(last)
        start, key = key_bytes(last.key) + b"\0", last.key
    rows = chain(older, reader.versions_from(one.bucket, start=start, end=one.end))
    page = []
    for row in islice(rows, rows_max):
        page.append(Listed(row, is_latest=row.key != key))
        key = row.key
    return page


def _uploads_behind(
    reader: Reader, one: KeyRange, last: UploadRow | None, uploads_max: int
) -> list[UploadRow]:
    rest: Iterable[UploadRow] = ()
    start = one.start
    if last is not None:
        rest = reader.uploads_after(one.bucket, last.key, upload_id=last.upload_id)
        start = key_bytes(last.key) + b"\0"
    uploads = chain(rest, reader.uploads_from(one.bucket, start=start, end=one.end))
    return list(islice(uploads, uploads_max))


def _parts(metadata: Snapshots, upload: UploadRow) -> Iterator[list[StoredPart]]:
    after = 0
    while True:
        with metadata.reading() as reader:
            parts = reader.parts(upload.upload_id, after=after, limit=PARTS_PAGE)
        if not parts:
            return
        yield [_stored_part(upload, part) for part in parts]
        after = parts[-1].number


def _stored(listed: Listed, pending: PendingManifest | None) -> Stored:
    try:
        if pending is None or pending.data is None:
            raise Corrupt("it has no manifest")
        manifest = decode(pending.data, path="its manifest in the metadata")
    except DataError as error:
        return Stored(listed, pending, None, str(error))
    return Stored(listed, pending, manifest, None)


def _stored_part(upload: UploadRow, part: PartRow) -> StoredPart:
    try:
        return StoredPart(upload, part, part_manifest(part), None)
    except DataError as error:
        return StoredPart(upload, part, None, str(error))
