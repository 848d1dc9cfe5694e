"""Pages of all that a bucket has, versions and parts of uploads, for who reads the whole of it.

A page goes on behind a place that was told, whether that is still there or not. So no version that
is there all the while is left out or told twice, whatever comes and goes between two pages. What a
page costs depends on its entries alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import NamedTuple

from lakebed.base.units import MIB
from lakebed.seglake.key_sample import sample_keys
from lakebed.seglake.listing import ListedVersion, key_range_after
from lakebed.seglake.meta.reader import Reader, key_bytes
from lakebed.seglake.meta.rows import UploadRow, VersionRow
from lakebed.seglake.meta.snapshots import Snapshots
from lakebed.seglake.stored_rows import (
    PARTS_MAX,
    VERSIONS_MAX,
    KeySample,
    ListedPart,
    PartPage,
    PartPlace,
    StoredVersion,
    StoredVersions,
    VersionPlace,
)
from lakebed.seglake.versions import require_bucket

MANIFEST_BYTES = 8 * MIB  # a page that has so many ends
UPLOADS_MAX = 1000  # looked at for one page: most have parts


class KeyRange(NamedTuple):
    """The keys `[start, end)` of a bucket, in the order of their bytes."""

    bucket: str
    start: bytes
    end: bytes


class StoredObjects:
    """Thread-safe. Pages of a bucket by prefix and marker, and how keys are spread over buckets."""

    def __init__(self, metadata: Snapshots) -> None:
        self._metadata = metadata

    def versions(
        self,
        bucket: str,
        *,
        prefix: str = "",
        after: str = "",
        hlc: str | None = None,
        site_id: str = "",
        max_versions: int = VERSIONS_MAX,
        manifests: bool = False,
        only_current: bool = False,
    ) -> StoredVersions:
        """Of keys that begin with `prefix` and are after `after`; with `hlc` and `site_id` also the
        versions of that key that are older than the one they name.

        `only_current`: of each key the newest, and no delete markers.
        """
        last = None
        if hlc is not None and after.startswith(prefix):
            last = VersionPlace(after, hlc, site_id)
        behind = current_after if only_current else versions_after
        with self._metadata.snapshot() as reader:
            require_bucket(reader, bucket)
            keys = KeyRange(bucket, *key_range_after(prefix, after))
            page = behind(reader, keys, last, count_max=max_versions + 1)
            listed = page[:max_versions]
            if manifests:
                versions = _with_manifests(reader, listed)
            else:
                versions = [StoredVersion(*version) for version in listed]
        return StoredVersions(versions, has_more=len(page) > len(versions))

    def parts(
        self,
        bucket: str,
        *,
        prefix: str = "",
        after: str = "",
        upload_id: str | None = None,
        part: int = 0,
        max_parts: int = PARTS_MAX,
    ) -> PartPage:
        """Of uploads under way to keys that begin with `prefix` and are after `after`; with
        `upload_id` also the uploads to that key after it, and its own parts after `part`."""
        last = None
        if upload_id is not None and after.startswith(prefix):
            last = PartPlace(after, upload_id, part)
        with self._metadata.snapshot() as reader:
            require_bucket(reader, bucket)
            keys = KeyRange(bucket, *key_range_after(prefix, after))
            return parts_after(reader, keys, last, count_max=max_parts)

    def sample(self, *, only_current: bool = False) -> KeySample:
        """How the keys of all buckets are spread; of objects that are there now, or of versions."""
        with self._metadata.snapshot() as reader:
            return sample_keys(reader, only_current=only_current)


def _with_manifests(reader: Reader, listed: Iterable[ListedVersion]) -> list[StoredVersion]:
    """As many as fit on a page, and at least one."""
    found: list[StoredVersion] = []
    size = 0
    for version in listed:
        found.append(with_manifest(reader, version))
        size += len(found[-1].manifest or b"")
        if size >= MANIFEST_BYTES:
            break
    return found


def with_manifest(reader: Reader, listed: ListedVersion) -> StoredVersion:
    file = reader.manifest_file(listed.row.version_id)
    if file is None:
        return StoredVersion(*listed)
    return StoredVersion(*listed, file.file_state, file.data)


def versions_after(
    reader: Reader, keys: KeyRange, last: VersionPlace | None, *, count_max: int
) -> list[ListedVersion]:
    """Versions and delete markers, by key and then the newest first."""
    older: Iterable[VersionRow] = ()
    start, key = keys.start, None
    if last is not None:
        key = last.key
        older = reader.versions_before(keys.bucket, key, hlc=last.hlc, site_id=last.site_id)
        start = max(start, _key_after(key))
    page = []
    rows = chain(older, reader.versions_from(keys.bucket, start=start, end=keys.end))
    for row in islice(rows, count_max):
        page.append(ListedVersion(row, is_latest=row.key != key))
        key = row.key
    return page


def current_after(
    reader: Reader, keys: KeyRange, last: VersionPlace | None, *, count_max: int
) -> list[ListedVersion]:
    """The newest version of each key; delete markers are none."""
    start = keys.start if last is None else max(keys.start, _key_after(last.key))
    rows = reader.current_from(keys.bucket, start=start, end=keys.end)
    return [ListedVersion(row, is_latest=True) for row in islice(rows, count_max)]


def parts_after(
    reader: Reader,
    keys: KeyRange,
    last: PartPlace | None,
    *,
    count_max: int,
    uploads_max: int = UPLOADS_MAX,
) -> PartPage:
    """Parts by key, upload and number. A page may have none, and yet there are more."""
    parts: list[ListedPart] = []
    looked, looked_max = 0, uploads_max + (last is not None)
    for place in islice(_uploads_after(reader, keys, last), looked_max):
        looked += 1
        left = count_max - len(parts)
        rows = reader.parts(place.upload_id, after=place.number, limit=left)
        parts += [ListedPart(place.key, row) for row in rows]
        last = replace(place, number=rows[-1].number) if rows else place
        if len(parts) == count_max:
            return PartPage(parts, last)
    return PartPage(parts, last if looked == looked_max else None)


def _uploads_after(reader: Reader, keys: KeyRange, last: PartPlace | None) -> Iterator[PartPlace]:
    """The upload that was being told, if it is still there, and those behind it."""
    rest: Iterable[UploadRow] = ()
    start = keys.start
    if last is not None:
        begun = reader.upload(last.upload_id)
        if begun is not None and (begun.bucket, begun.key) == (keys.bucket, last.key):
            yield last
        rest = reader.uploads_after(keys.bucket, last.key, upload_id=last.upload_id)
        start = max(start, _key_after(last.key))
    for upload in chain(rest, reader.uploads_from(keys.bucket, start=start, end=keys.end)):
        yield PartPlace(upload.key, upload.upload_id, 0)


def _key_after(key: str) -> bytes:
    """The first place behind that key."""
    return key_bytes(key) + b"\0"
