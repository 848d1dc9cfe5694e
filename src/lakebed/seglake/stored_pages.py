"""Lists all versions and uploaded parts of a bucket in pages, for jobs that read whole buckets.

A page starts after the last entry of the previous page, whether or not that entry still exists. So
a version that exists during the whole listing is listed exactly once, even if others are added or
removed between pages. The cost of a page does not depend on the size of the bucket.
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

MANIFEST_BYTES = 8 * MIB  # a page ends when its manifests reach this size
UPLOADS_MAX = 1000  # maximum number of uploads read for one page of parts


class KeyRange(NamedTuple):
    """The keys of a bucket from `start` up to, but not including, `end`, in bytewise order."""

    bucket: str
    start: bytes
    end: bytes


class StoredObjects:
    """Lists the versions and uploaded parts of buckets in pages, and samples keys. Thread-safe."""

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
        """Returns a page of versions of the keys that have `prefix` and come after `after`.

        To continue within the versions of the key `after`, pass the `hlc` and `site_id` of its last
        listed version; the page then starts with the older versions of that key. With
        `only_current`, the page has only the newest version of each key, and no delete markers.
        With `manifests`, each version has its manifest and the state of its manifest file; the page
        then ends at `max_versions` versions or at about 8 MiB of manifests. A page of 0 versions is
        always the last page.
        """
        last = None
        if hlc is not None and after.startswith(prefix):
            last = VersionPlace(after, hlc, site_id)
        list_page = current_after if only_current else versions_after
        with self._metadata.snapshot() as reader:
            require_bucket(reader, bucket)
            if max_versions <= 0:
                return StoredVersions([], has_more=False)
            keys = KeyRange(bucket, *key_range_after(prefix, after))
            page = list_page(reader, keys, last, count_max=max_versions + 1)
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
        """Returns a page of the parts of uploads in progress.

        These are the uploads whose keys have `prefix` and come after `after`. To continue within
        the uploads to the key `after`, pass the upload id and the number (`part`) of the last
        listed part; the page then starts with the next part of that upload.
        """
        last = None
        if upload_id is not None and after.startswith(prefix):
            last = PartPlace(after, upload_id, part)
        with self._metadata.snapshot() as reader:
            require_bucket(reader, bucket)
            keys = KeyRange(bucket, *key_range_after(prefix, after))
            return parts_after(reader, keys, last, count_max=max_parts)

    def sample(self, *, only_current: bool = False) -> KeySample:
        """Returns a sample of the keys in all buckets, weighted by their number of versions.

        With `only_current`, only versions that are current objects count.
        """
        with self._metadata.snapshot() as reader:
            return sample_keys(reader, only_current=only_current)


def _with_manifests(reader: Reader, listed: Iterable[ListedVersion]) -> list[StoredVersion]:
    """Returns the first versions of `listed` with their manifests.

    The last one is that with which the manifests reach `MANIFEST_BYTES` in total.
    """
    versions: list[StoredVersion] = []
    size = 0
    for version in listed:
        versions.append(with_manifest(reader, version))
        size += len(versions[-1].manifest or b"")
        if size >= MANIFEST_BYTES:
            break
    return versions


def with_manifest(reader: Reader, listed: ListedVersion) -> StoredVersion:
    file = reader.manifest_file(listed.row.version_id)
    if file is None:
        return StoredVersion(*listed)
    return StoredVersion(*listed, file.file_state, file.data)


def versions_after(
    reader: Reader, keys: KeyRange, last: VersionPlace | None, *, count_max: int
) -> list[ListedVersion]:
    """Returns up to `count_max` versions and delete markers in `keys`, after `last` if given.

    They are in order of key, and newest first within a key.
    """
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
    """Returns up to `count_max` current objects in `keys`, after the key of `last` if given."""
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
    """Returns a page of up to `count_max` parts in order of key, upload and number.

    The page starts after `last` if it is given. Reads the parts of at most `uploads_max` further
    uploads, so a page may be empty although more pages follow. A page of 0 parts is always the last
    page.
    """
    parts: list[ListedPart] = []
    if count_max <= 0:
        return PartPage(parts, None)
    upload_count, upload_count_max = 0, uploads_max + (last is not None)
    for place in islice(_uploads_after(reader, keys, last), upload_count_max):
        upload_count += 1
        left = count_max - len(parts)
        rows = reader.parts(place.upload_id, after=place.number, limit=left)
        parts += [ListedPart(place.key, row) for row in rows]
        last = replace(place, number=rows[-1].number) if rows else place
        if len(parts) == count_max:
            return PartPage(parts, last)
    return PartPage(parts, last if upload_count == upload_count_max else None)


def _uploads_after(reader: Reader, keys: KeyRange, last: PartPlace | None) -> Iterator[PartPlace]:
    """Yields each upload to list, as the position after which its parts are listed.

    The first is `last` itself, if its upload still exists. The others are positions before the
    first part of an upload.
    """
    later_uploads: Iterable[UploadRow] = ()
    start = keys.start
    if last is not None:
        last_upload = reader.upload(last.upload_id)
        if last_upload is not None and (last_upload.bucket, last_upload.key) == (
            keys.bucket,
            last.key,
        ):
            yield last
        later_uploads = reader.uploads_after(keys.bucket, last.key, upload_id=last.upload_id)
        start = max(start, _key_after(last.key))
    for upload in chain(later_uploads, reader.uploads_from(keys.bucket, start=start, end=keys.end)):
        yield PartPlace(upload.key, upload.upload_id, 0)


def _key_after(key: str) -> bytes:
    """Returns the smallest byte string that sorts after the key."""
    return key_bytes(key) + b"\0"
